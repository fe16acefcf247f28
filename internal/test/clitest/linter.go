package clitest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/assetcache"
)

// The linter of OpenAPI descriptions: one package without dependencies.
const (
	linter        = "@redocly/cli"
	linterVersion = "2.77.0"
	linterEntry   = "redocly-" + linterVersion
)

// InstallLinter makes sure that the linter is in the cache, and tells progress on log.
func InstallLinter(ctx context.Context, log io.Writer) error {
	_, err := assetcache.Ensure(ctx, linterEntry, func(ctx context.Context, dir string) error {
		return assetcache.NPM(ctx, dir, log, linter+"@"+linterVersion)
	})
	return err
}

// Lint returns what the linter's recommended rules, warnings included, find in an
// OpenAPI description in JSON, and nothing when that is nothing. Without a linter the
// test is skipped aloud.
func Lint(tb testing.TB, description []byte) string {
	tb.Helper()
	dir, err := assetcache.Lookup(linterEntry)
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skip("SKIPPED ALOUD: no linter of OpenAPI in the cache: run `make clis`")
	}
	if err != nil {
		tb.Fatal(err)
	}
	work := tb.TempDir()
	if err := os.WriteFile(filepath.Join(work, "openapi.json"), description, 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), filepath.Join(dir, "node_modules", ".bin", "redocly"),
		"lint", "--extends=recommended-strict", "--format=github-actions", "openapi.json")
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + work, "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "CI=true"}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &failed):
		return string(out)
	}
	tb.Fatal(err)
	return ""
}
