package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// What an earlier attempt left in its home must not lead the next attempt's
// worker to files that are ours.
func TestPlantedLinksAreNotFollowed(t *testing.T) {
	b := newBench(t, `cat "$KUBECONFIG"`)
	b.write("output/audit.jsonl", "ours\n")
	b.must(os.Mkdir(filepath.Join(b.ws, "home"), 0o700))
	b.must(os.Symlink("../output/audit.jsonl", filepath.Join(b.ws, "home", "kubeconfig")))
	r, entries := b.run()
	if r.State != nightcrier.StateSuccess || !strings.Contains(text(entries), "clusters: []") {
		t.Errorf("result %+v\n%s", r, text(entries))
	}
	if got := b.read("output/audit.jsonl"); got != "ours\n" {
		t.Errorf("the link was followed: %q", got)
	}
}

// A directory in the place of our file is in nobody's way.
func TestPlantedDirectoryIsRemoved(t *testing.T) {
	b := newBench(t, `cat "$KUBECONFIG"`)
	b.must(os.MkdirAll(filepath.Join(b.ws, "home", "kubeconfig", "x"), 0o700))
	r, entries := b.run()
	if r.State != nightcrier.StateSuccess || !strings.Contains(text(entries), "clusters: []") {
		t.Errorf("result %+v\n%s", r, text(entries))
	}
}

// One line may hold any number of blocks: each entry costs, not each line.
func TestEntriesCount(t *testing.T) {
	for name, line := range map[string]string{
		"blocks":  `'{"type":"assistant","message":{"content":['; head -c 60000 /dev/zero | tr '\0' 'x' | sed 's/x/{"type":"text"},/g'; printf '{"type":"text"}]}}\n'`,
		"denials": "",
	} {
		t.Run(name, func(t *testing.T) {
			if name == "denials" {
				line = `''; head -c 300000 /dev/zero | tr '\0' '\n' | sed 's/.*/{"type":"system","subtype":"permission_denied","tool_name":"x"}/'`
			}
			b := newBench(t, "")
			cli := filepath.Join(filepath.Dir(b.ws), "claude")
			b.must(os.WriteFile(cli, []byte("#!/bin/sh\nprintf "+line+"\n"), 0o755))
			b.must(os.WriteFile(filepath.Join(b.ws, "PROMPT.md"), nil, 0o600))
			b.spec.Executor, b.spec.Command, b.spec.MaxOutputBytes = "claude-code", cli, 1<<20
			b.sec.ModelAPIKey = realKey
			r, entries := b.run()
			info, err := os.Stat(filepath.Join(b.dir, "spool.jsonl"))
			b.must(err)
			if !r.Truncated || len(entries) > 8000 || info.Size() > 8<<20 {
				t.Errorf("%d entries, %d bytes for a limit of %d: %+v", len(entries), info.Size(), b.spec.MaxOutputBytes, r)
			}
			if len(entries) < 100 {
				t.Errorf("only %d entries: the attack did not happen\n%s", len(entries), clip(text(entries)))
			}
		})
	}
}

// Where nothing confines it, an agent can kill the init and leave children in
// sessions of their own, without its environment: they are the worker's then.
func TestNothingOutlivesTheInit(t *testing.T) {
	b := newBench(t, `env -i setsid sh -c 'sleep 1000 & echo $! > tmp/orphan; sleep 1000' & while ! [ -s tmp/orphan ]; do sleep 0.01; done; kill -9 $PPID; sleep 1000`)
	b.spec.Require = RequireNone
	r, _ := b.run()
	if r.State != nightcrier.StateFailed {
		t.Errorf("result %+v", r)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(b.read("tmp/orphan")))
	b.must(err)
	if id, err := process.Identify(orphan); err == nil && id.Alive() {
		t.Errorf("process %d is there after a verified end", orphan)
		_ = syscall.Kill(orphan, syscall.SIGKILL)
	}
}

// Ways to fill the disk that adding up the sizes of files does not see.
func TestDiskIsNotFilledUnseen(t *testing.T) {
	fill := `i=0; while [ $i -lt 12 ]; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); done; `
	for name, script := range map[string]string{
		"deep":    `cd tmp; d=$(printf 'd%.0s' $(seq 200)); for n in $(seq 30); do mkdir $d && cd -P $d; done; ` + fill + `sleep 100`,
		"deleted": `cd tmp; for n in 3 4 5 6 7 8 9; do eval "exec $n>f; rm f; head -c 1000000 /dev/zero >&$n"; done; sleep 100`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, script)
			b.spec.MaxWorkspaceBytes, b.spec.Timeout = 3<<20, 15*time.Second
			if r, entries := b.run(); r.FailureClass != nightcrier.FailDisk {
				t.Errorf("result %+v\n%s", r, clip(text(entries)))
			}
			if left, err := os.ReadDir(filepath.Join(b.ws, "tmp")); err != nil || len(left) > 0 {
				t.Errorf("what filled the disk is still there: %v, %v", left, err)
			}
		})
	}
}

func TestDiskUseIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := diskUse(19, dir); err == nil {
		t.Error("any number of files is allowed")
	}
	if used, err := diskUse(100, dir, filepath.Join(dir, "missing")); err != nil || used < 0 {
		t.Errorf("%d, %v", used, err)
	}
}
