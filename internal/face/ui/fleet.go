package ui

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// The pages of a platform engineer: what the fleet is doing, what it costs, and what it was
// not allowed to do.

func (u *UI) showClusters(w http.ResponseWriter, r *http.Request) error {
	list := u.opt.Server.Statuses()
	slices.SortStableFunc(list, func(a, b nightcrier.SourceStatus) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return u.render(w, r, "clusters", "Clusters", list)
}

// suppressedPage is what arrived and started nothing, by reason.
type suppressedPage struct {
	Reason  nightcrier.Reason
	Reasons []countOf
	Events  []nightcrier.Event
	Next    string
	Total   int
}

// countOf is how often something was.
type countOf struct {
	Name  nightcrier.Reason
	Count int
	Means string
}

// reasonMeans say what the reasons are, for people.
var reasonMeans = map[nightcrier.Reason]string{
	nightcrier.BelowThreshold: "less severe than severity_threshold", nightcrier.Malformed: "nobody could read it", nightcrier.Oversized: "larger than what is taken",
	nightcrier.NotAFault: "it tells of no fault", nightcrier.Duplicate: "it had arrived before", nightcrier.DedupeWindow: "the same fault, reported again soon after",
	nightcrier.StormListed: "one of many at once: the storm's message lists it", nightcrier.QueueFull: "too many waited already", nightcrier.QueueExpired: "it waited too long",
	nightcrier.NothingToClear: "the end of something that is not known", nightcrier.OutsideNamespaces: "in a namespace that is not looked at",
	nightcrier.StillActive: "its incident was closed, and the fault goes on", nightcrier.SubscriptionErr: "the sender says that it cannot send",
}

func (u *UI) showSuppressed(w http.ResponseWriter, r *http.Request) error {
	q, only := r.URL.Query(), true
	p := suppressedPage{Reason: nightcrier.Reason(q.Get("reason"))}
	counts, err := u.opt.Incidents.Counts(r.Context())
	if err != nil {
		return err
	}
	for _, reason := range slices.Sorted(maps.Keys(counts.Suppressed)) {
		p.Reasons = append(p.Reasons, countOf{reason, counts.Suppressed[reason], reasonMeans[reason]})
		p.Total += counts.Suppressed[reason]
	}
	events, next, err := u.opt.Events.Events(r.Context(), store.EventFilter{Suppressed: &only, Reason: p.Reason, Cursor: q.Get("cursor"), Limit: perPage})
	if err != nil {
		return err
	}
	p.Events = events
	if next != "" {
		q.Set("cursor", next)
		p.Next = "/suppressed?" + q.Encode()
	}
	return u.render(w, r, "suppressed", "Suppressed", p)
}

func (u *UI) showSkills(w http.ResponseWriter, r *http.Request) error {
	list := u.opt.Server.ListSkills()
	slices.SortStableFunc(list, func(a, b api.SkillInfo) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name))
	})
	return u.render(w, r, "skills", "Skills", list)
}

func (u *UI) showPipelines(w http.ResponseWriter, r *http.Request) error {
	return u.render(w, r, "pipelines", "Pipelines", u.opt.Server.Graphs())
}

// spendPage is what models cost.
type spendPage struct {
	Spending
	Pipelines []store.RunSum
	// Bars are the days, the oldest first.
	Bars []Spent
}

// shownDays is how many days are drawn.
const shownDays = 30

func (u *UI) showSpend(w http.ResponseWriter, r *http.Request) error {
	s, err := u.opt.Server.Spending()
	if err != nil {
		return err
	}
	p := spendPage{Spending: s}
	days := map[string]Spent{}
	for _, d := range s.Days {
		days[d.Name] = d
	}
	today := u.opt.Now().UTC()
	for i := shownDays - 1; i >= 0; i-- {
		name := today.AddDate(0, 0, -i).Format(time.DateOnly)
		d := days[name]
		d.Name, d.Limit = name, s.PerDay
		p.Bars = append(p.Bars, d)
	}
	if p.Pipelines, err = u.opt.Runs.RunSums(r.Context()); err != nil {
		return err
	}
	return u.render(w, r, "spend", "Spend", p)
}

// doctorPage is what was found the last time that somebody asked.
type doctorPage struct {
	Checks []Check
	At     time.Time
}

func (u *UI) showDoctor(w http.ResponseWriter, r *http.Request) error {
	u.mu.Lock()
	p := doctorPage{u.checks, u.checked}
	u.mu.Unlock()
	return u.render(w, r, "doctor", "Doctor", p)
}

func (u *UI) runDoctor(w http.ResponseWriter, r *http.Request) error {
	checks, err := u.opt.Server.Doctor(r.Context())
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.checks, u.checked = checks, u.opt.Now()
	u.mu.Unlock()
	return u.done(w, r, "/doctor", nil)
}

func (u *UI) showSettings(w http.ResponseWriter, r *http.Request) error {
	list, err := u.opt.Server.Settings()
	if err != nil {
		return err
	}
	return u.render(w, r, "settings", "Settings", list)
}
