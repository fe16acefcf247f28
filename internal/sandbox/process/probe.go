package process

import (
	"context"
	"errors"
	"slices"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Probe returns the layers that hold on this machine for an agent that works in
// dir, and why others do not. It confines an init that starts nothing. As a server does,
// it makes room for groups first.
func Probe(ctx context.Context, dir string) (layers, notes []string, err error) {
	divided := Divide()
	box, err := New(ctx, Options{Name: "probe", Owner: OwnerOf(dir), MaxMemoryBytes: 1 << 30, MaxProcesses: 64, MaxCPUs: 1})
	if err != nil {
		return nil, nil, err
	}
	layers, err = box.Confine(ctx, sandbox.Policy{Read: SystemFiles(), Write: []string{dir}, Devices: Devices()})
	box.Kill()
	box.Wait()
	notes = box.Notes()
	if divided != nil && !slices.Contains(layers, LayerMemory) {
		notes = append(notes, divided.Error())
	}
	return layers, notes, errors.Join(err, box.Close())
}
