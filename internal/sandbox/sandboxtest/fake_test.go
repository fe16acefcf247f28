package sandboxtest

import (
	"context"
	"os"
	"testing"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// The scripted ones keep the contract as well, as far as nothing happens in a box.
func TestFakesConform(t *testing.T) {
	m := &Machine{}
	Lifecycle(t, Backend{
		New: func(_ context.Context, name string, _ *os.File) (sandbox.Box, error) {
			return m.Put(name, &Fake{Held: []string{"scripted"}}), nil
		},
		Keeper: m, Stranger: &Machine{},
		Policy: func(string) sandbox.Policy { return sandbox.Policy{} },
	})
}
