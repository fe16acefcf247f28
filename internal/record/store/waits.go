package store

import (
	"fmt"
	"slices"

	"nightcrier.dev/nightcrier"
)

// WaitOf says what keeps an open run from going on, given the runs that hold a lease; nil
// where nothing does. For a queued run it is what AdmitNext decides by, the longest lasting
// first: one that waits for nothing is among the next.
func (l Limits) WaitOf(run nightcrier.Run, leased []nightcrier.Run) *nightcrier.Wait {
	leased = slices.DeleteFunc(slices.Clone(leased), func(other nightcrier.Run) bool { return other.Parked })
	if run.Status != nightcrier.Queued {
		return run.WaitsFor
	}
	if slices.Contains(l.Closed, run.Executor) {
		return &nightcrier.Wait{For: nightcrier.WaitBreaker, Text: fmt.Sprintf("the executor %s, which failed again and again; it is tried once a minute until it works", run.Executor)}
	}
	if holder := l.holderOf(run, leased); holder != "" {
		return &nightcrier.Wait{For: nightcrier.WaitKey, Text: fmt.Sprintf("its turn on %s, which run %s has", run.Key, holder)}
	}
	if len(leased) >= l.Total {
		return &nightcrier.Wait{For: nightcrier.WaitLimit, Text: fmt.Sprintf("one of the %d runs under way to end; no more may be at once", len(leased))}
	}
	return nil
}

// holderOf is the run that keeps another one off its key, "" where none does. Investigations and
// other runs do not share their keys.
func (l Limits) holderOf(run nightcrier.Run, leased []nightcrier.Run) string {
	var holders []string
	investigates := run.IncidentID() != ""
	for _, other := range leased {
		if other.Key == run.Key && (other.IncidentID() != "") == investigates {
			holders = append(holders, other.ID)
		}
	}
	if len(holders) == 0 || investigates && len(holders) < l.PerKey {
		return ""
	}
	return holders[0]
}
