//go:build !linux

package nodespace

import "errors"

// Serve works on Linux only.
func Serve(dir, cgroup string) error { return errors.New("only Linux has namespaces") }

// Sweep has nothing to do here.
func Sweep(prefix string) {}
