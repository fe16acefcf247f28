package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/check/doctor"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{errors.New("boom"), 1, "nightcrier: boom\n"},
		{nightcrier.Errorf(nightcrier.Invalid, "bad"), 2, "nightcrier: bad\n"},
		{nightcrier.Errorf(nightcrier.NoReport, "none"), 3, "nightcrier: none\n"},
		{nightcrier.Errorf(nightcrier.NotFound, "gone"), 4, "nightcrier: gone\n"},
		{nightcrier.Errorf(nightcrier.Refused, "no"), 5, "nightcrier: no\n"},
		{errFound, 6, ""},
		{nightcrier.Errorf(nightcrier.Unreachable, "down"), 7, "nightcrier: down\n"},
		{nightcrier.Errorf(nightcrier.Interrupted, "stop"), 130, "nightcrier: stop\n"},
		{errSilent{nightcrier.Interrupted}, 130, ""},
		{errors.Join(nil, errSilent{nightcrier.Interrupted}), 130, ""},
		{hinted{nightcrier.Errorf(nightcrier.NotFound, "x"), "try y"}, 4, "nightcrier: x\n  try y\n"},
		{errors.New("one\ntwo"), 1, "nightcrier: several things are wrong:\n  one\n  two\n"},
		{errors.New("pod \x1b[2Jname\x07"), 1, "nightcrier: pod name\n"},
	} {
		var out bytes.Buffer
		p := &program{stderr: &out}
		if got := p.exitCodeFor(c.err); got != c.code || out.String() != c.says {
			t.Errorf("%v: %d %q, want %d %q", c.err, got, out.String(), c.code, c.says)
		}
	}
}

func TestTableAlignsAndColours(t *testing.T) {
	draw := func(colour bool) string {
		var out bytes.Buffer
		p := &program{stdout: &out, colour: colour}
		p.printTable(table{heading: []string{"A", "NAME"}, rows: [][]cell{{severityCell(nightcrier.Critical), plainCell("ü\x1b[2J")}, {plainCell(""), plainCell("two  words\nhere")}}})
		return out.String()
	}
	if got, want := draw(false), "A         NAME\ncritical  ü\n-         two words here\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := draw(true); !strings.Contains(got, "\x1b[31mcritical\x1b[0m  ü\n") {
		t.Errorf("%q", got)
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	p := &program{now: func() time.Time { return now }}
	for ago, want := range map[time.Duration]string{-time.Hour: "0s", 59 * time.Second: "59s", time.Minute: "1m", 59 * time.Minute: "59m",
		47 * time.Hour: "1d", 49 * time.Hour: "2d"} {
		if got := p.ageCell(now.Add(-ago)).text; got != want {
			t.Errorf("%s ago: %s, want %s", ago, got, want)
		}
	}
	if got := p.ageCell(time.Time{}).text; got != "" {
		t.Errorf("never: %q", got)
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	p := &program{now: func() time.Time { return now }}
	for s, want := range map[string]time.Time{"": {}, "2h": now.Add(-2 * time.Hour), "2026-04-01T00:00:00Z": time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)} {
		if got, err := p.parseMoment(s); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v", s, got, err)
		}
	}
	for _, bad := range []string{"-2h", "yesterday", "2"} {
		if _, err := p.parseMoment(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestTriageExit(t *testing.T) {
	valid := &nightcrier.Report{Valid: true}
	for name, c := range map[string]struct {
		inc  nightcrier.Incident
		rep  *nightcrier.Report
		want nightcrier.Code
	}{
		"valid":   {nightcrier.Incident{Status: nightcrier.Resolved}, valid, ""},
		"none":    {nightcrier.Incident{Status: nightcrier.Failed}, nil, nightcrier.NoReport},
		"invalid": {nightcrier.Incident{Status: nightcrier.AgentFailed}, &nightcrier.Report{}, nightcrier.NoReport},
		// A builtin fallback may be valid while the agent failed.
		"fallback": {nightcrier.Incident{Status: nightcrier.AgentFailed}, valid, nightcrier.NoReport},
	} {
		var out bytes.Buffer
		p := &program{stdout: &out, format: "json"}
		if got := nightcrier.CodeOf(p.printTriage(triage.Result{Incident: c.inc, Report: c.rep}, report.Beside{})); got != c.want || !strings.Contains(out.String(), `"incident"`) {
			t.Errorf("%s: %q, want %q; %s", name, got, c.want, out.String())
		}
	}
}

func TestChecksExit(t *testing.T) {
	var out bytes.Buffer
	p := &program{stdout: &out, format: "text"}
	if err := p.printChecks([]doctor.Check{{Status: "ok"}, {Status: "warn"}}); err != nil {
		t.Errorf("warnings are no failure: %v", err)
	}
	if err := p.printChecks([]doctor.Check{{Status: "fail"}, {Status: "ok"}}); !errors.Is(err, errFound) {
		t.Errorf("%v", err)
	}
}

func TestReadEvent(t *testing.T) {
	p := &program{stdin: strings.NewReader("{}")}
	if raw, err := p.readPayload("--event", "-", maxEvent); err != nil || string(raw) != "{}" {
		t.Errorf("%s, %v", raw, err)
	}
	p.stdin = strings.NewReader(strings.Repeat("x", maxEvent+1))
	if _, err := p.readPayload("--event", "-", maxEvent); nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Errorf("%v", err)
	}
	if _, err := p.readPayload("--event", "/absent/file", maxEvent); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("%v", err)
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		width int
		want  string
	}{{0, "ab  " + long}, {44, "ab  " + long}, {24, "ab  " + long[:19] + "…"}, {10, "ab  " + long}} {
		var out strings.Builder
		p := &program{stdout: &out, width: c.width}
		p.printTable(table{heading: []string{"H", "T"}, rows: [][]cell{{plainCell("ab"), plainCell(long)}}})
		if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), "\n"); got != c.want {
			t.Errorf("width %d: %q", c.width, got)
		}
	}
}

