//go:build !linux

package probe

import "errors"

var errNotHere = errors.New("not on this system")

func openSocket(string, string) error   { return errNotHere }
func multipath(string, string) error    { return errNotHere }
func fastOpen(string, string) error     { return errNotHere }
func callKernel(string, string) error   { return errNotHere }
func byOneOfAPair(string, string) error { return errNotHere }
func watchDir(string, string) error     { return errNotHere }
func readShared(string, string) error   { return errNotHere }
func hoard(string, string) error        { return errNotHere }
