package agent

import (
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
)

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
	out := &bounded{left: maxVersionLine}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{"PATH=" + pathWith(path), "HOME=" + home, "TMPDIR=" + home, "DISABLE_AUTOUPDATER=1"}
	cmd.Stdout, cmd.Dir, cmd.WaitDelay = out, home, time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", nightcrier.Errorf(nightcrier.Unreachable, "%s --version did not end within %s", path, versionTime)
		}
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s --version: %w", path, err)
	}
	return versionPattern.FindString(string(out.kept)), nil
}

// bounded keeps the first bytes of what is written, and takes the rest silently.
type bounded struct {
	kept []byte
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	kept := p[:min(len(p), b.left)]
	b.left -= len(kept)
	b.kept = append(b.kept, kept...)
	return len(p), nil
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
