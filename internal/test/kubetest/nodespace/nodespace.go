// Package nodespace gives a test a place of its own on the machine for the
// programs of a Kubernetes node: namespaces for processes, mounts and the
// network, and a cgroup. Programs run there by name, started and signalled from
// outside; an init, which is a process of this package's too, reaps them.
//
// Nothing of it is seen by the machine's own container engine, and nothing stays:
// when the test binary ends, however that is, the init kills what is left,
// removes the cgroup and the directory, and with it the kernel takes back the
// mounts and the network.
package nodespace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// Address is the node's own address inside, and API where programs inside listen
// for what comes from outside.
const (
	Address = "10.245.0.1"
	API     = "127.0.0.1:6443"
)

// Config says where a space is.
type Config struct {
	Init   string // path of the program built from nodespace/init
	Dir    string // absolute; the space's own, removed when it ends
	Cgroup string // name of its cgroup, below the root of each hierarchy
}

// Space is a running space. Its methods may be called concurrently.
type Space struct {
	URL string // https://127.0.0.1:port outside, which is API inside

	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{} // closed when the init has ended

	mu      sync.Mutex
	encoder *json.Encoder
	next    int
	waiting map[int]chan answer
}

// request asks the init for something; answer is its word on it, or, with ID 0,
// says that a program ended by itself.
type (
	request struct {
		ID     int            `json:"id"`
		Do     string         `json:"do"` // run, start, signal
		Name   string         `json:"name,omitempty"`
		Argv   []string       `json:"argv,omitempty"`
		Signal syscall.Signal `json:"signal,omitempty"`
	}
	answer struct {
		ID     int    `json:"id"`
		Output string `json:"output,omitempty"`
		Error  string `json:"error,omitempty"`
	}
)

// ErrRefused is in the chain of Open's error when the machine does not give what
// a space needs: root, namespaces, cgroups to write, overlay mounts.
var ErrRefused = errors.New("the machine refuses a space of its own")

// Open makes the space and its init.
func Open(cfg Config) (*Space, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close() // the init has a copy
	door, err := l.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	defer door.Close()
	log, err := os.Create(filepath.Join(cfg.Dir, "init.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &Space{URL: "https://" + l.Addr().String(), done: make(chan struct{}), waiting: map[int]chan answer{}}
	s.cmd = exec.Command(cfg.Init, cfg.Dir, cfg.Cgroup)
	s.cmd.Stderr, s.cmd.ExtraFiles = log, []*os.File{door}
	isolate(s.cmd)
	if err := s.start(); err != nil {
		return nil, err
	}
	if _, err := s.ask(request{Do: "ready"}); err != nil {
		s.Close()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w: %s", ErrRefused, bytes.TrimSpace(said))
	}
	return s, nil
}

func (s *Space) start() error {
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.encoder = json.NewEncoder(s.stdin)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	go s.listen(stdout)
	return nil
}

// listen hands answers to those who wait for them, until the init has ended.
func (s *Space) listen(r io.Reader) {
	dec := json.NewDecoder(r)
	for {
		var a answer
		if dec.Decode(&a) != nil {
			break
		}
		s.mu.Lock()
		if to, ok := s.waiting[a.ID]; ok {
			to <- a
			delete(s.waiting, a.ID)
		}
		s.mu.Unlock()
	}
	_ = s.cmd.Wait() // why it ended is in its log
	close(s.done)
}

var errGone = errors.New("the node's init is gone; see init.log in its directory")

func (s *Space) ask(r request) (string, error) {
	to := make(chan answer, 1)
	s.mu.Lock()
	s.next++
	r.ID = s.next
	s.waiting[r.ID] = to
	err := s.encoder.Encode(r)
	s.mu.Unlock()
	if err != nil {
		return "", errGone
	}
	select {
	case a := <-to:
		if a.Error != "" {
			return a.Output, errors.New(a.Error)
		}
		return a.Output, nil
	case <-s.done:
		return "", errGone
	}
}

// Run runs a program inside and returns what it printed, with an error when it
// did not exit with 0.
func (s *Space) Run(argv ...string) (string, error) {
	out, err := s.ask(request{Do: "run", Argv: argv})
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", filepath.Base(argv[0]), err, out)
	}
	return out, nil
}

// Start starts a program inside under a name that no running one has. What it
// prints goes to NAME.log in the space's directory.
func (s *Space) Start(name string, argv ...string) error {
	_, err := s.ask(request{Do: "start", Name: name, Argv: argv})
	return err
}

// Signal sends a signal to the program started under the name; when the signal
// is SIGKILL it returns when the program is gone.
func (s *Space) Signal(name string, sig syscall.Signal) error {
	_, err := s.ask(request{Do: "signal", Name: name, Signal: sig})
	return err
}

// Await waits until the program started under the name has ended, which the
// programs of a node do not do by themselves, and returns why.
func (s *Space) Await(name string) error {
	_, err := s.ask(request{Do: "await", Name: name})
	return err
}

// Close ends the space and waits until everything of it is gone.
func (s *Space) Close() {
	_ = s.stdin.Close()
	<-s.done
}
