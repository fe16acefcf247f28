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
			"INFO  report ready  prod-1  shop/Deployment/cart  cart is killed [2J  12s  nightcrier incidents report 01a2\n" +
			"INFO  agent failed  prod-1  shop/Deployment/pay  no report in time  5m0s  nightcrier incidents report 01a3\n" +
			"WARN  source is down  cluster=prod-1  error=no ‹secret›  attempt=2\n"},
		"debug": {"debug", "INFO  ready  listen=127.0.0.1:1\n" +
			"INFO  investigation begins  incident_id=01a2\n" +
			"INFO  report ready  prod-1  shop/Deployment/cart  cart is killed [2J  12s  nightcrier incidents report 01a2\n" +
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
	if !strings.HasSuffix(out.String(), " \x1b[31;1mERROR\x1b[0m x[2Jy\n") {
		t.Errorf("%q", out.String())
	}
}
