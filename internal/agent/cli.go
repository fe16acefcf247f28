package agent

import (
	"bytes"
	"io"
	"os"
	"regexp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// cli is a vendor's program as it is installed here.
type cli struct {
	// read is what must be readable for it to run. The first is its own file, which is
	// what is started: the link to it may lie where the agent cannot look.
	read []string
	// path is the PATH on which it and its interpreter are found.
	path string
}

// uuid is what the CLIs call a session that they name by themselves. The name comes
// from the agent's output and goes onto a command line.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// findCLI finds the CLI for a job, by the operator's command or by its usual names. A
// session to go on with has to look like one of its sessions.
func (e Executor) findCLI(j Job, session *regexp.Regexp) (cli, error) {
	path, err := e.locateProgram(j.Command)
	if err != nil {
		return cli{}, nightcrier.Errorf(nightcrier.Invalid, "%w; install the %s CLI, or name it in agent.command", err, e.Command)
	}
	if err := checkRunnable(path); err != nil {
		return cli{}, err
	}
	read, err := sandbox.ProgramFiles(path)
	if err != nil {
		return cli{}, err
	}
	if j.Session != "" && !session.MatchString(j.Session) {
		return cli{}, nightcrier.Errorf(nightcrier.Invalid, "%q is no session of %s's", j.Session, e.Command)
	}
	return cli{read: read, path: pathWith(append([]string{path}, read[1:]...)...)}, nil
}

func (e Executor) locateProgram(command string) (string, error) {
	if command != "" {
		return findProgram(command)
	}
	path, err := findProgram(e.Command)
	if err != nil && e.Alias != "" {
		if other, otherErr := findProgram(e.Alias); otherErr == nil {
			return other, nil
		}
	}
	return path, err
}

// checkRunnable tells of a file that the system would refuse with "exec format error": a
// text without an interpreter. A script can lack its first line, and npm leaves such
// a stand-in for a CLI whose install script it was told not to run.
func checkRunnable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil // to be started it need not be readable
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	if head = head[:n]; bytes.HasPrefix(head, []byte("#!")) || bytes.IndexByte(head, 0) >= 0 {
		return nil
	}
	return nightcrier.Errorf(nightcrier.Invalid, "%s is neither a program nor a script that names its interpreter (#!) in its first line; a CLI whose file looks so was installed without its install script: install it again without npm's ignore-scripts", path)
}
