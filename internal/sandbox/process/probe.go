package process

import "context"

// Probe returns the layers that hold on this machine, by confining an init that
// starts nothing.
func Probe(ctx context.Context) ([]string, error) {
	box, err := New(ctx, Options{Name: "probe"})
	if err != nil {
		return nil, err
	}
	defer box.Wait()
	defer box.Kill()
	return box.Confine(ctx, Policy{Read: SystemFiles(), Devices: Devices()})
}
