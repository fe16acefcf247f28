package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// cli is a user of the binary, with an installation of their own.
type cli struct {
	*site
	t     *testing.T
	bin   string
	stdin string
	vars  []string // environment beside the bare minimum
}

// said is what one command came to.
type said struct {
	t           *testing.T
	args        []string
	out, errout string
	code        int
}

func (c *cli) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.bin, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(c.root)}, c.vars...)
	cmd.Dir = filepath.Dir(c.root)
	return cmd
}

// run runs a command to its end.
func (c *cli) run(args ...string) said {
	c.t.Helper()
	cmd := c.command(args...)
	var out, errout bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &out, &errout, strings.NewReader(c.stdin)
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("%v: %v", args, err)
	}
	return said{c.t, args, out.String(), errout.String(), cmd.ProcessState.ExitCode()}
}

// ok runs a command that must succeed.
func (c *cli) ok(args ...string) said {
	c.t.Helper()
	return c.run(args...).exits(0)
}

func (s said) exits(code int) said {
	s.t.Helper()
	if s.code != code {
		s.t.Fatalf("%v: exit code %d, want %d\nstdout: %s\nstderr: %s", s.args, s.code, code, s.out, s.errout)
	}
	return s
}

// has demands matches of expressions on stdout.
func (s said) has(expressions ...string) said {
	s.t.Helper()
	return s.match("stdout", s.out, expressions)
}

// tells demands matches of expressions on stderr.
func (s said) tells(expressions ...string) said {
	s.t.Helper()
	return s.match("stderr", s.errout, expressions)
}

func (s said) match(where, text string, expressions []string) said {
	s.t.Helper()
	for _, e := range expressions {
		if !regexp.MustCompile(e).MatchString(text) {
			s.t.Errorf("%v: %s has no %q:\n%s", s.args, where, e, text)
		}
	}
	return s
}

// decode reads stdout, which must be exactly one JSON document.
func (s said) decode(v any) said {
	s.t.Helper()
	dec := json.NewDecoder(strings.NewReader(s.out))
	if err := dec.Decode(v); err != nil {
		s.t.Fatalf("%v: %v in %q", s.args, err, s.out)
	}
	if _, err := dec.Token(); err != io.EOF {
		s.t.Errorf("%v: more than one document: %s", s.args, s.out)
	}
	return s
}

// write writes a file beside the workspace root and returns its path.
func (c *cli) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(filepath.Dir(c.root), name)
	c.must(os.WriteFile(path, []byte(text), 0o700))
	return path
}

// daemon is a running server.
type daemon struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// daemon starts a server and waits until it is subscribed to a cluster.
func (c *cli) daemon(watched string, args ...string) *daemon {
	c.t.Helper()
	log, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	c.must(err)
	defer log.Close()
	d := &daemon{cmd: c.command(args...), done: make(chan struct{})}
	d.cmd.Stderr = log
	c.must(d.cmd.Start())
	go func() {
		_ = d.cmd.Wait() // its state tells how it ended
		close(d.done)
	}()
	c.t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.done
	})
	c.eventually(func() string {
		if s := c.peer.Stats(watched); len(s.Subscribes) > 0 && s.Level != "" {
			return ""
		}
		return "not subscribed"
	})
	return d
}

// end sends a signal and returns the exit code.
func (c *cli) end(d *daemon, with syscall.Signal) int {
	c.t.Helper()
	c.must(d.cmd.Process.Signal(with))
	select {
	case <-d.done:
	case <-time.After(patience):
		c.t.Fatal("the server does not end")
	}
	return d.cmd.ProcessState.ExitCode()
}

// list is what `incidents list -o json` prints.
type list struct{ Incidents []nightcrier.Incident }

func (c *cli) until(id string, done func(nightcrier.Incident) bool) (inc nightcrier.Incident) {
	c.t.Helper()
	c.eventually(func() string {
		inc = nightcrier.Incident{}
		c.ok("incidents", "show", id, "--config", "nightcrier.yaml", "-o", "json").decode(&inc)
		if done(inc) {
			return ""
		}
		return fmt.Sprintf("incident %s is %s, %s", id, inc.Status, inc.State)
	})
	return inc
}

func closed(inc nightcrier.Incident) bool { return !inc.Status.Open() }

func running(inc nightcrier.Incident) bool { return inc.State == nightcrier.StateRunning }
