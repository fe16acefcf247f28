package telemetry

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestLinesForPeople(t *testing.T) {
	clock := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)
	for name, tt := range map[string]struct {
		level string
		want  string
	}{
		"info": {"info", "INFO  ready  listen=127.0.0.1:1\n" +
			"INFO  report ready  prod-1  shop/Deployment/cart  cart is killed  12s  nightcrier incidents report 01a2\n" +
			"INFO  agent failed  prod-1  shop/Deployment/pay  no report in time  5m0s  nightcrier incidents report 01a3\n" +
			"WARN  source is down  cluster=prod-1  error=no ‹secret›  attempt=2\n"},
		"debug": {"debug", "INFO  ready  listen=127.0.0.1:1\n" +
			"INFO  investigation begins  incident_id=01a2\n" +
			"INFO  report ready  prod-1  shop/Deployment/cart  cart is killed  12s  nightcrier incidents report 01a2\n" +
			"INFO  agent failed  prod-1  shop/Deployment/pay  no report in time  5m0s  nightcrier incidents report 01a3\n" +
			"WARN  source is down  cluster=prod-1  error=no ‹secret›  attempt=2\n"},
		"warn": {"warn", "WARN  source is down  cluster=prod-1  error=no ‹secret›  attempt=2\n"},
	} {
		var out bytes.Buffer
		log, err := NewLogger(&out, LogOptions{Level: tt.level, Format: "people", Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "‹secret›") }})
		if err != nil {
			t.Fatal(err)
		}
		log.Info("ready", ComponentKey, "app", EventKey, "ready", "listen", "127.0.0.1:1", "empty", "")
		one := log.With(ComponentKey, "run", ClusterKey, "prod-1")
		log.Info("investigation begins", IncidentKey, "01a2", EventKey, "investigation_started", "run", "r1")
		one.Info("investigation ended", IncidentKey, "01a2", EventKey, "investigation_ended", "status", "resolved", "object", "shop/Deployment/cart",
			"root_cause", "cart is killed \x1b[2J\n", "failure_reason", "", "took", "12s")
		one.Info("investigation ended", IncidentKey, "01a3", EventKey, "investigation_ended", "status", "agent_failed", "object", "shop/Deployment/pay",
			"root_cause", "", "failure_reason", "no report in time", "took", "5m0s")
		one.Warn("source is down", EventKey, "source_down", "error", errors.New("no\nhunter2"), "attempt", 2)
		if got := clock.ReplaceAllString(out.String(), ""); got != tt.want || len(got) == out.Len() {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
	var out bytes.Buffer
	log, _ := NewLogger(&out, LogOptions{Level: "info", Format: "people", Colour: true})
	log.Error("x\x1b[2Jy")
	if !strings.HasSuffix(out.String(), " \x1b[31;1mERROR\x1b[0m xy\n") {
		t.Errorf("%q", out.String())
	}
}

// Whatever came of an incident stands in its line.
func TestAnIncidentsLineSaysWhatCameOfIt(t *testing.T) {
	for name, tt := range map[string]struct {
		args []any
		want string
	}{
		"undetermined": {[]any{"status", "resolved", "verdict", "undetermined"}, "report ready  prod-1  shop/Deployment/cart  undetermined: no cause was found  2s"},
		"healthy":      {[]any{"status", "resolved", "verdict", "healthy"}, "report ready  prod-1  shop/Deployment/cart  healthy: nothing needs mending  2s"},
		"recovered":    {[]any{"status", "resolved", "verdict", "recovered"}, "report ready  prod-1  shop/Deployment/cart  recovered: nothing needs mending now  2s"},
		"a cause":      {[]any{"status", "resolved", "verdict", "fault", "root_cause", "it is full"}, "report ready  prod-1  shop/Deployment/cart  it is full  2s"},
		"a failure":    {[]any{"status", "agent_failed", "verdict", "undetermined", "failure_reason", "it was stopped"}, "agent failed  prod-1  shop/Deployment/cart  it was stopped  2s"},
		"no report":    {[]any{"status", "failed"}, "failed  prod-1  shop/Deployment/cart  no cause is named  2s"},
	} {
		var out bytes.Buffer
		log, err := NewLogger(&out, LogOptions{Level: "info", Format: "people"})
		if err != nil {
			t.Fatal(err)
		}
		log.Info("event taken in", EventKey, "event_taken_in")
		log.Info("source state changed", EventKey, "source_state", "from", "stopped", "to", "connecting")
		log.Info("investigation ended", append([]any{EventKey, "investigation_ended", ClusterKey, "prod-1", IncidentKey, "01a2", "object", "shop/Deployment/cart", "took", "2s"}, tt.args...)...)
		if got := out.String(); !strings.HasSuffix(got, " "+tt.want+"  nightcrier incidents report 01a2\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A terminal breaks no word, and a command is copied whole.
func TestLinesForPeopleFold(t *testing.T) {
	const id = "019ab9d0-1111-7222-8333-444455556666"
	write := func(width int, colour bool) string {
		var out bytes.Buffer
		log, err := NewLogger(&out, LogOptions{Level: "info", Format: "people", Width: width, Colour: colour})
		if err != nil {
			t.Fatal(err)
		}
		log.Info("investigation ended", EventKey, "investigation_ended", ClusterKey, "prod-1", IncidentKey, id, "object", "shop/Deployment/cart", "status", "resolved",
			"root_cause", strings.Repeat("container app is killed ", 6), "took", "2s")
		log.Warn("the credential is not read-only", "detail", strings.Repeat("may change pods, ", 9))
		return out.String()
	}
	for _, width := range []int{80, 120} {
		got := write(width, false)
		for line := range strings.Lines(got) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%d columns: %d in %q", width, n, line)
			}
		}
		if !strings.Contains(got, "nightcrier incidents report "+id+"\n") || strings.Count(got, "\n") < 4 {
			t.Errorf("%d columns:\n%s", width, got)
		}
		if plain := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(write(width, true), ""); plain[8:] != got[8:] {
			t.Errorf("colour folds otherwise:\n%s", plain)
		}
	}
	if got := write(0, false); strings.Count(got, "\n") != 2 {
		t.Errorf("folded without a width:\n%s", got)
	}
}
