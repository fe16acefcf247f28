package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Sandbox and init speak JSON over a socket pair of packets: one packet a message,
// which may carry descriptors. Each request has one answer, in order; the
// exit comes unasked, once, at the end.

// request is what the Sandbox asks of its init; exactly one field is set.
type request struct {
	Isolate *isolation       `json:"isolate,omitempty"`
	Confine *confinement     `json:"confine,omitempty"` // with the mapping of owners, where there is one
	Exec    *sandbox.Command `json:"exec,omitempty"`
	Signal  int              `json:"signal,omitempty"` // has no answer
}

// isolation is what the init does with the namespaces that it was started in.
type isolation struct {
	Mounts bool `json:"mounts"`
	Net    bool `json:"net"`
	Listen int  `json:"listen"`
	Names  bool `json:"names"`
}

// confinement is what the init confines the agent to.
type confinement struct {
	sandbox.Policy
	// UID is a user id of the agent's own; 0 is none.
	UID int `json:"uid"`
	// Counted says that the agent's user has no other processes than the agent's:
	// then MaxProcesses, when it is not 0, bounds them.
	Counted      bool `json:"counted"`
	MaxProcesses int  `json:"maxProcesses"`
	// OwnNetwork says that the network is the agent's alone.
	OwnNetwork bool `json:"ownNetwork"`
}

// answer is what the init says.
type answer struct {
	Layers []string      `json:"layers,omitempty"`
	Notes  []string      `json:"notes,omitempty"`
	PID    int           `json:"pid,omitempty"`
	Exit   *sandbox.Exit `json:"exit,omitempty"`
	Err    string        `json:"err,omitempty"`
	// Names says that the last descriptor with this is the socket for names.
	Names bool `json:"names,omitempty"`
}

// maxPacket bounds a message: a command line and an environment fit easily.
// maxFDs bounds the descriptors that travel with one.
const (
	maxPacket = 192 << 10
	maxFDs    = 8
)

// link is one end of the socket pair.
type link struct{ conn *net.UnixConn }

// newPair returns our end, and the other one as a file to inherit.
func newPair() (*link, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "sandbox-init")
	ours, err := newLink(os.NewFile(uintptr(fds[0]), "sandbox"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// newLink takes over f.
func newLink(f *os.File) (*link, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("descriptor %s is no Unix socket", f.Name())
	}
	return &link{conn}, nil
}

// sendMessage writes a message; the files' descriptors travel with it.
func (l *link) sendMessage(v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxPacket || len(files) > maxFDs {
		return fmt.Errorf("message of %d bytes and %d descriptors is over the limit of %d and %d", len(b), len(files), maxPacket, maxFDs)
	}
	if len(files) == 0 { // the other calls are refused to a thread that is confined
		_, err = l.conn.Write(b)
		return err
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	_, _, err = l.conn.WriteMsgUnix(b, syscall.UnixRights(fds...), nil)
	return err
}

// receiveMessage reads a message, and the files that came with it.
func (l *link) receiveMessage(v any) ([]*os.File, error) {
	b, oob := make([]byte, maxPacket), make([]byte, syscall.CmsgSpace(4*maxFDs))
	n, oobn, _, _, err := l.conn.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := parseDescriptors(oob[:oobn])
	if err != nil {
		return nil, err
	}
	return files, json.Unmarshal(b[:n], v)
}

func parseDescriptors(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return nil, errors.Join(errors.New("unreadable control message"), err)
	}
	fds, err := syscall.ParseUnixRights(&msgs[0])
	if err != nil {
		return nil, errors.Join(errors.New("control message without descriptors"), err)
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		syscall.CloseOnExec(fd)
		files[i] = os.NewFile(uintptr(fd), "descriptor")
	}
	return files, nil
}
