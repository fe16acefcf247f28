package worker

import (
	"os"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/mask"
)

// What a worker learns of its run's secrets it hides in all that it hands over, and tells
// the server sealed; what the server has learned it knows from the start.
func TestAWorkerLearnsAndTellsWhatItLearned(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	server := mask.New(key).Learning()
	server.String("password=Qw8e7rT6y")
	told, err := server.Seal()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, `echo "API_PASSWORD=Hx7q9zK2"; echo "again: Hx7q9zK2, SHg3cTl6SzI= and Qw8e7rT6y"`)
	b.sec = backend.Secrets{MaskKey: key, Learned: told}
	r, entries := b.run()
	log := text(entries)
	if r.State != nightcrier.StateSuccess || !strings.Contains(log, "again: "+server.Tag("Hx7q9zK2")+", "+server.Tag("Hx7q9zK2")) || !strings.Contains(log, "and "+server.Tag("Qw8e7rT6y")) {
		t.Errorf("result %+v\n%s", r, log)
	}
	b.must(os.Remove(b.spec.ScriptPath))
	b.nowhere(t, "Hx7q9zK2", "SHg3cTl6SzI", "Qw8e7rT6y")
	ended, err := b.workers.Follow(t.Context(), b.handle(), 0, nil)
	sealed := ended.Learned
	if err != nil || server.Unseal(sealed) != nil || server.String("Hx7q9zK2") != server.Tag("Hx7q9zK2") {
		t.Errorf("the server was told %d bytes, %v", len(sealed), err)
	}
}
