package fakemodel

// TB is the part of testing.TB that New needs; the package itself is also used
// outside tests and does not link the testing package.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// New starts a server for a test, which ends with it.
func New(tb TB) *Server {
	tb.Helper()
	s, err := Start()
	if err != nil {
		tb.Fatalf("fakemodel: %v", err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// MustAdd adds a scenario that the test wrote itself.
func (s *Server) MustAdd(tb TB, name string, sc Scenario) {
	tb.Helper()
	if err := s.Add(name, sc); err != nil {
		tb.Fatalf("fakemodel: %v", err)
	}
}
