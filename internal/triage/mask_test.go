package triage

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// spilling has every log speak of a value of which nothing says that it is a secret, and
// end in a line.
type spilling struct {
	diagnose.Reader
	value, line string
}

func (s spilling) Logs(ctx context.Context, ns, pod, container string, previous bool, tail, maxBytes int64) ([]byte, error) {
	text, err := s.Reader.Logs(ctx, ns, pod, container, previous, tail, maxBytes)
	return append(bytes.ReplaceAll(text, []byte("FATAL"), []byte("FATAL "+s.value)), s.line...), err
}

// What a worker learns in the end is hidden in all that is said of the run from then on,
// also where it was read before; what the preparation has learned the worker is told.
func TestWhatIsLearnedReachesEverySink(t *testing.T) {
	const late, early = "Hx7q9zK2", "Qw8e7rT6y"
	key := mask.New([]byte("0123456789abcdef0123456789abcdef"))
	agent := key.Learning()
	agent.String("password=" + late)
	box, err := agent.Seal()
	if err != nil {
		t.Fatal(err)
	}
	d, err := scenarios()
	if err != nil {
		t.Fatal(err)
	}
	reader := func(name string, _ *mask.Masker, _ func(context.Context, journal.Request) error) diagnose.Reader {
		return spilling{recorded(d, name), late, "DB_PASSWORD=" + early + "\n"}
	}
	b := newBench(t, "claude-code", reader, attempt{
		report: "facts", result: nightcrier.AgentResult{State: nightcrier.StateSuccess, FinalMessage: "it is " + late + " and " + early},
		says: []journal.Item{journal.OfMessage(journal.Message{Role: "assistant", Text: "I saw " + early})},
	})
	b.agents.learned = box
	b.investigate()
	for name, text := range map[string]string{
		"the final message": b.read(run.FinalMessage), "the final report": b.read(report.FinalFile), "report.json": b.read(machineFile),
		"the agent's report": b.read(agentReport), "the stored report": string(b.stored()),
	} {
		if strings.Contains(text, late) || strings.Contains(text, early) {
			t.Errorf("%s says it:\n%s", name, text)
		}
	}
	if facts := b.read(DiagnosisFile); !strings.Contains(facts, late) || !strings.Contains(b.read(report.FinalFile), key.Tag(late)) {
		t.Errorf("the facts did not hold it before, or nobody sees where it was:\n%s", facts)
	}
	if log := b.read(run.AgentLogFile); strings.Contains(log, early) || !strings.Contains(log, key.Tag(early)) {
		t.Errorf("agent.log:\n%s", log)
	}
	told := key.Learning()
	if len(b.agents.handed) != 1 || told.Unseal(b.agents.handed[0]) != nil || told.String(early) != key.Tag(early) || told.String(late) != late {
		t.Errorf("the worker was handed %d memories", len(b.agents.handed))
	}
}

func (b *bench) stored() []byte {
	b.Helper()
	raw, err := b.store.Report(b.Context(), b.inc.ID)
	b.must(err)
	return raw
}