// On a narrow terminal an id is shown as far as it names its incident, and such a
// beginning is taken for it.
func TestIDsByTheirBeginning(t *testing.T) {
	const a, b, twin = "01a20801-a86e-796a-8cc4-045d390aba5f", "01a20801-a86f-796a-8cc4-045d390aba5f", "01a20801-a86e-7777-8cc4-045d390aba5f"
	for _, c := range []struct {
		width int
		list  []string
		want  []string
	}{
		{80, []string{a, b}, []string{"01a20801-a86e", "01a20801-a86f"}},
		{80, []string{a, b, twin}, []string{a, b, twin}},
		{110, []string{a}, []string{a}},
		{0, []string{a}, []string{a}},
	} {
		if got := (&program{width: c.width}).shownIDs(c.list); !slices.Equal(got, c.want) {
			t.Errorf("width %d: %q", c.width, got)
		}
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/runs") {
			_ = json.NewEncoder(w).Encode(api.RunList{Runs: []nightcrier.Run{{ID: a}, {ID: b}, {ID: twin}}})
			return
		}
		_ = json.NewEncoder(w).Encode(api.IncidentList{Incidents: []nightcrier.Incident{{ID: a}, {ID: b}, {ID: twin}}})
	}))
	defer server.Close()
	c, err := client.HTTP(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]struct {
		id   string
		code nightcrier.Code
	}{
		"01a20801-a86f": {b, ""}, a: {a, ""}, a[:35]: {a, ""},
		"01a20801-a86e": {"", nightcrier.Invalid}, "01a20801": {"", nightcrier.Invalid}, "01a20802": {"", nightcrier.NotFound},
	} {
		for _, thing := range []named{incidentNames, runNames} {
			if got, err := thing.wholeID(t.Context(), c, given); got != want.id || nightcrier.CodeOf(err) != want.code {
				t.Errorf("%q of %s: %q, %v", given, thing.many, got, err)
			}
		}
	}
}

