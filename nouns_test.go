package nightcrier

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestIDs(t *testing.T) {
	early, late := newID(time.UnixMilli(1_700_000_000_000)), newID(time.UnixMilli(1_700_000_000_001))
	if !ValidID(early) || early[14] != '7' || early >= late {
		t.Errorf("%s, then %s: not version 7, or not in order", early, late)
	}
	for _, bad := range []string{"", "x", strings.ToUpper(early), early + "0", early[:35], "../" + early[3:], strings.Replace(early, "-", "/", 1), early[:35] + "\n"} {
		if err := CheckID(bad); CodeOf(err) != Invalid {
			t.Errorf("%q was accepted as an id", bad)
		}
	}
}

func TestWhoDidARun(t *testing.T) {
	for want, steps := range map[string][]Step{
		"codex":            nil,
		"llm":              {{ID: "look"}, {ID: "a", Executor: "llm"}, {ID: "a", Attempt: 2, Executor: "llm"}, {ID: "left out"}},
		"llm, claude-code": {{ID: "a", Executor: "llm"}, {ID: "b", Executor: "claude-code"}},
	} {
		if got := (Run{Executor: "codex", Steps: steps}).DoneBy(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestSeverityWords(t *testing.T) {
	for word, want := range map[string]Severity{"critical": Critical, " WARN ": Warning, "page": Critical, "high": ErrorSeverity, "Normal": Info} {
		if got, ok := ParseSeverity(word); !ok || got != want {
			t.Errorf("%q is %v, %t", word, got, ok)
		}
	}
	if got, ok := ParseSeverity("who knows"); ok || got != Warning {
		t.Errorf("an unknown word is %v, %t: it must not hide a fault", got, ok)
	}
	var s Severity
	if err := json.Unmarshal([]byte(`"nope"`), &s); CodeOf(err) != Invalid {
		t.Errorf("an unknown severity in JSON: %v", err)
	}
	if !(Info < Warning && Warning < ErrorSeverity && ErrorSeverity < Critical) {
		t.Error("the scale does not rise")
	}
}

// TestFaultTypes holds docs/events.md to the list, and the list to what it promises.
func TestFaultTypes(t *testing.T) {
	docs, err := os.ReadFile("docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	for _, f := range FaultTypes() {
		row := fmt.Sprintf("| `%s` | %s | %s | ", f.ID, cmp.Or(string(f.Class), "its object's"), f.Severity)
		if !strings.Contains(string(docs), row) || !strings.HasSuffix(f.Meaning, ".") {
			t.Errorf("docs/events.md lacks %q, or %q is no sentence", row, f.Meaning)
		}
		for _, word := range append([]string{f.ID}, f.Also...) {
			if got, ok := FaultTypeCalled(strings.ToLower(word[:3]) + "_" + word[3:]); !ok || got.ID != f.ID || words[word] != "" {
				t.Errorf("%s is %q, %t, and of %q", word, got.ID, ok, words[word])
			}
			words[word] = f.ID
		}
	}
	if _, ok := FaultTypeCalled("SomethingNew"); ok {
		t.Error("an unknown word is a known type")
	}
}

func TestResourceIn(t *testing.T) {
	two := []string{"shop", "bank"}
	for _, c := range []struct {
		r    Resource
		in   []string
		want bool
	}{
		{Resource{Kind: "Pod", Namespace: "bank", Name: "a"}, two, true},
		{Resource{Kind: "Pod", Namespace: "shop2", Name: "a"}, two, false},
		{Resource{Kind: "Pod", Namespace: "shop2", Name: "a"}, nil, true},
		{Resource{Kind: "Node", Name: "shop2"}, two, true},
		{Resource{Kind: "Namespace", Name: "shop"}, two, true},
		{Resource{Kind: "Namespace", Name: "shop2"}, two, false},
		{Resource{}, two, true},
	} {
		if got := c.r.In(c.in); got != c.want {
			t.Errorf("%s in %v: %t", c.r, c.in, got)
		}
	}
}

func TestResourceCheck(t *testing.T) {
	good := Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "cart.v1", UID: "5a0c-1"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Resource){
		"no kind":          func(r *Resource) { r.Kind = "" },
		"no name":          func(r *Resource) { r.Name = "" },
		"path":             func(r *Resource) { r.Name = "../../etc/passwd" },
		"dots":             func(r *Resource) { r.Name = "a..b" },
		"newline":          func(r *Resource) { r.Name = "a\nb" },
		"mention":          func(r *Resource) { r.Namespace = "@here" },
		"shell":            func(r *Resource) { r.Name = "a;rm -rf" },
		"too long":         func(r *Resource) { r.Name = strings.Repeat("a", 254) },
		"long namespace":   func(r *Resource) { r.Namespace = strings.Repeat("a", 64) },
		"not ASCII":        func(r *Resource) { r.Kind = "Pоd" },
		"markup":           func(r *Resource) { r.UID = "<b>" },
		"apiVersion space": func(r *Resource) { r.APIVersion = "v1 " },
	} {
		r := good
		change(&r)
		if err := r.Check(); CodeOf(err) != Invalid {
			t.Errorf("%s: %+v was accepted", name, r)
		}
	}
}

func TestStatusesByAnyWords(t *testing.T) {
	for words, want := range map[string]IncidentStatus{
		"resolved": Resolved, "report ready": Resolved, "Report-Ready": Resolved, "agent_failed": AgentFailed, "agent failed": AgentFailed,
		"waiting": Pending, "pending": Pending, "listed": Listed, "listed in a storm": Listed, "INVESTIGATING": Investigating,
	} {
		if got, err := ParseIncidentStatus(words); err != nil || got != want {
			t.Errorf("%q: %q, %v", words, got, err)
		}
	}
	for _, bad := range []string{"", "ready", "done", "report  ready now"} {
		if got, err := ParseIncidentStatus(bad); CodeOf(err) != Invalid || got != "" || !strings.Contains(err.Error(), "resolved (report ready)") {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
	seen := map[string]bool{}
	for _, s := range IncidentStatuses() {
		if seen[s.Words()] {
			t.Errorf("two statuses are called %q", s.Words())
		}
		seen[s.Words()] = true
	}
}

func TestTransitions(t *testing.T) {
	statuses := IncidentStatuses()
	legal := map[string]bool{
		"pending investigating": true, "pending failed": true, "investigating resolved": true, "investigating failed": true,
		"investigating agent_failed": true, "resolved pending": true, "failed pending": true, "agent_failed pending": true,
		"pending listed": true, "listed pending": true,
	}
	for _, from := range statuses {
		for _, to := range statuses {
			if from.CanBecome(to) != legal[string(from)+" "+string(to)] {
				t.Errorf("an incident can become %s from %s: %t", to, from, from.CanBecome(to))
			}
		}
	}
	states := []State{StateCreated, StateStarting, StateRunning, StateSuccess, StateFailed, StateTimeout, StateCancelled}
	for _, from := range states {
		for _, to := range states {
			if from.CanBecome(to) && (from.Terminal() || from == to) {
				t.Errorf("a step goes on from %s to %s", from, to)
			}
			if early := from.EarlierThan(to); early != (from.CanBecome(to) || from == StateCreated && (to == StateRunning || to == StateSuccess || to == StateTimeout)) {
				t.Errorf("%s is earlier than %s: %t", from, to, early)
			}
		}
	}
}

func TestIncidentJSON(t *testing.T) {
	raw, err := json.Marshal(Incident{ID: "i", EventID: "e", Status: Pending, Cluster: "c", Resource: Resource{Kind: "Pod", Name: "p", Namespace: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"incidentId": "i", "id": "i", "eventId": "e", "triggeringEventId": "e", "namespace": "n", "status": "pending"} {
		if m[key] != want {
			t.Errorf("%s is %v, want %s", key, m[key], want)
		}
	}
	for key, v := range m {
		if v == "" {
			t.Errorf("%s is an empty string; unknown values are absent", key)
		}
	}
	var back Incident
	if err := json.Unmarshal(raw, &back); err != nil || back.ID != "i" || back.Resource.Namespace != "n" {
		t.Errorf("read back as %+v, %v", back, err)
	}
}

func TestRunJSON(t *testing.T) {
	for id, subject := range map[any]Subject{"i": {Kind: SubjectIncident, ID: "i"}, nil: {Kind: SubjectCall, ID: "c"}} {
		raw, err := json.Marshal(Run{ID: "r", Subject: subject, Status: Queued})
		var m map[string]any
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil || m["incidentId"] != id || m["runId"] != "r" || m["status"] != "queued" {
			t.Errorf("%s, %v, want the incident %v", raw, err, id)
		}
	}
}

func TestErrorCodes(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("outer: %w", Errorf(NotFound, "inner: %w", cause))
	if CodeOf(err) != NotFound || !errors.Is(err, cause) || err.Error() != "outer: inner: cause" {
		t.Errorf("%v has code %s", err, CodeOf(err))
	}
	if CodeOf(nil) != "" || CodeOf(cause) != Internal {
		t.Error("nil has no code, and an unknown error is internal")
	}
}

func TestChainHashCoversEveryField(t *testing.T) {
	e := JournalEntry{Run: "r", Seq: 1, Time: time.Unix(1, 2), Step: "s", Attempt: 1, Type: EntryLog, Data: json.RawMessage(`{}`), Key: "k"}
	seen := map[string]string{e.ChainHash("p"): "the entry itself"}
	for name, change := range map[string]func(*JournalEntry){
		"run": func(e *JournalEntry) { e.Run = "x" }, "seq": func(e *JournalEntry) { e.Seq = 2 }, "time": func(e *JournalEntry) { e.Time = time.Unix(1, 3) },
		"step": func(e *JournalEntry) { e.Step = "x" }, "attempt": func(e *JournalEntry) { e.Attempt = 2 }, "type": func(e *JournalEntry) { e.Type = EntryError },
		"data": func(e *JournalEntry) { e.Data = json.RawMessage(`[]`) }, "key": func(e *JournalEntry) { e.Key = "x" },
	} {
		c := e
		change(&c)
		h := c.ChainHash("p")
		if other, dup := seen[h]; dup {
			t.Errorf("a changed %s is not noticed: same hash as %s", name, other)
		}
		seen[h] = name
	}
	if e.ChainHash("q") == e.ChainHash("p") {
		t.Error("the predecessor is not covered")
	}
}
