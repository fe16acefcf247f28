//go:build !linux

package decoy

// share needs Linux, as the sandbox does.
func (s *Set) share() {}
