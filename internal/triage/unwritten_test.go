package triage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run"
)

// Only what the disk is at fault for is its fault.
func TestWhoIsAtFault(t *testing.T) {
	file := func(err error) error { return &fs.PathError{Op: "write", Path: "report.json", Err: err} }
	for name, c := range map[string]struct {
		err  error
		want nightcrier.FailureClass
	}{
		"no room":          {nightcrier.Errorf(nightcrier.Exhausted, "cannot write: %w", file(syscall.ENOSPC)), nightcrier.FailDisk},
		"no quota":         {file(syscall.EDQUOT), nightcrier.FailDisk},
		"too large a file": {errors.Join(errors.New("another"), file(syscall.EFBIG)), nightcrier.FailDisk},
		"a broken disk":    {file(syscall.EIO), nightcrier.FailDisk},
		"a read-only disk": {file(syscall.EROFS), nightcrier.FailDisk},
		"not permitted":    {file(syscall.EACCES), nightcrier.FailInternal},
		"missing":          {file(syscall.ENOENT), nightcrier.FailInternal},
		"a directory":      {file(syscall.EISDIR), nightcrier.FailInternal},
		"a limit of ours":  {nightcrier.Errorf(nightcrier.Exhausted, "it is larger than 64 MiB"), nightcrier.FailInternal},
		"damaged":          {nightcrier.Errorf(nightcrier.Invalid, "the tape is damaged"), nightcrier.FailInternal},
		"a bug":            {errors.New("decode facts.json: unexpected end of JSON input"), nightcrier.FailInternal},
	} {
		out, err := endUnwritten(t.Context(), run.Outcome{Status: nightcrier.Resolved}, c.err)
		if err != nil || out.Status != nightcrier.Failed || out.Class != c.want || out.Reason != c.err.Error() {
			t.Errorf("%s: %s, %s: %s, %v", name, out.Status, out.Class, out.Reason, err)
		}
		if got, err := run.UnpreparedResult(t.Context(), c.err); err != nil || (got.FailureClass == nightcrier.FailDisk) != (c.want == nightcrier.FailDisk) {
			t.Errorf("%s, preparing: %s, %v", name, got.FailureClass, err)
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx context.Context
		err error
	}{
		"nothing":       {t.Context(), nil},
		"the store":     {t.Context(), nightcrier.Errorf(nightcrier.Unreachable, "store: it does not answer")},
		"while we stop": {stopped, file(syscall.ENOSPC)},
	} {
		if out, err := endUnwritten(c.ctx, run.Outcome{Status: nightcrier.Resolved}, c.err); out.Status != nightcrier.Resolved || !errors.Is(err, c.err) {
			t.Errorf("%s: %s, %v", name, out.Status, err)
		}
	}
}

// A run whose facts are damaged fails for that, and for no disk.
func TestDamagedFactsAreNoFullDisk(t *testing.T) {
	var b *bench
	b = newBench(t, "script", nil, attempt{report: "facts", result: success(), leave: func(*testing.T, string) {
		b.must(os.WriteFile(filepath.Join(b.root.Path(), "incident-"+b.inc.ID, DiagnosisFile), []byte("{"), 0o600))
	}})
	if inc := b.investigate(); inc.Status != nightcrier.Failed || inc.FailureClass != nightcrier.FailInternal || !strings.Contains(inc.FailureReason, filepath.Base(DiagnosisFile)) {
		t.Errorf("ended %s %s: %s", inc.Status, inc.FailureClass, inc.FailureReason)
	}
}
