package api

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// Only somebody known decides, and about what was looked at.
func TestDecisions(t *testing.T) {
	const id = "0190a000-0000-7000-8000-00000000000a"
	asked := nightcrier.Approval{ID: id, RunID: run1, Pipeline: "p", Step: "s", Kind: nightcrier.ApproveCall, Prompt: "apply?", Tool: "apply", Arguments: []byte(`{"n":1}`),
		RequestedBy: "ann", Approvers: []string{"ann", "bob"}, Needed: 1, AskedAt: start, Status: nightcrier.ApprovalPending}
	asked.Digest = asked.ComputeDigest()
	tokens := map[string]string{"token-a": "ann", "token-b": "bob"}
	body := func(more string) string { return `{"digest": "` + asked.Digest + `"` + more + `}` }
	for name, c := range map[string]struct {
		verb, token, body string
		status            int
		say               string
	}{
		"approved":           {"approve", "token-b", body(""), 200, `"status":"approved"`},
		"edited":             {"approve", "token-b", body(`, "arguments": {"n": 2}`), 200, `"edited":{"n":2}`},
		"refused":            {"refuse", "token-b", body(`, "reason": "no"`), 200, `"status":"refused"`},
		"refused for no why": {"refuse", "token-b", body(""), 422, "reason"},
		"nobody known":       {"approve", "", body(""), 403, "only somebody known may decide"},
		"a wrong token":      {"approve", "token-c", body(""), 403, "only somebody known may decide"},
		"who asked":          {"approve", "token-a", body(""), 403, "somebody else has to decide: bob"},
		"something else":     {"approve", "token-b", `{"digest": "` + strings.Repeat("0", 64) + `"}`, 409, "look at it again"},
		"no digest":          {"approve", "token-b", `{}`, 422, "digest"},
		"no object":          {"approve", "token-b", body(`, "arguments": [1]`), 400, "no JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.approval = asked
			a := f.api(t, func(o *Options) {
				o.Approver = func(token string) string { return tokens[token] }
				o.IsApprover = func(name string) bool { return name == "ann" || name == "bob" }
			})
			r := httptest.NewRequest(http.MethodPost, path("approvals/"+id+"/"+c.verb), strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.say) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// A run that waits for people is shown with what it asks, and tells of it in its events.
func TestARunThatAsksPeople(t *testing.T) {
	p := newPlayed(t)
	p.api.opt.Approvals = p.store
	run, err := p.start(t.Context(), Call{Pipeline: "build", By: "ann"})
	p.must(err)
	p.run = run
	_, err = p.store.AdmitNext(t.Context(), store.Limits{Total: 1, PerKey: 1})
	p.must(err)
	p.step(nightcrier.Step{ID: "ask", Uses: "action:approval", State: atWork})
	a, err := p.store.AskApproval(t.Context(), nightcrier.Approval{ID: "0190a000-0000-7000-8000-00000000000a", RunID: run.ID, Step: "ask", Kind: nightcrier.ApproveCall, Prompt: "apply?", Tool: "apply", Server: "k8s",
		Arguments: []byte(`{"n":1}`), RequestedBy: "ann", Approvers: []string{"bob"}, Needed: 1}, true)
	p.must(err)
	_, err = p.store.NoteProgress(t.Context(), run.ID, store.Progress{WaitsFor: &nightcrier.Wait{For: nightcrier.WaitApproval, Text: "bob"}})
	p.must(err)
	p.say("ask", journal.OfApproval(a))
	shown := ask(p.api, "GET", path("executions", run.ID)).Body.String()
	for _, want := range []string{`"outcome":"pending_approval"`, `"pending_approvals":[{"approval_id":"` + a.ID + `","prompt":"apply?","tool":"apply","arguments":{"n":1},"server":"k8s","digest":"` + a.Digest + `"}]`} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s lacks %s", shown, want)
		}
	}
	a, err = p.store.DecideApproval(t.Context(), a.ID, nightcrier.Decision{By: "bob", Approve: true, Digest: a.Digest})
	p.must(err)
	p.say("ask", journal.OfApproval(a))
	var told []string
	q := newSequence(p.store, run.ID, func(_ int, event string, data any) error {
		if of, ok := data.(approval); ok {
			event += " " + string(of.Status) + " " + of.Outcome
		}
		told = append(told, event)
		return nil
	})
	_, err = q.advance(t.Context())
	p.must(err)
	if want := []string{"step_started", "approval_requested pending waits for a decision", "approval_decided approved approved by bob"}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}
