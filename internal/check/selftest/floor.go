package selftest

import (
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/check/selftest/probe"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// RequireFloor asks for the sandbox as it is where a machine refuses namespaces, beside
// what a configuration may require.
const RequireFloor = "floor"

// Requires lists what may be required of the sandbox.
func Requires() []string {
	return []string{agent.RequireStrict, agent.RequireBestEffort, RequireFloor, agent.RequireNone}
}

// Confinement is what the attacks were made in.
type Confinement struct {
	// Require is what was asked for; Layers are those that held, and Missing those that
	// a strict sandbox has besides.
	Require string   `json:"require"`
	Layers  []string `json:"layers"`
	Missing []string `json:"missing"`
}

// String says it in one line.
func (s Confinement) String() string {
	text := s.Require + ": " + strings.Join(s.Layers, ", ")
	if len(s.Layers) == 0 {
		text = s.Require + ": no layer holds"
	}
	if len(s.Missing) > 0 {
		text += "; without " + strings.Join(s.Missing, ", ")
	}
	return text
}

// workerArgs start a worker as the bench's sandbox needs it.
func (b *Bench) workerArgs() []string {
	if b.Require != RequireFloor {
		return b.WorkerCommand[1:]
	}
	return append([]string{probe.FloorCommand}, b.WorkerCommand[1:]...)
}

// requiredSandbox is what the worker is told to require: of the floor it is not to know.
func (b *Bench) requiredSandbox() string {
	if b.Require == RequireFloor {
		return agent.RequireBestEffort
	}
	return b.Require
}

// sawSandbox notes the sandbox of a run. All runs have the same.
func (b *Bench) sawSandbox(t Trail) error {
	layers, ok := t.heldLayers()
	if !ok {
		return nil // it ended before
	}
	s := &Confinement{Require: b.Require, Layers: append([]string{}, layers...), Missing: append([]string{}, process.Strict(layers)...)}
	if b.Require == RequireFloor && slices.Contains(layers, process.LayerPIDNS) {
		return nightcrier.Errorf(nightcrier.Refused, "the sandbox's floor cannot be had here: namespaces could not be taken away")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sandbox = s
	return nil
}

// heldLayers are those of the sandbox that held, as the journal tells them.
func (t Trail) heldLayers() (layers []string, ok bool) {
	for _, e := range t.Entries {
		if s, err := journal.Decode[journal.State](e); e.Type == nightcrier.EntryState && err == nil && len(s.Layers) > 0 {
			return s.Layers, true
		}
	}
	return nil, false
}
