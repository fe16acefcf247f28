package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestCollect(t *testing.T) {
	w := create(t, openRoot(t))
	put(t, w, ".scratch/investigation.md", "# report")
	put(t, w, ".scratch/artifacts/pods/list.json", "{}")
	put(t, w, ".scratch/notes.txt", "n")
	put(t, w, "output/agent.log", "ours")

	for range 2 {
		got, err := w.Collect()
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Refused) != 0 || len(got.Artifacts) != 2 {
			t.Fatalf("%+v", got)
		}
		a := got.Artifacts[0]
		if a.Path != "output/artifacts/pods/list.json" || a.Bytes != 2 || a.SHA256 != "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" {
			t.Errorf("%+v", a)
		}
		if got.Artifacts[1].Path != "output/notes.txt" {
			t.Errorf("%+v", got.Artifacts[1])
		}
		if data, err := w.ReadFile("output/investigation.md"); err != nil || string(data) != "# report" {
			t.Errorf("%q %v", data, err)
		}
	}
}

func TestCollectGoesOnAfterACrash(t *testing.T) {
	w := create(t, openRoot(t))
	put(t, w, "output/artifacts/a", "moved before the crash")
	put(t, w, ".scratch/artifacts/b", "not yet")
	got, err := w.Collect()
	if err != nil || len(got.Artifacts) != 2 {
		t.Fatalf("%+v %v", got, err)
	}
}

func TestCollectTakesTheNewerAttempt(t *testing.T) {
	w := create(t, openRoot(t))
	put(t, w, ".scratch/investigation.md", "first")
	if _, err := w.Collect(); err != nil {
		t.Fatal(err)
	}
	put(t, w, ".scratch/leftover", "x")
	if err := w.ClearScratch(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), scratch, "leftover")); err == nil {
		t.Error("scratch was not cleared")
	}
	put(t, w, ".scratch/investigation.md", "second")
	if _, err := w.Collect(); err != nil {
		t.Fatal(err)
	}
	if data, _ := w.ReadFile("output/investigation.md"); string(data) != "second" {
		t.Errorf("%q", data)
	}
}

func TestCollectRefuses(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(w *Workspace, rel string) string { return filepath.Join(w.Dir(), rel) }
	for _, c := range []struct {
		name, path, reason string
		make               func(w *Workspace) error
	}{
		{"our report", "report.json", "nightcrier alone", nil},
		{"our report in capitals", "Report.JSON", "nightcrier alone", nil},
		{"our audit", "audit.jsonl", "nightcrier alone", nil},
		{"our log", "agent.log", "nightcrier alone", nil},
		{"our final report", "final-report.md", "nightcrier alone", nil},
		{"our evidence", "evidence/E1.json", "nightcrier alone", nil},
		{"a dash", "artifacts/-rf", "dash", nil},
		{"a new line", "artifacts/a\nb", "printable", nil},
		{"an escape", "artifacts/\x1b[2J", "printable", nil},
		{"reversed text", "artifacts/a\u202egpj", "printable", nil},
		{"not UTF-8", "artifacts/\xff", "UTF-8", nil},
		{"a backslash", `artifacts/..\x`, "printable", nil},
		{"too deep", "artifacts/1/2/3/4/5/6/7/8/9/x", "deeper", nil},
		{"a link to a secret", "artifacts/s", "symbolic link", func(w *Workspace) error {
			return os.Symlink(secret, at(w, ".scratch/artifacts/s"))
		}},
		{"a hard link to a secret", "artifacts/h", "hard link", func(w *Workspace) error {
			return os.Link(secret, at(w, ".scratch/artifacts/h"))
		}},
		{"a link as report", "investigation.md", "symbolic link", func(w *Workspace) error {
			return os.Symlink("../incident.json", at(w, ".scratch/investigation.md"))
		}},
		{"a link as directory", "dir", "symbolic link", func(w *Workspace) error {
			return os.Symlink(filepath.Dir(secret), at(w, ".scratch/dir"))
		}},
		{"a pipe", "fifo", "regular", func(w *Workspace) error {
			return syscall.Mkfifo(at(w, ".scratch/fifo"), 0o600)
		}},
		{"too large", "big", "larger", func(w *Workspace) error {
			return errors.Join(os.WriteFile(at(w, ".scratch/big"), nil, 0o600), os.Truncate(at(w, ".scratch/big"), maxFileBytes+1))
		}},
		{"a file where a directory of ours is", "artifacts", "something else", func(w *Workspace) error {
			return errors.Join(os.Remove(at(w, ".scratch/artifacts")), os.WriteFile(at(w, ".scratch/artifacts"), nil, 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := create(t, openRoot(t))
			if c.make == nil {
				put(t, w, ".scratch/"+c.path, "x")
			} else if err := c.make(w); err != nil {
				t.Fatal(err)
			}
			put(t, w, ".scratch/fine.txt", "x")
			got, err := w.Collect()
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Refused) != 1 || !strings.Contains(got.Refused[0].Reason, c.reason) {
				t.Errorf("refused %+v", got.Refused)
			}
			if len(got.Artifacts) != 1 || got.Artifacts[0].Path != "output/fine.txt" {
				t.Errorf("artifacts %+v", got.Artifacts)
			}
		})
	}
}

func TestCollectIsBounded(t *testing.T) {
	w := create(t, openRoot(t))
	for i := range maxFiles + maxRefusals + 1 {
		put(t, w, fmt.Sprintf(".scratch/artifacts/%04d", i), "")
	}
	got, err := w.Collect()
	if err != nil || len(got.Artifacts) != maxFiles || len(got.Refused) != maxRefusals+1 || !strings.HasPrefix(got.Refused[maxRefusals].Reason, "1 more") {
		t.Errorf("%d artifacts, %d refused, %v", len(got.Artifacts), len(got.Refused), err)
	}
}

func TestCollectReadsClosedDirectories(t *testing.T) {
	w := create(t, openRoot(t))
	name := put(t, w, ".scratch/artifacts/closed/x", "x")
	if err := errors.Join(os.Chmod(name, 0), os.Chmod(filepath.Dir(name), 0)); err != nil {
		t.Fatal(err)
	}
	got, err := w.Collect()
	if err != nil || len(got.Artifacts) != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	info, err := os.Stat(filepath.Join(w.Dir(), "output/artifacts/closed/x"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}
