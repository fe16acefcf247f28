package process

import (
	"context"
	"errors"
	"slices"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Probe returns what holds on this machine for an agent that works in dir. It confines an
// init that starts nothing. As a server does, it makes room for groups first.
func Probe(ctx context.Context, dir string) (sandbox.Held, error) {
	divided := Divide()
	s, err := New(ctx, Options{Name: "probe", Owner: OwnerOf(dir), MaxMemoryBytes: 1 << 30, MaxProcesses: 64, MaxCPUs: 1})
	if err != nil {
		return sandbox.Held{}, err
	}
	var held sandbox.Held
	err = s.Start(ctx, sandbox.Policy{Read: SystemFiles(), Write: []string{dir}, Devices: Devices()}, sandbox.Command{}, func(h sandbox.Held) error {
		held = h
		return errProbed
	})
	if errors.Is(err, errProbed) {
		err = nil
	}
	s.Kill()
	s.Wait()
	if divided != nil && !slices.Contains(held.Layers, LayerMemory) {
		held.Notes = append(held.Notes, divided.Error())
	}
	return held, errors.Join(err, s.Close())
}

// errProbed keeps a probe from starting anything.
var errProbed = errors.New("it is known what holds")
