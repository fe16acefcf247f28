package process

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
)

// OwnerOf names the owner of the sandboxes of all who share a directory, as the processes
// of this PID namespace see it: another's process ids say nothing here.
func OwnerOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	namespace, _ := os.Readlink("/proc/self/ns/pid") // none is one too
	sum := sha256.Sum256([]byte(namespace + dir))
	return hex.EncodeToString(sum[:8])
}

// mark names a Sandbox, its owner and the process that made it. It stands in the
// environment of the init and of the agent, and is the name of the sandbox's groups. The
// zero mark is that of a Sandbox without a name.
type mark struct {
	owner, name string
	maker       ID
}

const (
	markVariable = "NIGHTCRIER_SANDBOX"
	markPrefix   = "nightcrier"
	maxMark      = 200 // a group's name has 255 bytes at most
)

// newMark is that of a Sandbox which this process makes.
func newMark(o Options) (mark, error) {
	if o.Name == "" {
		return mark{}, nil
	}
	me, err := Identify(os.Getpid())
	if err != nil {
		return mark{}, nightcrier.Errorf(nightcrier.Internal, "name the sandbox: %w", err)
	}
	m := mark{o.Owner, o.Name, me}
	if parsed, ok := parseMark(m.String()); !ok || parsed != m {
		return mark{}, nightcrier.Errorf(nightcrier.Invalid, "name %q of owner %q is no name of a sandbox: letters, digits, - and _", o.Name, o.Owner)
	}
	return m, nil
}

// String has the form nightcrier.OWNER.NAME.PID-START.
func (m mark) String() string {
	return fmt.Sprintf("%s.%s.%s.%d-%d", markPrefix, m.owner, m.name, m.maker.PID, m.maker.Start)
}

func parseMark(s string) (mark, bool) {
	parts := strings.Split(s, ".")
	if len(s) > maxMark || len(parts) != 4 || parts[0] != markPrefix || !isName(parts[1]) || !isName(parts[2]) {
		return mark{}, false
	}
	pid, start, ok := strings.Cut(parts[3], "-")
	n, err := strconv.Atoi(pid)
	ticks, startErr := strconv.ParseUint(start, 10, 64)
	m := mark{parts[1], parts[2], ID{n, ticks}}
	return m, ok && err == nil && startErr == nil && m.String() == s
}

func isName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// envVariables is what a process with the mark has in its environment.
func (m mark) envVariables() []string {
	if m.name == "" {
		return []string{}
	}
	return []string{markVariable + "=" + m.String()}
}

func (m mark) isSameMark(other mark) bool { return m == other }

// markOf returns the mark that a process was started with.
func markOf(pid int) (mark, bool) {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return mark{}, false
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(markVariable+"=")); ok {
			return parseMark(string(value))
		}
	}
	return mark{}, false
}