func TestWhatStandsAloneIsWrapped(t *testing.T) {
	const hint = "make a read-only one, then start again"
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, "Hint  " + hint + "\n"},
		{44, "Hint  " + hint + "\n"},
		{24, "Hint  make a read-only\n      one, then start\n      again\n"},
		{16, "Hint  make a\n      read-only\n      one, then\n      start\n      again\n"},
		{15, "Hint  " + hint + "\n"},
	} {
		var out strings.Builder
		p := &program{stdout: &out, width: c.width}
		p.printTable(table{rows: [][]cell{{plainCell("Hint"), plainCell(hint)}}})
		if got := out.String(); got != c.want {
			t.Errorf("width %d:\n%s\nwant\n%s", c.width, got, c.want)
		}
	}
}

func TestANarrowTerminalDoesWithoutColumns(t *testing.T) {
	cause := strings.Repeat("y", 40)
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, "ID   EVENTS  WHERE  CAUSE\nabc  1       shop   " + cause},
		{60, "ID   EVENTS  WHERE  CAUSE\nabc  1       shop   " + cause},
		{50, "ID   WHERE  CAUSE\nabc  shop   " + cause[:37] + "…"},
		{40, "ID   CAUSE\nabc  " + cause[:34] + "…"},
		{5, "ID   CAUSE\nabc  " + cause},
	} {
		var out strings.Builder
		p := &program{stdout: &out, width: c.width}
		list := table{heading: []string{"ID", "EVENTS", "WHERE", "CAUSE"}, expendable: []string{"EVENTS", "WHERE"},
			rows: [][]cell{{plainCell("abc"), plainCell("1"), plainCell("shop"), plainCell(cause)}}}
		p.printTable(list)
		if got := strings.TrimSpace(out.String()); got != c.want {
			t.Errorf("width %d:\n%s\nwant\n%s", c.width, got, c.want)
		}
	}
}

func TestWhatPeopleWereToldIsShown(t *testing.T) {
	var out bytes.Buffer
	p := &program{stdout: &out, stderr: io.Discard, format: "text", now: time.Now}
	p.printIncident(nightcrier.Incident{ID: "i", Status: nightcrier.Resolved, CausedBy: "root"}, []nightcrier.Incident{{ID: "victim", FaultType: "CrashLoop"}}, []store.Notification{
		{Channel: "slack", Kind: "over", State: store.NotificationSuppressed, Reason: store.SameCause},
		{Channel: "slack", Kind: "outcome", State: store.NotificationUnknown, Detail: "it may have arrived"},
		{Channel: "slack", Kind: "severity_rose", State: store.NotificationSent, Detail: "not shown"},
	}, []nightcrier.Note{{By: "ana", Text: "first\n\x1b[2Jsecond"}}, []nightcrier.Question{
		{By: "ann", Text: "why?\x1b[2J", Answer: "because\x1b[2J of FACT-1", AnsweredAt: time.Now()}, {Text: "and now?", RunID: "r2"}, {Text: "else?", Failure: "it was stopped", AnsweredAt: time.Now()},
	})
	if strings.Contains(out.String(), "\x1b[2J") {
		t.Errorf("the terminal is steered: %q", out.String())
	}
	for _, want := range []string{"Caused by", "root\n", "victim", "slack, over: suppressed (same cause)", "slack, outcome: unknown (it may have arrived)", "slack, severity rose: sent\n", "ana: first", "ann asked: why?", "because", "somebody asked: and now? — being answered, by run r2", "no answer: it was stopped"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, out.String())
		}
	}
}

func TestProblemsOfASourceAreOneLine(t *testing.T) {
	const stale, mend = "a: watch does not see Node, Job: list Node: may not\n", "`nightcrier doctor` says how to mend it.\n"
	for width, want := range map[int]string{0: stale + mend, 120: stale + "b: watch is down: no route\n" + mend} {
		var said bytes.Buffer
		p := &program{stdout: io.Discard, stderr: &said, now: time.Now, width: width}
		p.printClusters([]nightcrier.SourceStatus{
			{Cluster: "a", Source: "watch", State: nightcrier.SourceStale, Problems: []string{"Node: list Node: may not", "Job: list Job: may not"}},
			{Cluster: "b", Source: "watch", State: nightcrier.SourceDown, LastError: "no route", Problems: []string{"Node: no route"}},
		})
		if said.String() != want {
			t.Errorf("width %d: said\n%s\nwant\n%s", width, said.String(), want)
		}
	}
}
