// Package clitest gives tests the real agent CLIs, at pinned versions, so that
// what we believe of their flags, output and exit codes is checked against them.
//
// They are proprietary or large, so they are installed from npm into the cache
// (`make claude`, or NIGHTCRIER_CLI=install) and never kept in the repository.
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

// ClaudeVersion is the pinned version of the claude CLI.
func ClaudeVersion() string { return claude.version }

// Claude returns the path of the real claude CLI, or skips the test aloud.
func Claude(tb testing.TB) string {
	tb.Helper()
	path, err := claude.locate(tb.Context())
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skipf("SKIPPED ALOUD: no %s CLI in the cache: run `make claude`, or set NIGHTCRIER_CLI=install", claude.name)
	}
	if err != nil {
		tb.Fatalf("clitest: %v", err)
	}
	return path
}

// InstallClaude makes sure that the claude CLI is in the cache, and tells
// progress on log.
func InstallClaude(ctx context.Context, log io.Writer) error {
	_, err := claude.install(ctx, log)
	return err
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
