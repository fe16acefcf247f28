package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// byBob is what bob decides.
func byBob(approve bool, reason string) func(nightcrier.Approval) nightcrier.Decision {
	return func(nightcrier.Approval) nightcrier.Decision {
		return nightcrier.Decision{By: "bob", Approve: approve, Reason: reason}
	}
}

// nobody decides.
func nobody(nightcrier.Approval) nightcrier.Decision { return nightcrier.Decision{} }

func withPeople(p People) func(*Order) { return func(o *Order) { o.People = p } }

// What people decide is what becomes of the step that asks them.
func TestStepsThatAskPeople(t *testing.T) {
	const ask = "  - id: release\n    approval: {prompt: '\"Deploy \" + string(input.n) + \"?\"'}\n    with: {version: input.n}\n"
	for name, tt := range map[string]struct {
		file    string
		decides func(nightcrier.Approval) nightcrier.Decision
		people  People
		outcome nightcrier.State
		reason  string
		rows    []string
	}{
		"approved":             {steps(ask + "  - {id: b, skill: x/b, if: 'steps.release.output.by[0] == \"bob\"'}\n"), byBob(true, "go"), People{Approvers: []string{"bob"}}, nightcrier.StateSuccess, "", []string{"release success", "b success"}},
		"refused":              {steps(ask + "  - {id: b, skill: x/b}\n"), byBob(false, "not on a Friday"), People{Approvers: []string{"bob"}}, nightcrier.StateFailed, "refused by bob: not on a Friday", []string{"release failed", "b created, the step release failed"}},
		"refused, and goes on": {steps(strings.Replace(ask, "    with", "    on_failure: continue\n    with", 1) + "  - {id: b, skill: x/b, if: '!steps.release.success'}\n"), byBob(false, "no"), People{Approvers: []string{"bob"}}, nightcrier.StateSuccess, "", []string{"release failed", "b success"}},
		"expired":              {steps(ask + "  - {id: b, skill: x/b}\n"), nobody, People{Approvers: []string{"bob"}, Expires: time.Millisecond}, nightcrier.StateTimeout, "nobody decided until", []string{"release timeout", "b created, the step release failed"}},
		"nobody can":           {steps(ask), nobody, People{}, nightcrier.StateFailed, "nobody can decide", []string{"release failed"}},
		"a stranger can":       {steps(strings.Replace(ask, "}\n", ", approvers: [eve]}\n", 1)), nobody, People{Approvers: []string{"bob"}}, nightcrier.StateFailed, "eve is nobody whom", []string{"release failed"}},
		"no prompt":            {steps(strings.Replace(ask, "input.n)", "input.x)", 1)), nobody, People{Approvers: []string{"bob"}}, nightcrier.StateFailed, "the input has no x", []string{"release failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{decides: tt.decides, admits: true}
			run, rows := s.executed(t, tt.file, `{"n": 3}`, withPeople(tt.people))
			if run.Outcome != tt.outcome || !strings.Contains(run.FailureReason, tt.reason) || !slices.Equal(rows, tt.rows) {
				t.Errorf("%s (%s), %q", run.Outcome, run.FailureReason, rows)
			}
			list, _, err := s.store.Approvals(t.Context(), store.ApprovalFilter{RunID: run.ID})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range list {
				if a.Prompt != "Deploy 3?" || string(a.Arguments) != `{"version":3}` || a.Kind != nightcrier.ApproveStep || a.Step != "release" || a.Status == nightcrier.ApprovalPending {
					t.Errorf("asked %+v", a)
				}
			}
			entries, err := s.store.Journal(t.Context(), run.ID, 1, 100)
			if err != nil {
				t.Fatal(err)
			}
			told := 0
			for _, e := range entries {
				if e.Type == nightcrier.EntryApproval {
					told++
				}
			}
			if told != 2*len(list) {
				t.Errorf("the journal tells %d times of %d approvals", told, len(list))
			}
		})
	}
}

// asking pins a skill whose agent begins only when people agree.
type asking struct{}

// ResolveSkill implements pipeline.Resolver.
func (asking) ResolveSkill(name string) (pipeline.SkillPin, error) {
	return pipeline.SkillPin{Name: name, Digest: "sha256:0", Approval: "Deploy?"}, nil
}

// The agent of a skill that wants people's approval begins when they agree, and does nothing before.
func TestASkillThatAsksPeople(t *testing.T) {
	for name, tt := range map[string]struct {
		decides func(nightcrier.Approval) nightcrier.Decision
		rows    []string
		did     []string
	}{
		"approved": {byBob(true, "go"), []string{"a success"}, []string{"a#1"}},
		"refused":  {byBob(false, "no"), []string{"a failed"}, nil}, // and is not asked again, although it may be tried again
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{decides: tt.decides, admits: true, resolver: asking{}}
			_, rows := s.executed(t, steps("  - {id: a, skill: x/a, on_failure: retry, with: {version: input.n}}\n"), `{"n": 3}`, withPeople(People{Approvers: []string{"bob"}}))
			if !slices.Equal(rows, tt.rows) || !slices.Equal(s.noted(), tt.did) {
				t.Errorf("%q, did %q", rows, s.noted())
			}
			list, _, err := s.store.Approvals(t.Context(), store.ApprovalFilter{})
			if err != nil || len(list) != 1 || list[0].Prompt != "x/a: Deploy?" || string(list[0].Arguments) != `{"n":3,"version":3}` {
				t.Errorf("asked %+v, %v", list, err)
			}
		})
	}
}

