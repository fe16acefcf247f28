package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/text"
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

// Installed is a CLI as it stands on this machine.
type Installed struct {
	// Path is where it was found, links not resolved.
	Path string
	// Version is "" when it does not say.
	Version string
}

// maxManifest bounds the package.json that is read, maxVersionLine what a program
// may print of its version; versionTime is how long it may take.
const (
	maxManifest    = 1 << 20
	maxVersionLine = 4 << 10
	versionTime    = 15 * time.Second
)

var versionPattern = regexp.MustCompile(`\d{1,6}\.\d{1,6}\.\d{1,6}`)

// Find looks for the executor's CLI by command, or by its usual names where that is
// empty, and for its version: in the npm package that it belongs to, because some
// take seconds to say it themselves, else by running it. An error says that it is
// not there or does not run.
func (e Executor) Find(ctx context.Context, command string) (Installed, error) {
	path, err := e.locateProgram(command)
	if err != nil {
		return Installed{}, err
	}
	if err := checkRunnable(path); err != nil {
		return Installed{Path: path}, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Installed{}, nightcrier.Errorf(nightcrier.Invalid, "agent program %q: %w", command, err)
	}
	if v := e.packageVersion(real); v != "" {
		return Installed{Path: path, Version: v}, nil
	}
	v, err := askVersion(ctx, path)
	return Installed{Path: path, Version: v}, err
}

// packageVersion is the version of the npm package that a file belongs to, "" where that
// is not the executor's own or one that it has for a platform.
func (e Executor) packageVersion(file string) string {
	for dir := filepath.Dir(file); strings.Contains(dir, "/node_modules/"); dir = filepath.Dir(dir) {
		if name, version := readManifest(filepath.Join(dir, "package.json")); name == e.Package || strings.HasPrefix(name, e.Package+"-") {
			return version
		}
	}
	return ""
}

func readManifest(file string) (name, version string) {
	f, err := os.Open(file)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	var m struct{ Name, Version string }
	if json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&m) != nil {
		return "", ""
	}
	return m.Name, versionPattern.FindString(m.Version)
}

// askVersion runs the program, with nothing of our environment but what it needs to
// be found.
func askVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	home, err := os.MkdirTemp("", "nightcrier-version-")
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Exhausted, "make a temporary directory: %w", err)
	}
	defer os.RemoveAll(home)
	out := &text.Head{Max: maxVersionLine}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{"PATH=" + pathWith(path), "HOME=" + home, "TMPDIR=" + home, "DISABLE_AUTOUPDATER=1"}
	cmd.Stdout, cmd.Dir, cmd.WaitDelay = out, home, time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", nightcrier.Errorf(nightcrier.Unreachable, "%s --version did not end within %s", path, versionTime)
		}
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s --version: %w", path, err)
	}
	return versionPattern.FindString(string(out.Kept)), nil
}

// Tested reports whether the executor was tested with that version of its CLI.
func (e Executor) Tested(version string) bool { return slices.Contains(e.Versions, version) }

// LacksKubectl reports whether an agent would look with kubectl, which is not there,
// and can look with our tools instead.
func LacksKubectl(executor string) bool {
	e, err := For(executor)
	if err != nil || e.UsesTools || e.ToolPrefix == "" {
		return false
	}
	_, err = exec.LookPath("kubectl")
	return err != nil
}
