package sandboxtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// The scripted ones keep the contract as well, as far as it is not the machine that keeps
// it: what a policy, a limit and the death of a process do is only told of real ones.
func TestFakesConform(t *testing.T) {
	m := &Machine{}
	b := Backend{
		New: func(_ context.Context, name string, stdout *os.File) (sandbox.Sandbox, []net.Listener, error) {
			f := &Fake{Held: sandbox.Held{Layers: []string{"scripted"}}, Program: shell}
			own, err := syscall.Dup(int(stdout.Fd())) // the caller closes its own
			if err != nil {
				return nil, nil, err
			}
			f.Stdout = os.NewFile(uintptr(own), "stdout")
			var listeners []net.Listener
			for range Listeners {
				l, err := net.Listen("tcp4", "127.0.0.1:0")
				if err != nil {
					return nil, nil, err
				}
				listeners = append(listeners, l)
			}
			return m.Put(name, f), listeners, nil
		},
		Reaper: m, Stranger: &Machine{},
		Policy: func(string) sandbox.Policy { return sandbox.Policy{} },
		Attack: func(name string, args ...string) []string { return append([]string{name}, args...) },
	}
	Lifecycle(t, b)
	Agents(t, b)
}

var (
	exiting = regexp.MustCompile(`(?:^|; )exit (\d+)$`)
	raises  = regexp.MustCompile(`^kill -(\w+) \$\$$`)
	fetches = regexp.MustCompile(`'fetch' '([^']+)'`)
)

// shell plays what the suite has a shell do.
func shell(c sandbox.Command, out io.Writer, signals <-chan syscall.Signal, started func(), killed <-chan struct{}) (sandbox.Exit, error) {
	if c.Argv[0] != "/bin/sh" {
		return sandbox.Exit{}, fmt.Errorf("start %s: no such file", c.Argv[0])
	}
	script := c.Argv[2]
	started()
	if strings.Contains(script, "echo up") {
		fmt.Fprintln(out, "up")
	}
	if all := fetches.FindAllStringSubmatch(script, -1); all != nil {
		for _, f := range all {
			conn, err := net.Dial("tcp", f[1])
			if err != nil {
				return sandbox.Exit{Code: 1}, nil
			}
			_, _ = io.Copy(out, conn)
			conn.Close()
		}
		return sandbox.Exit{}, nil
	}
	if m := exiting.FindStringSubmatch(script); m != nil {
		code, err := strconv.Atoi(m[1])
		return sandbox.Exit{Code: code}, err
	}
	if m := raises.FindStringSubmatch(script); m != nil {
		sig := map[string]syscall.Signal{"SEGV": syscall.SIGSEGV, "KILL": syscall.SIGKILL}[m[1]]
		return sandbox.Exit{Code: 128 + int(sig), Signal: "SIG" + m[1]}, nil
	}
	for {
		select {
		case <-killed:
			return sandbox.Exit{}, nil // it is known how
		case <-signals:
			if strings.HasPrefix(script, "trap 'exit 9' INT") {
				fmt.Fprintln(out, "child")
				return sandbox.Exit{Code: 9}, nil
			}
		}
	}
}
