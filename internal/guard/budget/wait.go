package budget

import (
	"context"
	"fmt"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/retry"
)

// A call that would fit, were it not for what is held for other calls, waits: most of
// them will have cost far less. It waits for calls that are still being made, so never
// for those of dead workers, and holds nothing meanwhile, so nobody waits in a circle.
//
// Who waits longer goes first. A run that waits has a ticket on record, and later calls
// that are counted in the same limit wait behind it, even where they would fit: else
// one that needs much would wait until those that need little have spent all. A ticket
// is good for one call, so there are no more tickets than calls, and one a run.
//
// patience is for how long a call that fits waits behind others, whose workers may have
// been stopped.
const patience = 30 * time.Second

// looks are how long a call waits until it is seen again whether it fits.
var looks = retry.Backoff{Min: 10 * time.Millisecond, Max: 250 * time.Millisecond}

// ticket is a run's place among those that wait.
type ticket struct {
	name string // "" for none
	day  string
	n    int64 // on that day
}

// isBehind reports whether a ticket on record is older.
func (t ticket) isBehind(day string, r record) bool {
	return t.name == "" || day < t.day || day == t.day && r.N < t.n
}

// queued is one call that may have to wait.
type queued struct {
	since time.Time
	in    bool // it waits
}

// reserveWhenItFits reserves what a call wants, as soon as it fits. waits is told, at most once,
// why it does not yet.
func (a *Account) reserveWhenItFits(ctx context.Context, w Want, g *Grant, waits func(why string)) error {
	q := &queued{since: time.Now()}
	defer a.leaveQueue(q)
	for look := 1; ; look++ {
		waited, why := q.in, ""
		err := a.ledger.runLocked(func() (err error) {
			why, err = a.reserveCall(w, g, q)
			return err
		})
		if err != nil || why == "" {
			return err
		}
		if !waited && waits != nil {
			waits(why)
		}
		if !looks.Sleep(ctx, look) {
			return fmt.Errorf("budget: a call waited for others: %w", ctx.Err())
		}
	}
}

// enterQueue has a call wait for room in a scope. The run's ticket is on record and alive
// afterwards.
func (a *Account) enterQueue(d *day, q *queued, scope string) error {
	if !q.in {
		q.in = true
		a.waiting++
	}
	fresh := a.ticket.name == ""
	if fresh {
		a.ticket.name = nightcrier.NewID()
	}
	if err := a.ledger.alive.markAlive(a.ticket.name); err != nil || !fresh {
		return err
	}
	a.ticket.day, a.ticket.n = d.name, d.n+1
	return d.appendRecord(record{At: a.ledger.now().UTC(), Op: opWait, Call: a.ticket.name, Who: a.who, Scope: scope})
}

// leaveQueue is the end of a call's waiting. A run that waits again keeps its ticket, unless
// it was used.
func (a *Account) leaveQueue(q *queued) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if q.in {
		a.waiting--
	}
	if a.waiting == 0 && a.ticket.name != "" {
		a.ledger.alive.clearAlive(a.ticket.name)
	}
}

// useTicket returns the ticket that a call has waited with, which is good for no other then.
func (a *Account) useTicket(q *queued) string {
	if !q.in {
		return ""
	}
	used := a.ticket.name
	a.ticket = ticket{}
	a.ledger.alive.clearAlive(used)
	return used
}

// scopeQueuedAhead is the limit for which somebody waits who goes before a call of the account.
func (l *Ledger) scopeQueuedAhead(a *Account) (scope string, ok bool) {
	for _, t := range l.waitingTickets(a.ticket.isBehind) {
		if isSameScope(t.Scope, t.Who, a.who) {
			return t.Scope, true
		}
	}
	return "", false
}

// waitingTickets are those of all that wait now. Nobody waits for longer than a day.
func (l *Ledger) waitingTickets(which func(day string, r record) bool) []record {
	var list []record
	yesterday := l.now().UTC().AddDate(0, 0, -1).Format(dayFormat)
	for _, d := range l.days {
		for _, t := range d.waiting {
			if d.name >= yesterday && which(d.name, t) && l.alive.isAlive(t.Call) {
				list = append(list, t)
			}
		}
	}
	return list
}

// underWay is what is held in a scope of who for calls that are still being made.
func (l *Ledger) underWay(s scope, who Who, today *day) Amount {
	var sum Amount
	for _, d := range l.days {
		if d != today && (s.key == perClusterDay || s.key == perDay) {
			continue
		}
		for _, r := range d.open {
			if isSameScope(s.key, r.Who, who) && l.alive.isAlive(r.Call) {
				sum = sum.plusAmount(r.Amount)
			}
		}
	}
	return sum
}

// isSameScope reports whether two runs are counted in one scope.
func isSameScope(key string, a, b Who) bool {
	switch key {
	case perRun:
		return a.Run == b.Run
	case perStep:
		return a == b
	case perIncident:
		return a.Incident == b.Incident
	case perClusterDay:
		return a.Cluster == b.Cluster
	}
	return true
}
