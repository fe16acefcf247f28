// Package mcpsuite gives tests the public conformance suite of the Model Context
// Protocol, at a pinned version, with a Node that it accepts, so that our server and our
// clients are held against what the protocol's authors think that it says.
//
// Both are installed from npm into the cache (`make suite`, or NIGHTCRIER_CLI=install)
// and never kept in the repository.
package mcpsuite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/assetcache"
)

const (
	version     = "0.1.16"
	nodeVersion = "22.23.3"
	entry       = "mcp-conformance-" + version + "-node-" + nodeVersion
)

// Install makes sure that the suite and the reference servers are in the cache, and tells progress
// on log.
func Install(ctx context.Context, log io.Writer) error {
	_, err := install(ctx, log)
	if err == nil {
		_, err = installPeers(ctx, log)
	}
	return err
}

func install(ctx context.Context, log io.Writer) (string, error) {
	return assetcache.Ensure(ctx, entry, func(ctx context.Context, dir string) error {
		return assetcache.NPM(ctx, dir, log, "@modelcontextprotocol/conformance@"+version, nodePackage()+"@"+nodeVersion)
	})
}

// nodePackage is what has Node's program for this platform.
func nodePackage() string {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return "node-" + runtime.GOOS + "-" + arch
}

// Absent are scenarios of features that we do not have, with the reason for each.
type Absent map[string]string

// Server runs all scenarios for servers against the one at url. Those of absent must
// fail, and all others pass: so no feature that works can be left out.
func Server(tb testing.TB, url string, absent Absent) {
	tb.Helper()
	s := open(tb)
	known := s.scenarios("--server")
	var baseline strings.Builder
	baseline.WriteString("server:\n")
	for name, why := range absent {
		if !slices.Contains(known, name) || why == "" {
			tb.Errorf("%s is no scenario of the suite, or has no reason", name)
		}
		fmt.Fprintf(&baseline, "  - %s\n", name)
	}
	file := filepath.Join(s.dir, "absent.yaml")
	if err := os.WriteFile(file, []byte(baseline.String()), 0o600); err != nil {
		tb.Fatal(err)
	}
	out, err := s.run("server", "--url", url, "--suite", "all", "--expected-failures", file)
	if err != nil {
		tb.Errorf("%v\n%s", err, summary(out))
	}
	tb.Logf("%s", summary(out))
}

// Client runs scenarios for clients, each against a command that gets the address of its
// server as the last argument and the scenario's name in MCP_CONFORMANCE_SCENARIO. The
// suite's other scenarios are those of absent.
func Client(tb testing.TB, command string, scenarios []string, absent Absent) {
	tb.Helper()
	s := open(tb)
	for _, name := range s.scenarios("--client") {
		why, out := absentOf(absent, name)
		if in := slices.Contains(scenarios, name); in == out || out && why == "" {
			tb.Errorf("scenario %s is to be run, or to be left out with a reason: run %v, left out %v", name, in, out)
		}
	}
	for _, name := range scenarios {
		if out, err := s.runClient(command, name); err != nil {
			tb.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// runClient runs a scenario until it passes, three times at most: one of them measures
// how soon a client comes back, which a busy machine delays.
func (s suite) runClient(command, scenario string) (out string, err error) {
	for range 3 {
		if out, err = s.run("client", "--command", command, "--scenario", scenario); err == nil {
			return out, nil
		}
	}
	return out, err
}

// absentOf finds a scenario by its name, or by its group with a slash behind it.
func absentOf(absent Absent, scenario string) (why string, ok bool) {
	if why, ok = absent[scenario]; ok {
		return why, true
	}
	group, _, _ := strings.Cut(scenario, "/")
	why, ok = absent[group+"/"]
	return why, ok
}

// suite is the installed suite, and where it works.
type suite struct {
	tb            testing.TB
	node, program string
	dir           string
}

// open finds the suite, or skips the test aloud.
func open(tb testing.TB) suite {
	tb.Helper()
	find := assetcache.Lookup
	if os.Getenv("NIGHTCRIER_CLI") == "install" {
		find = func(string) (string, error) { return install(tb.Context(), os.Stderr) }
	}
	root, err := find(entry)
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skip("SKIPPED ALOUD: no conformance suite of MCP in the cache: run `make suite`, or set NIGHTCRIER_CLI=install")
	}
	if err != nil {
		tb.Fatalf("mcpsuite: %v", err)
	}
	modules := filepath.Join(root, "node_modules")
	return suite{tb: tb, dir: tb.TempDir(), node: filepath.Join(modules, nodePackage(), "bin", "node"),
		program: filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js")}
}

// scenarios are the names of those that the suite has.
func (s suite) scenarios(kind string) (names []string) {
	s.tb.Helper()
	out, err := s.run("list", kind)
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "  - "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	if err != nil || len(names) < 10 {
		s.tb.Fatalf("the suite lists %v, %v\n%s", names, err, out)
	}
	return names
}

func (s suite) run(args ...string) (string, error) {
	cmd := exec.CommandContext(s.tb.Context(), s.node, append([]string{s.program}, args...)...)
	if args[0] != "list" {
		cmd.Args = append(cmd.Args, "--output-dir", s.dir)
	}
	cmd.Dir = s.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// summary is the end of what the suite says of all scenarios.
func summary(out string) string {
	if at := strings.Index(out, "=== SUMMARY ==="); at >= 0 {
		return out[at:]
	}
	return out
}
