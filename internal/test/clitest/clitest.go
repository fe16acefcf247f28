// Package clitest gives tests the real agent CLIs, at pinned versions, so that
// what we believe of their flags, output and exit codes is checked against them.
//
// They are proprietary or large, so they are installed from npm into the cache
// (`make clis`, or NIGHTCRIER_CLI=install) and never kept in the repository. So is the
// linter of the API's description.
package clitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/test/assetcache"
)

// programs are where a CLI's program can lie below node_modules, by its package and its
// command, the better place first: native in what the package has for this platform,
// which needs no interpreter, or in a package that is for one platform itself; else
// npm's link to it.
var programs = []string{"%[1]s-*/%[2]s", "%[1]s-*/bin/%[2]s", "%[1]s-*/vendor/*/bin/%[2]s", "%[1]s/bin/%[2]s", ".bin/%[2]s"}

// cli is an executor's CLI as npm has it, in the version that is tested first. Tests
// call it by its command.
type cli struct{ agent.Executor }

// Names are the CLIs that there are.
func Names() (names []string) {
	for _, e := range agent.CLIs() {
		names = append(names, e.Command)
	}
	return names
}

// Claude returns the path of the real claude CLI, or skips the test aloud.
func Claude(tb testing.TB) string {
	tb.Helper()
	return CLI(tb, "claude")
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
func Version(name string) string { return find(name).version() }

// Install makes sure that a CLI is in the cache, and tells progress on log.
func Install(ctx context.Context, name string, log io.Writer) error {
	_, err := find(name).install(ctx, log)
	return err
}

func find(name string) cli {
	all := agent.CLIs()
	i := slices.IndexFunc(all, func(e agent.Executor) bool { return e.Command == name })
	if i < 0 {
		panic("clitest: no CLI is called " + name)
	}
	return cli{all[i]}
}

func (c cli) version() string { return c.Versions[0] }

// entry is its name in the cache.
func (c cli) entry() string { return c.Command + "-" + c.version() }

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
		if err := assetcache.NPM(ctx, dir, log, c.Package+"@"+c.version()); err != nil {
			return err
		}
		_, err := c.resolve(dir)
		return err
	})
	if err != nil {
		return "", err
	}
	return c.resolve(dir)
}

// resolve returns the program that the install directory holds.
func (c cli) resolve(dir string) (string, error) {
	for _, pattern := range programs {
		found, err := filepath.Glob(filepath.Join(dir, "node_modules", fmt.Sprintf(pattern, c.Package, c.Command)))
		if err != nil {
			return "", err
		}
		if len(found) > 1 {
			return "", fmt.Errorf("%s@%s has several programs for this platform: %v", c.Package, c.version(), found)
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%s@%s has no program %s for this platform below %s", c.Package, c.version(), c.Command, dir)
}
