// Package decoy puts out what an agent would like to get at, and hears who came.
package decoy

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/selftest/probe"
)

// Set is what there is on this machine for an agent to get at: servers that
// answer, a process, files. They keep the marks that came to them.
type Set struct {
	// Loopback, Address and Sixth listen for TCP and UDP: on 127.0.0.1, on an address
	// of the machine's and on ::1. The latter two are "" where there is none.
	Loopback, Address, Sixth string
	// Stream, Datagram and Abstract are Unix sockets.
	Stream, Datagram, Abstract string
	// File holds the mark Secret, in the directory of another workspace; Shared is memory
	// that does, -1 where there is none.
	File, Secret string
	Shared       int

	process *exec.Cmd
	close   []func() error
	mu      sync.Mutex
	marks   map[string]bool
}

// PutOut puts decoys out, their files below a directory; Remove takes them away. The
// process is one of the binary's.
func PutOut(ctx context.Context, dir, binary string) (s *Set, err error) {
	s = &Set{marks: map[string]bool{}, Secret: "secret-" + rand.Text(), Shared: -1}
	defer func() {
		if err != nil {
			s.Remove()
		}
	}()
	s.File = filepath.Join(dir, "incident-"+nightcrier.NewID(), "output", "report.json")
	err = os.MkdirAll(filepath.Dir(s.File), 0o700)
	if err == nil {
		err = os.WriteFile(s.File, []byte(s.Secret+"\n"), 0o644) //nolint:gosec // the sandbox is tested, not the mode
	}
	if err != nil {
		return s, nightcrier.Errorf(nightcrier.Exhausted, "selftest: write a file: %w", err)
	}
	if s.Loopback, err = s.serveTCPAndUDP("127.0.0.1"); err != nil {
		return s, err
	}
	if a := machineAddress(); a != "" {
		s.Address, _ = s.serveTCPAndUDP(a) // "" where it is not to be had
	}
	s.Sixth, _ = s.serveTCPAndUDP("::1")
	if err := s.openSockets(); err != nil {
		return s, err
	}
	s.share()
	s.process = exec.CommandContext(ctx, binary, probe.Command, "stay", s.Secret)
	s.process.Env = []string{"SELFTEST_SECRET=" + s.Secret}
	if err := s.process.Start(); err != nil {
		return s, nightcrier.Errorf(nightcrier.Internal, "selftest: start a process to be attacked: %w", err)
	}
	s.close = append(s.close, func() error { return errors.Join(s.process.Process.Kill(), ignoreExit(s.process.Wait())) })
	return s, nil
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// Remove takes all of them away.
func (s *Set) Remove() {
	for _, c := range s.close {
		_ = c() // what is gone already is as good
	}
}

// machineAddress is one that others reach this machine by, "" for none.
func machineAddress() string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

// serveTCPAndUDP answers over TCP and UDP on one port of an address.
func (s *Set) serveTCPAndUDP(host string) (addr string, err error) {
	tcp, udp, err := twoOnOne(func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(host, "0")) })
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
	}
	s.acceptMarks(tcp)
	s.receiveMarks(udp)
	return tcp.Addr().String(), nil
}

// portTries is how many ports are tried for one that is free for both.
const portTries = 20

// twoOnOne listens for TCP, and for UDP on the same port. Another may have that one
// already, since each of the two has its own ports: then it tries the next.
func twoOnOne(listen func() (net.Listener, error)) (tcp net.Listener, udp net.PacketConn, err error) {
	for range portTries {
		if tcp, err = listen(); err != nil {
			return nil, nil, err
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			return tcp, udp, nil
		}
		err = errors.Join(err, tcp.Close())
	}
	return nil, nil, err
}

// openSockets opens sockets in a directory with a short name: the kernel bounds their paths.
func (s *Set) openSockets() error {
	dir, err := os.MkdirTemp("", "nc-selftest-")
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "selftest: %w", err)
	}
	s.close = append(s.close, func() error { return os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "selftest: %w", err)
	}
	s.Stream, s.Datagram, s.Abstract = filepath.Join(dir, "s"), filepath.Join(dir, "d"), "@nightcrier-selftest-"+rand.Text()
	for _, path := range []string{s.Stream, s.Abstract} {
		socket, err := net.Listen("unix", path)
		if err != nil {
			return nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
		}
		s.acceptMarks(socket)
	}
	d, err := net.ListenPacket("unixgram", s.Datagram)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
	}
	s.receiveMarks(d)
	for _, path := range []string{s.Stream, s.Datagram} {
		if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // the sandbox is tested, not the mode
			return nightcrier.Errorf(nightcrier.Exhausted, "selftest: %w", err)
		}
	}
	return nil
}

// maxMark bounds what is read of whoever comes.
const maxMark = 256

func (s *Set) acceptMarks(on net.Listener) {
	s.close = append(s.close, on.Close)
	go func() {
		for {
			conn, err := on.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(probe.AnswerTime))
				said := make([]byte, maxMark)
				n, _ := conn.Read(said)
				s.noteMark(string(said[:n]))
				_, _ = conn.Write(said[:n]) // who hung up needs no answer
			}()
		}
	}()
}

func (s *Set) receiveMarks(on net.PacketConn) {
	s.close = append(s.close, on.Close)
	go func() {
		said := make([]byte, maxMark)
		for {
			n, from, err := on.ReadFrom(said)
			if err != nil {
				return
			}
			s.noteMark(string(said[:n]))
			if from != nil && from.Network() == "udp" {
				_, _ = on.WriteTo(said[:n], from)
			}
		}
	}()
}

// maxMarks bounds what is kept of those who come.
const maxMarks = 10_000

func (s *Set) noteMark(mark string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.marks) < maxMarks {
		s.marks[strings.TrimSpace(mark)] = true
	}
}

// HasHeard reports whether somebody said the mark to any of them.
func (s *Set) HasHeard(mark string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks[mark]
}

// ProcessID is that of a process whose arguments and environment hold Secret.
func (s *Set) ProcessID() string { return strconv.Itoa(s.process.Process.Pid) }
