// Package e2e holds the tests of the whole product: real servers, workers and
// sandboxes, scripted peers, and what must hold when any of them is killed.
//
// The test binary is also the server that is killed (E2E_SERVER), the worker and
// the init of its sandbox.
package e2e

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"nightcrier.dev/nightcrier/internal/agent/worker"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "worker":
		os.Exit(worker.Main(context.Background(), os.Args[2], os.Stdin, os.Stderr))
	case len(os.Args) > 1 && os.Args[1] == process.InitCommand:
		os.Exit(worker.InitMain(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == worker.HookCommand:
		os.Exit(worker.HookMain(os.Args[2:]))
	case os.Getenv(orderVariable) != "":
		os.Exit(serve(os.Getenv(orderVariable)))
	}
	if err := errors.Join(kubetest.KubectlFirst(), os.Setenv("SERVER_SECRET", canaryOfServer)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// scenarioTime is when the recorded faults are said to have happened, the same in every process of a
// test: the evidence of a run that is resumed is then what it was.
var scenarioTime = time.Now().UTC()

// options are those of every server here: the demo's clusters, and no pause that
// a test would have to wait for.
func options(cfg *config.Config, log slog.Handler) app.Options {
	return app.Options{
		Config: cfg, Logger: slog.New(log), Version: "e2e", RetryPause: 20 * time.Millisecond,
		SourceTimings: quickly(), Reach: demoReach, WorkerCommand: []string{testproc.Self(), "worker"},
	}
}

// recorded are the clusters that faults happen in, and what their servers pushed.
//
//go:embed all:testdata/clusters testdata/pushed
var recorded embed.FS

// happened is when the recorded faults happened.
var happened = time.Date(2026, 11, 20, 3, 6, 30, 0, time.UTC)

// demoClusters are those clusters at scenarioTime.
var demoClusters = sync.OnceValue(func() map[string]*snapshot.Snapshot {
	all := map[string]*snapshot.Snapshot{}
	for _, name := range []string{"demo-east", "demo-west", "demo-north"} {
		dir, err := fs.Sub(recorded, "testdata/clusters/"+name)
		if err != nil {
			panic(err) // it is embedded
		}
		s, err := snapshot.Read(dir)
		if err != nil {
			panic(err) // it is whole
		}
		all[name] = s.Shift(scenarioTime)
	}
	return all
})

// readable is a recorded cluster, to be read without a guard.
type readable struct{ *kube.Client }

// Permissions implements diagnose.Reader.
func (readable) Permissions(context.Context, string) (map[string]any, error) {
	return map[string]any{"canRead": "yes", "canWrite": "no", "source": "recorded"}, nil
}

func demoReach(c config.Cluster) app.Reach {
	if s := demoClusters()[c.Name]; s != nil {
		return direct{readable{s.Client()}}
	}
	return direct{readable{nowhere.Client()}}
}

// direct reads a recorded cluster without a guard, and hands no credential to anybody.
type direct struct{ app.ClusterAccess }

// Connect implements app.Reach.
func (d direct) Connect() (app.Connection, error) {
	return app.Connection{Direct: d.ClusterAccess}, nil
}

// Secrets implements app.Reach.
func (direct) Secrets() ([]string, bool) { return nil, false }

// ChangedAt implements app.Reach.
func (direct) ChangedAt() time.Time { return time.Time{} }

// Now implements app.Reach.
func (direct) Now() time.Time { return time.Now() }

// nowhere is a cluster in which nothing is.
var nowhere = func() *snapshot.Snapshot {
	s, err := snapshot.Read(fstest.MapFS{
		snapshot.InfoFile: {Data: []byte("{}")}, "namespace.json": {Data: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}`)},
	})
	if err != nil {
		panic(err) // it is whole
	}
	return s
}()

// quickly are timings of sources that notice within a test's patience.
func quickly() mcp.Timings {
	return mcp.Timings{
		Call: 2 * time.Second, Poll: 200 * time.Millisecond, StreamGrace: 200 * time.Millisecond,
		BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond, Stable: time.Second, Close: time.Second,
	}
}
