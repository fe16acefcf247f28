package run

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// An order is read as it was frozen, or not at all: what is not known in it may be a bound.
func TestOrdersThatCannotBeRead(t *testing.T) {
	frozen := Order{RunID: nightcrier.NewID(), Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}, Pipeline: pipeline.Frozen{Version: 1}, Agent: agent.Spec{Executor: "script", Timeout: time.Minute, Shell: true}}
	raw, err := json.Marshal(frozen)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := readOrder(raw); err != nil || !reflect.DeepEqual(o, frozen) {
		t.Errorf("%+v, %v", o, err)
	}
	for name, damaged := range map[string]string{
		"a bound of another version": strings.Replace(string(raw), `"timeout"`, `"deadline"`, 1),
		"half of it":                 string(raw[:len(raw)/2]),
		"another type":               strings.Replace(string(raw), `"shell":true`, `"shell":"yes"`, 1),
	} {
		if _, err := readOrder([]byte(damaged)); nightcrier.CodeOf(err) != nightcrier.Internal || !strings.Contains(err.Error(), "another version") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
