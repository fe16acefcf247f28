// Package budget is the record of what all runs of a store spend on models, and says
// before each call whether it still fits.
//
// The record is a directory with a file a day, to which every worker appends under
// one lock:
//
//	lock                held while the record is read on and written
//	alive               a locked byte for each call that is being made
//	2026-11-23.ledger   a line for each reservation, and one for what became of it
//
// There is no process to ask and none that may be away: workers outlive the server.
// A call is allowed when the most that it may cost is on disk, and is counted as that
// until it is known what it did cost. So a worker, or a machine, that dies at any
// moment leaves the sum too high and never too low: what it may have spent stays held.
package budget

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/retry"
)

const (
	extension = ".ledger"
	// lockPatience is how long another's turn may take before a call is refused.
	lockPatience = 10 * time.Second
	// keepDays is how long a day is listed, and counted for incidents that go on.
	keepDays = 35
)

// Ledger is the record, as one process sees it. It is safe for concurrent use.
type Ledger struct {
	dir string
	now func() time.Time

	mu     sync.Mutex
	lock   *os.File
	days   map[string]*day
	listed time.Time            // when the directory was last changed, as of its last listing
	sync   func(*os.File) error // waits for the disk
	alive  alive

	patience time.Duration
}

// Open opens the record in dir, which is made when it is not there.
func Open(dir string, now func() time.Time) (*Ledger, error) {
	if err := makeDir(dir); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
	}
	lock, err := openFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
	}
	l := &Ledger{dir: dir, now: now, lock: lock, days: map[string]*day{}, sync: fdatasync, patience: patience}
	if l.alive, err = openAlive(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := l.runLocked(l.readAllDays); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close lets go of the files. What is held stays held.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := errors.Join(l.lock.Close(), l.alive.close())
	for _, d := range l.days {
		err = errors.Join(err, d.file.Close())
	}
	clear(l.days)
	return err
}

// runLocked does something while nobody else reads on or writes, in this process or in
// another.
func (l *Ledger) runLocked(do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.acquireFileLock(); err != nil {
		return err
	}
	err := do()
	return errors.Join(err, portable.Unlock(l.lock))
}

// acquireFileLock waits for its turn, which takes microseconds: a process that was stopped in
// the middle of its own is not waited for without end.
func (l *Ledger) acquireFileLock() error {
	again := retry.Backoff{Min: 50 * time.Microsecond, Max: 5 * time.Millisecond}
	deadline := time.Now().Add(lockPatience)
	for failures := 1; ; failures++ {
		err := portable.TryLock(l.lock)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, portable.ErrLocked):
			return nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
		case time.Now().After(deadline):
			return nightcrier.Errorf(nightcrier.Unreachable, "budget: another process has held %s for %s: look which one with `fuser`", l.lock.Name(), lockPatience)
		default:
			time.Sleep(again.Wait(failures))
		}
	}
}

// settling is for how long after a change of the directory another may bear the same
// time: file systems count in ticks.
const settling = 50 * time.Millisecond

// readAllDays reads on all days that there are: what an incident has spent may stand in any.
// Most turns find no file new, or in the place of another.
func (l *Ledger) readAllDays() error {
	info, err := os.Stat(l.dir)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
	}
	if changed := info.ModTime(); !changed.Equal(l.listed) || time.Since(changed) < settling {
		if err := l.updateDays(); err != nil {
			return err
		}
		l.listed = changed
	}
	for _, d := range l.days {
		if err := d.readNewRecords(); err != nil {
			return err
		}
	}
	return nil
}

// updateDays opens what is new in the directory, and lets go of what is there no more.
func (l *Ledger) updateDays() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
	}
	for name, d := range l.days {
		if d.isReplaced() {
			delete(l.days, name)
			d.file.Close() // nothing of ours waits to be written
		}
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), extension)
		if _, err := time.Parse(dayFormat, name); !ok || err != nil || l.days[name] != nil {
			continue
		}
		if l.days[name], err = openDay(filepath.Join(l.dir, e.Name()), name, 0); err != nil {
			delete(l.days, name)
			return err
		}
	}
	return nil
}

// openToday opens the day of now, with all others read on: a call counts on the day on which
// it is reserved.
func (l *Ledger) openToday() (*day, error) {
	if err := l.readAllDays(); err != nil {
		return nil, err
	}
	name := l.now().UTC().Format(dayFormat)
	if d := l.days[name]; d != nil {
		return d, nil
	}
	d, err := openDay(filepath.Join(l.dir, name+extension), name, os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	if err := l.syncDir(); err != nil {
		return nil, errors.Join(err, d.file.Close())
	}
	l.days[name] = d
	return d, nil
}

func (l *Ledger) syncDir() error {
	f, err := os.Open(l.dir)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
	}
	if err = errors.Join(l.sync(f), f.Close()); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "budget: %w", err)
	}
	return nil
}

// scopesOf are the five sums that a call of who is counted in, those of runs, their steps and
// incidents over all days. A run has all that its steps have.
func (l *Ledger) scopesOf(who Who, limits Limits, d *day) []scope {
	var run, step, incident Sum
	for _, each := range l.days {
		run, step, incident = run.plusSum(each.runs[who.Run]), step.plusSum(each.steps[who]), incident.plusSum(each.incidents[who.Incident])
	}
	return []scope{
		{perRun, "this run", run, limits.Run},
		{perIncident, "this incident", incident, limits.Incident},
		{perClusterDay, "cluster " + who.Cluster + " on " + d.name, d.clusters[who.Cluster], limits.ClusterDay},
		{perDay, "all clusters on " + d.name, d.all, limits.Day},
		{perStep, "this step", step, limits.Step},
	}
}

