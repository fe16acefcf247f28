package selftest

import (
	"context"
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

// lures are what there is on this machine for an agent to get at: servers that
// answer, a process, files. They keep the marks that came to them.
type lures struct {
	// loopback, address and sixth listen for TCP and UDP: on 127.0.0.1, on an address
	// of the machine's and on ::1. The latter two are "" where there is none.
	loopback, address, sixth string
	// stream, datagram and abstract are Unix sockets.
	stream, datagram, abstract string
	// file holds the mark secret, in the directory of another workspace; shared is memory
	// that does, -1 where there is none.
	file, secret string
	shared       int
	process      *exec.Cmd

	close []func() error
	mu    sync.Mutex
	marks map[string]bool
}

// setLures puts them out; the caller takes them away.
func (b *Bench) setLures(ctx context.Context) (l *lures, err error) {
	l = &lures{marks: map[string]bool{}, secret: "secret-" + randomHex(16), shared: -1}
	defer func() {
		if err != nil {
			l.removeLures()
		}
	}()
	l.file = filepath.Join(b.Dir, "incident-"+nightcrier.NewID(), "output", "report.json")
	if err := writeFile(l.file, l.secret+"\n", 0o644); err != nil {
		return l, err
	}
	if l.loopback, err = l.serveTCPAndUDP("127.0.0.1"); err != nil {
		return l, err
	}
	if a := machineAddress(); a != "" {
		l.address, _ = l.serveTCPAndUDP(a) // "" where it is not to be had
	}
	l.sixth, _ = l.serveTCPAndUDP("::1")
	if err := l.openSockets(); err != nil {
		return l, err
	}
	l.share()
	l.process = exec.CommandContext(ctx, b.WorkerCommand[0], probe.Command, "stay", l.secret)
	l.process.Env = []string{"SELFTEST_SECRET=" + l.secret}
	if err := l.process.Start(); err != nil {
		return l, nightcrier.Errorf(nightcrier.Internal, "selftest: start a process to be attacked: %w", err)
	}
	l.close = append(l.close, func() error { return errors.Join(l.process.Process.Kill(), ignoreExit(l.process.Wait())) })
	return l, nil
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// removeLures takes all of them away.
func (l *lures) removeLures() {
	for _, c := range l.close {
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
func (l *lures) serveTCPAndUDP(host string) (addr string, err error) {
	tcp, udp, err := twoOnOne(func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(host, "0")) })
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
	}
	l.acceptMarks(tcp)
	l.receiveMarks(udp)
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
func (l *lures) openSockets() error {
	dir, err := os.MkdirTemp("", "nc-selftest-")
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "selftest: %w", err)
	}
	l.close = append(l.close, func() error { return os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "selftest: %w", err)
	}
	l.stream, l.datagram, l.abstract = filepath.Join(dir, "s"), filepath.Join(dir, "d"), "@nightcrier-selftest-"+randomHex(8)
	for _, path := range []string{l.stream, l.abstract} {
		s, err := net.Listen("unix", path)
		if err != nil {
			return nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
		}
		l.acceptMarks(s)
	}
	d, err := net.ListenPacket("unixgram", l.datagram)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
	}
	l.receiveMarks(d)
	for _, path := range []string{l.stream, l.datagram} {
		if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // the sandbox is tested, not the mode
			return nightcrier.Errorf(nightcrier.Exhausted, "selftest: %w", err)
		}
	}
	return nil
}

// maxMark bounds what is read of whoever comes.
const maxMark = 256

func (l *lures) acceptMarks(s net.Listener) {
	l.close = append(l.close, s.Close)
	go func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(probe.AnswerTime))
				said := make([]byte, maxMark)
				n, _ := conn.Read(said)
				l.noteMark(string(said[:n]))
				_, _ = conn.Write(said[:n]) // who hung up needs no answer
			}()
		}
	}()
}

func (l *lures) receiveMarks(s net.PacketConn) {
	l.close = append(l.close, s.Close)
	go func() {
		said := make([]byte, maxMark)
		for {
			n, from, err := s.ReadFrom(said)
			if err != nil {
				return
			}
			l.noteMark(string(said[:n]))
			if from != nil && from.Network() == "udp" {
				_, _ = s.WriteTo(said[:n], from)
			}
		}
	}()
}

// maxMarks bounds what is kept of those who come.
const maxMarks = 10_000

func (l *lures) noteMark(mark string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.marks) < maxMarks {
		l.marks[strings.TrimSpace(mark)] = true
	}
}

// hasHeard reports whether somebody said the mark to any of them.
func (l *lures) hasHeard(mark string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marks[mark]
}

func (l *lures) processID() string { return strconv.Itoa(l.process.Process.Pid) }
