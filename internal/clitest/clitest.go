// Package clitest gives tests the real agent CLIs, at pinned versions, so that
// what we believe of their flags, output and exit codes is checked against them.
//
// They are proprietary or large, so they are installed from npm into the cache
// (`make clis`, or NIGHTCRIER_CLI=install) and never kept in the repository.
package clitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"nightcrier.dev/nightcrier/internal/assetcache"
)

// cli is one agent CLI as npm has it.
type cli struct {
	name    string // the cache entry is name-version
	pkg     string
	version string
	binary  string // glob below the install directory, matching one file
}

// claude: the package's own launcher wants a newer Node, but the native program
// in its per-platform dependency needs none.
var claude = cli{
	name:    "claude",
	pkg:     "@anthropic-ai/claude-code",
	version: "2.1.328",
	binary:  "node_modules/@anthropic-ai/claude-code-*/claude",
}

// codex: the launcher is a script that starts the platform's own program.
var codex = cli{
	name:    "codex",
	pkg:     "@openai/codex",
	version: "0.169.0",
	binary:  "node_modules/@openai/codex-*/vendor/*/bin/codex",
}

// gemini is a script for Node.
var gemini = cli{
	name:    "gemini",
	pkg:     "@google/gemini-cli",
	version: "0.61.0",
	binary:  "node_modules/.bin/gemini",
}

// goose: only the per-platform package holds the program at its own version.
var goose = cli{
	name:    "goose",
	pkg:     "@aaif/goose-binary-linux-x64",
	version: "1.52.0",
	binary:  "node_modules/@aaif/goose-binary-*/bin/goose",
}

// clis are all that there are, by name.
var clis = []cli{claude, codex, gemini, goose}

// Names are the CLIs that there are.
func Names() []string {
	names := make([]string, len(clis))
	for i, c := range clis {
		names[i] = c.name
	}
	return names
}

// Claude returns the path of the real claude CLI, or skips the test aloud.
func Claude(tb testing.TB) string {
	tb.Helper()
	return CLI(tb, claude.name)
}

// CLI returns the path of a real CLI, or skips the test aloud.
func CLI(tb testing.TB, name string) string {
	tb.Helper()
	path, err := find(name).locate(tb.Context())
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skipf("SKIPPED ALOUD: no %s CLI in the cache: run `make clis`, or set NIGHTCRIER_CLI=install", name)
	}
	if err != nil {
		tb.Fatalf("clitest: %v", err)
	}
	return path
}

// Version is the pinned version of a CLI.
func Version(name string) string { return find(name).version }

// Install makes sure that a CLI is in the cache, and tells progress on log.
func Install(ctx context.Context, name string, log io.Writer) error {
	_, err := find(name).install(ctx, log)
	return err
}

func find(name string) cli {
	i := slices.IndexFunc(clis, func(c cli) bool { return c.name == name })
	if i < 0 {
		panic("clitest: no CLI is called " + name)
	}
	return clis[i]
}

func (c cli) entry() string { return c.name + "-" + c.version }

// locate finds the program in the cache, installing it only when asked to.
func (c cli) locate(ctx context.Context) (string, error) {
	if os.Getenv("NIGHTCRIER_CLI") == "install" {
		return c.install(ctx, os.Stderr)
	}
	dir, err := assetcache.Lookup(c.entry())
	if err != nil {
		return "", err
	}
	return c.resolve(dir)
}

// install is locate that runs npm where the cache has nothing.
func (c cli) install(ctx context.Context, log io.Writer) (string, error) {
	dir, err := assetcache.Ensure(ctx, c.entry(), func(ctx context.Context, dir string) error {
		fmt.Fprintf(log, "%s: installing %s@%s by npm (once)\n", c.name, c.pkg, c.version)
		cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--ignore-scripts",
			"--no-audit", "--no-fund", "--no-package-lock", c.pkg+"@"+c.version)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("npm install %s@%s: %w: %s", c.pkg, c.version, err, out)
		}
		_, err := c.resolve(dir)
		return err
	})
	if err != nil {
		return "", err
	}
	return c.resolve(dir)
}

// resolve returns the one program that the install directory holds.
func (c cli) resolve(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, c.binary))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s@%s has no program for this platform: %d files match %s in %s",
			c.pkg, c.version, len(found), c.binary, dir)
	}
	return found[0], nil
}
