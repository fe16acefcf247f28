package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/backend/backendtest"
	"nightcrier.dev/nightcrier/internal/agent/backend/process"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/agent/worker"
	sandboxprocess "nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// The test binary is also the worker and the sandbox's init.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "worker":
		syscall.Exit(worker.Main(context.Background(), os.Args[2], os.Stdin, os.Stderr))
	case len(os.Args) > 1 && os.Args[1] == sandboxprocess.InitCommand:
		syscall.Exit(worker.InitMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestConforms(t *testing.T) {
	backendtest.Exercise(t, func(t *testing.T) backendtest.Place {
		dir := filepath.Join(t.TempDir(), ".workers")
		return backendtest.Place{
			Open: func() backend.Backend {
				return process.Backend{Dir: dir, Command: []string{testproc.Self(), "worker"}}
			},
			Kill: func(t *testing.T, h backend.Handle) {
				var p workdir.PIDs
				if err := workdir.At(dir, h.ID).ReadFile(workdir.PIDFile, &p); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(p.Worker.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Fatal(err)
				}
			},
			Left: func(incidentID string) (n int) {
				environs, _ := filepath.Glob("/proc/[0-9]*/environ")
				for _, path := range environs {
					if env, err := os.ReadFile(path); err == nil && strings.Contains(string(env), incidentID) {
						n++
					}
				}
				return n
			},
		}
	})
}
