package worker

import (
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a socket of which every use fails, until it is closed.
type failing struct {
	net.Listener
	net.PacketConn
	tried  atomic.Int64
	closed atomic.Bool
}

func (f *failing) fail() error {
	f.tried.Add(1)
	if f.closed.Load() {
		return net.ErrClosed
	}
	return &net.OpError{Op: "accept", Err: syscall.EMFILE}
}

func (f *failing) Accept() (net.Conn, error)              { return nil, f.fail() }
func (f *failing) ReadFrom([]byte) (int, net.Addr, error) { return 0, nil, f.fail() }
func (f *failing) Close() error                           { f.closed.Store(true); return nil }
func (f *failing) Addr() net.Addr                         { return nil }

// A socket that fails is tried again, and not as fast as the machine can.
func TestSocketsThatFailAreTriedInPauses(t *testing.T) {
	for name, serve := range map[string]func(*failing){
		"the worker's": func(f *failing) { (&server{log: slog.New(slog.DiscardHandler)}).acceptFollowers(f) },
		"names":        func(f *failing) { (&names{conn: f}).answerNames(func(string) {}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{}
				ended := make(chan struct{})
				go func() { defer close(ended); serve(f) }()
				time.Sleep(time.Minute)
				if n := f.tried.Load(); n < 60 || n > 1000 {
					t.Errorf("it was tried %d times in a minute", n)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				began := time.Now()
				<-ended
				if d := time.Since(began); d > socketPause.Max {
					t.Errorf("it ended %s after it was closed", d)
				}
			})
		})
	}
}
