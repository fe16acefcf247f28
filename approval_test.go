package nightcrier

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each step is a decision: who, yes or no, about what, and with what arguments; and what comes of it.
func TestDecide(t *testing.T) {
	at := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	const asked, edited = `{"name":"shop","replicas":3}`, `{"name":"shop","replicas":1}`
	type step struct {
		by, verdict string // yes, no, old (yes, about what was asked first), edit
		code        Code   // "" for none
		status      ApprovalStatus
	}
	for name, c := range map[string]struct {
		change func(*Approval)
		steps  []step
		edited string
	}{
		"one of one":        {nil, []step{{"bob", "yes", "", ApprovalGranted}}, ""},
		"twice the same":    {nil, []step{{"bob", "yes", "", ApprovalGranted}, {"bob", "yes", "", ApprovalGranted}}, ""},
		"a second answer":   {nil, []step{{"bob", "yes", "", ApprovalGranted}, {"cy", "no", Conflict, ApprovalGranted}}, ""},
		"refused":           {nil, []step{{"bob", "no", "", ApprovalRefused}, {"cy", "yes", Conflict, ApprovalRefused}}, ""},
		"a stranger":        {nil, []step{{"eve", "yes", Refused, ApprovalPending}, {"", "no", Refused, ApprovalPending}}, ""},
		"who asked":         {nil, []step{{"ann", "yes", Refused, ApprovalPending}, {"ann", "no", Refused, ApprovalPending}}, ""},
		"two of three":      {func(a *Approval) { a.Needed = 2 }, []step{{"bob", "yes", "", ApprovalPending}, {"bob", "yes", "", ApprovalPending}, {"cy", "yes", "", ApprovalGranted}}, ""},
		"one is against":    {func(a *Approval) { a.Needed = 2 }, []step{{"bob", "yes", "", ApprovalPending}, {"cy", "no", "", ApprovalRefused}}, ""},
		"edited":            {nil, []step{{"bob", "edit", "", ApprovalGranted}}, edited},
		"edited, two":       {func(a *Approval) { a.Needed = 2 }, []step{{"bob", "yes", "", ApprovalPending}, {"cy", "edit", "", ApprovalPending}, {"bob", "old", Conflict, ApprovalPending}, {"bob", "yes", "", ApprovalGranted}}, edited},
		"a step is no call": {func(a *Approval) { a.Kind = ApproveStep }, []step{{"bob", "edit", Invalid, ApprovalPending}}, ""},
		"expired":           {func(a *Approval) { a.ExpiresAt = at }, []step{{"bob", "yes", Conflict, ApprovalPending}}, ""},
		"not yet":           {func(a *Approval) { a.ExpiresAt = at.Add(1) }, []step{{"bob", "yes", "", ApprovalGranted}}, ""},
		"withdrawn":         {func(a *Approval) { a.Status = ApprovalWithdrawn }, []step{{"bob", "yes", Conflict, ApprovalWithdrawn}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := Approval{ID: "a", RunID: "r", Step: "s", Kind: ApproveCall, Server: "k8s", Tool: "apply", Arguments: json.RawMessage(asked), RequestedBy: "ann", Approvers: []string{"ann", "bob", "cy"}, Needed: 1, Status: ApprovalPending}
			if c.change != nil {
				c.change(&a)
			}
			a.Digest = a.ComputeDigest()
			first := a.Digest
			for i, s := range c.steps {
				d := Decision{By: s.by, Approve: s.verdict != "no", Reason: "because", At: at, Digest: a.Digest}
				switch s.verdict {
				case "edit":
					d.Arguments = json.RawMessage(`{"replicas": 1, "name": "shop"}`)
				case "old":
					d.Digest = first
				}
				if err := a.Decide(d); err == nil && s.code != "" || err != nil && CodeOf(err) != s.code || a.Status != s.status {
					t.Errorf("step %d: %v, %s", i, err, a.Status)
				}
			}
			if string(a.Edited) != c.edited || (c.edited == "") != (a.Digest == first) || a.Digest != a.ComputeDigest() {
				t.Errorf("edited to %s, digest %s", a.Edited, a.Digest)
			}
		})
	}
}

// A refusal says why, as who asked goes on with it.
func TestARefusalHasAReason(t *testing.T) {
	a := Approval{Approvers: []string{"bob"}, Needed: 1, Status: ApprovalPending}
	if err := a.Decide(Decision{By: "bob", Reason: " "}); CodeOf(err) != Invalid {
		t.Error(err)
	}
	if err := a.Decide(Decision{By: "bob", Reason: "no"}); err != nil || a.Outcome() != "refused by bob: no" {
		t.Error(err, a.Outcome())
	}
}

// What is decided about is all in the digest, and no two things have the same.
func TestTheDigestOfAnApproval(t *testing.T) {
	seen := []string{(&Approval{}).ComputeDigest()}
	for name, a := range map[string]Approval{
		"id": {ID: "x"}, "run": {RunID: "x"}, "step": {Step: "x"}, "kind": {Kind: "x"}, "prompt": {Prompt: "x"}, "server": {Server: "x"}, "tool": {Tool: "x"},
		"arguments": {Arguments: json.RawMessage("{}")}, "moved": {ID: "x", RunID: "x"}, "joined": {ID: "xx"},
	} {
		if d := a.ComputeDigest(); slices.Contains(seen, d) {
			t.Errorf("%s is not in it", name)
		} else {
			seen = append(seen, d)
		}
	}
}

func TestCanonicalArguments(t *testing.T) {
	const big = "12345678901234567890"
	for raw, want := range map[string]string{
		`{"b": 1, "a": [ {"d":1,"c":2} ]}`: `{"a":[{"c":2,"d":1}],"b":1}`, `{"n": ` + big + `, "t": "<&>"}`: `{"n":` + big + `,"t":"<&>"}`,
		`[]`: "", `null`: "", `{} {}`: "", `{`: "", `"x"`: "",
	} {
		got, err := CanonicalArguments(json.RawMessage(raw))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
		if again, err := CanonicalArguments(got); want != "" && (err != nil || string(again) != want) {
			t.Errorf("%s again: %s, %v", raw, again, err)
		}
	}
	if text := fmt.Sprint((&Approval{Status: ApprovalPending}).Outcome()); !strings.Contains(text, "waits") {
		t.Error(text)
	}
}
