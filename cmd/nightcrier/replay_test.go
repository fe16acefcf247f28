package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
)

// An incident is found by the beginning of its ID, whatever the root is called.
func TestIncidentDir(t *testing.T) {
	root := filepath.Join(t.TempDir(), "prod[1]*")
	cfg := &config.Config{WorkspaceRoot: root}
	for _, id := range []string{"01f8b3a2-0000-7000-8000-000000000001", "01f8b3a2-0000-7000-8000-000000000002"} {
		if err := os.MkdirAll(filepath.Join(root, "incident-"+id), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]nightcrier.Code{
		"01f8b3a2-0000-7000-8000-000000000001": "", "01f8b3a2-0000-7000-8000-000000000002": "", "01f8b3a2": nightcrier.Invalid, "01f8b3a3": nightcrier.NotFound,
		"*": nightcrier.Invalid, "../..": nightcrier.Invalid,
	} {
		dir, err := incidentDir(cfg, id)
		if nightcrier.CodeOf(err) != want || err == nil && filepath.Dir(dir) != root {
			t.Errorf("%s: %s, %v, want code %q", id, dir, err, want)
		}
	}
	if err := os.Remove(filepath.Join(root, "incident-01f8b3a2-0000-7000-8000-000000000002")); err != nil {
		t.Fatal(err)
	}
	if dir, err := incidentDir(cfg, "01f8b3a2"); err != nil || dir != filepath.Join(root, "incident-01f8b3a2-0000-7000-8000-000000000001") {
		t.Errorf("%s, %v", dir, err)
	}
}

// The workspace root is a flag, as for every command that looks for incidents in it.
func TestReplayLooksInTheWorkspaceRoot(t *testing.T) {
	root := t.TempDir()
	const id = "01f8b3a2-0000-7000-8000-000000000001"
	var out, stderr strings.Builder
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &stderr, environ: []string{"HOME=" + t.TempDir()}}
	if got := p.runCommandLine(t.Context(), []string{"replay", id, "--workspace-root", root}); got != 4 || !strings.Contains(stderr.String(), filepath.Join(root, "incident-"+id)) {
		t.Errorf("exit %d, %s", got, stderr.String())
	}
}