// waiting starts a run that nobody answers, and waits until it asks.
func (s *site) waiting(t *testing.T, file string, change func(*Order)) Order {
	t.Helper()
	s.dir, s.decides = t.TempDir(), nobody
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	o, err := s.admit(t.Context(), file, "")
	if err != nil {
		t.Fatal(err)
	}
	change(&o)
	wake, stop := s.store.WatchJournal(o.RunID)
	defer stop()
	if err := s.engine.Start(Workflow, o.RunID, o); err != nil {
		t.Fatal(err)
	}
	for {
		run, err := s.store.Run(t.Context(), o.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if run.WaitsFor != nil && run.WaitsFor.For == nightcrier.WaitApproval {
			return o
		}
		<-wake
	}
}

// A run that waits has no lease, and its time stands still: the step behind has all of it.
func TestARunThatWaitsForPeopleHoldsNothing(t *testing.T) {
	t.Parallel()
	s := &site{}
	asked := steps("  - {id: release, approval: {prompt: '\"Go?\"'}}\n  - {id: b, skill: x/b}\n")
	var end time.Time
	o := s.waiting(t, asked, func(o *Order) {
		o.People = People{Approvers: []string{"bob"}}
		end = time.Now().Add(time.Hour)
		o.Deadline = end
	})
	run, err := s.store.Run(t.Context(), o.RunID)
	if err != nil || !run.Parked || !strings.Contains(run.WaitsFor.Text, "bob to decide: nightcrier approvals show ") {
		t.Errorf("it waits as %+v, %v", run, err)
	}
	list, _, err := s.store.Approvals(t.Context(), store.ApprovalFilter{RunID: o.RunID})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if _, err := s.store.DecideApproval(t.Context(), list[0].ID, nightcrier.Decision{By: "bob", Approve: true, Digest: list[0].Digest}); err != nil {
		t.Fatal(err)
	}
	if run, err := s.store.Run(t.Context(), o.RunID); err != nil || !run.Parked || run.Status != nightcrier.Admitted {
		t.Errorf("it took a lease: %+v, %v", run, err)
	}
	if got, err := s.store.AdmitNext(t.Context(), store.Limits{Total: 1, PerKey: 1}); err != nil || got == nil || got.ID != o.RunID {
		t.Fatal(got, err)
	}
	if run, rows := s.ended(t, o.RunID); run.Outcome != nightcrier.StateSuccess || !slices.Equal(rows, []string{"release success", "b success"}) {
		t.Errorf("%s, %q", run.Outcome, rows)
	}
	w := &Work{frozen: o, runner: s.runner}
	w.addWaited(time.Minute)
	if !w.frozen.Deadline.Equal(end.Add(time.Minute)) || !w.Order.Deadline.Equal(w.frozen.Deadline) {
		t.Errorf("after a minute the run ends at %s, not %s", w.frozen.Deadline, end.Add(time.Minute))
	}
}

// Who is cancelled while he waits is heard.
func TestARunThatWaitsForPeopleIsCancelled(t *testing.T) {
	t.Parallel()
	s := &site{}
	o := s.waiting(t, steps("  - {id: release, approval: {prompt: '\"Go?\"'}}\n  - {id: b, skill: x/b}\n"), withPeople(People{Approvers: []string{"bob"}}))
	if _, err := s.store.RequestCancelRun(t.Context(), o.RunID, "enough"); err != nil {
		t.Fatal(err)
	}
	s.runner.Cancel(o.RunID)
	run, rows := s.ended(t, o.RunID)
	if run.Outcome != nightcrier.StateCancelled || !slices.Equal(rows, []string{"release cancelled", "b created, the run was cancelled"}) {
		t.Errorf("%s, %q", run.Outcome, rows)
	}
	list, _, err := s.store.Approvals(t.Context(), store.ApprovalFilter{RunID: o.RunID})
	if err != nil || len(list) != 1 || list[0].Status != nightcrier.ApprovalWithdrawn {
		t.Errorf("%+v, %v", list, err)
	}
}

// Steps beside each other ask each for itself, and each goes on when it is answered.
func TestStepsBesideEachOtherAskPeople(t *testing.T) {
	t.Parallel()
	s := &site{admits: true, decides: func(a nightcrier.Approval) nightcrier.Decision {
		return nightcrier.Decision{By: "bob", Approve: a.Step != "west", Reason: "for " + a.Step}
	}}
	run, rows := s.executed(t, "name: p\non: manual\nphases:\n  - name: ask\n    type: parallel\n    steps:\n      - {id: east, approval: {prompt: '\"East?\"'}}\n      - {id: west, on_failure: continue, approval: {prompt: '\"West?\"'}}\n      - {id: look, skill: x/look}\n"+
		"  - name: go\n    steps:\n      - {id: b, skill: x/b, if: 'steps.east.success && !steps.west.success'}\n", "", withPeople(People{Approvers: []string{"bob"}}))
	slices.Sort(rows) // those beside each other begin in any order
	if run.Outcome != nightcrier.StateSuccess || !slices.Equal(rows, []string{"b success", "east success", "look success", "west failed"}) || run.WaitsFor != nil {
		t.Errorf("%s (%s), %q", run.Outcome, run.FailureReason, rows)
	}
}