// Check returns an error of code Exhausted when of one of the limits so little is left
// that no agent is started for it. What is held for calls that are still being made may
// come back, so it counts as left.
func (l *Ledger) Check(who Who, limits Limits) error {
	return l.runLocked(func() error {
		d, err := l.openToday()
		if err != nil {
			return err
		}
		for _, s := range l.scopesOf(who, limits, d) {
			if s.isSpent() && s.withoutHeld(l.underWay(s, who, d)).isSpent() {
				return l.recordRefusal(d, who, s, s.exhaustedError(nil))
			}
		}
		return nil
	})
}

// recordRefusal puts on record that a limit is reached, and returns why.
func (l *Ledger) recordRefusal(d *day, who Who, s scope, why error) error {
	return errors.Join(why, d.appendRecord(record{At: l.now().UTC(), Op: opRefuse, Who: who, Scope: s.key, Reason: why.Error()}))
}

// Account is the face of the ledger for one run.
func (l *Ledger) Account(who Who, limits Limits) *Account {
	return &Account{ledger: l, who: who, limits: limits}
}

// Tidy removes days that are listed no longer, and shortens those that are over.
func (l *Ledger) Tidy() error {
	return l.runLocked(func() error {
		if err := l.readAllDays(); err != nil {
			return err
		}
		now := l.now().UTC()
		oldest, over := now.AddDate(0, 0, -keepDays).Format(dayFormat), now.AddDate(0, 0, -1).Format(dayFormat)
		for name, d := range l.days {
			switch {
			case name < oldest:
				delete(l.days, name)
				if err := errors.Join(d.file.Close(), os.Remove(d.path)); err != nil {
					return nightcrier.Errorf(nightcrier.Exhausted, "budget: %w", err)
				}
			case name < over && d.settled > 0:
				if err := l.shortenDay(d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// shortenDay puts a file that says the same into the place of a day's file. Who has the
// old one open sees that at the next turn.
func (l *Ledger) shortenDay(d *day) error {
	tmp, err := os.CreateTemp(l.dir, d.name+".*")
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "budget: %w", err)
	}
	defer os.Remove(tmp.Name()) // fails once it is renamed
	for _, r := range d.summaryRecords(l.now().UTC()) {
		line, lineErr := r.encodeLine()
		if lineErr == nil {
			_, lineErr = tmp.Write(line)
		}
		err = errors.Join(err, lineErr)
	}
	if err = errors.Join(err, giveToOwnerOf(tmp, l.dir), l.sync(tmp), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), d.path)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "budget: %w", err)
	}
	return l.syncDir()
}

func compareWho(a, b Who) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Incident, b.Incident), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Step, b.Step))
}

// Line is what was spent in a scope.
type Line struct {
	// Name is a day, a cluster or an incident.
	Name string
	Sum
	// Refused is why nothing more was allowed for it on that day, "" when nothing was
	// refused; days and clusters only.
	Refused string
	// Waiting is how many runs wait now for what is held for others.
	Waiting int
}

// Spending is what was spent on a day.
type Spending struct {
	Day string
	// Line is the sum of the day; Clusters and Incidents are its parts, by name. What
	// incidents cost is counted over all days.
	Line
	Clusters, Incidents []Line
	// Days are all days on record, the newest first.
	Days []Line
}

// Spending tells of a day, named as 2006-01-02; empty is today.
func (l *Ledger) Spending(name string) (Spending, error) {
	s := Spending{Line: Line{Name: "all clusters"}}
	return s, l.runLocked(func() error {
		if err := l.readAllDays(); err != nil {
			return err
		}
		if s.Day = name; name == "" {
			s.Day = l.now().UTC().Format(dayFormat)
		}
		for _, d := range l.days {
			s.Days = append(s.Days, Line{Name: d.name, Sum: d.all, Refused: d.refusedAll})
		}
		slices.SortFunc(s.Days, func(a, b Line) int { return cmp.Compare(b.Name, a.Name) })
		if d := l.days[s.Day]; d != nil {
			l.describeDay(d, &s)
		}
		return nil
	})
}

func (l *Ledger) describeDay(d *day, s *Spending) {
	s.Sum, s.Refused = d.all, d.refusedAll
	clusters, incidents := map[string]int{}, map[string]int{}
	if d.name == l.now().UTC().Format(dayFormat) {
		for _, t := range l.waitingTickets(ticket{}.isBehind) {
			s.Waiting++
			clusters[t.Cluster]++
			incidents[t.Incident]++
		}
	}
	for name := range namesInEither(d.clusters, clusters) {
		s.Clusters = append(s.Clusters, Line{name, d.clusters[name], d.refused[name], clusters[name]})
	}
	for id := range namesInEither(d.incidents, incidents) {
		line := Line{Name: id, Waiting: incidents[id]}
		for _, each := range l.days {
			line.Sum = line.plusSum(each.incidents[id])
		}
		s.Incidents = append(s.Incidents, line)
	}
	for _, list := range [][]Line{s.Clusters, s.Incidents} {
		slices.SortFunc(list, func(a, b Line) int { return cmp.Compare(a.Name, b.Name) })
	}
}

// namesInEither are the names in either: a run may wait before it has spent anything.
func namesInEither[A, B any](a map[string]A, b map[string]B) map[string]bool {
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	return names
}
