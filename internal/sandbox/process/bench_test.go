//go:build linux

package process

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// BenchmarkStart measures from New, or from a plain exec, to the end of a program
// that does nothing. bubblewrap, where it is installed, is the measure: it is
// given the same system files and the workspace. best is the fastest round: on a
// busy machine the mean is that of the others' work.
func BenchmarkStart(b *testing.B) {
	b.Run("exec", func(b *testing.B) {
		timed(b, func() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("strict", func(b *testing.B) { benchmarkSandbox(b, false) })
	b.Run("floor", func(b *testing.B) { benchmarkSandbox(b, true) })
	b.Run("bubblewrap", benchmarkBubblewrap)
}

func benchmarkSandbox(b *testing.B, floor bool) {
	l := newLab(b, floor)
	l.opts.Listen = 0
	timed(b, func() {
		s, err := New(b.Context(), l.opts)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Start(b.Context(), l.policy, sandbox.Command{Argv: []string{"/bin/true"}, Env: []string{}, Dir: l.ws}, acceptAll); err != nil {
			b.Fatal(err)
		}
		if exit := s.Wait(); exit.Code != 0 {
			b.Fatalf("%+v", exit)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	})
}

func benchmarkBubblewrap(b *testing.B) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		b.Skip("SKIPPED ALOUD: no bwrap here to compare with")
	}
	l := newLab(b, false)
	args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}
	for _, path := range SystemFiles() {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, dir := range []string{"context", "home", ".scratch"} {
		path := filepath.Join(l.ws, dir)
		args = append(args, "--bind", path, path)
	}
	args = append(args, "--chdir", l.ws, "/bin/true")
	timed(b, func() {
		if out, err := exec.Command(bwrap, args...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	})
}

func timed(b *testing.B, round func()) {
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		round()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[0].Microseconds())/1000, "best-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}
