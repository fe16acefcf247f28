// Package e2e holds the tests of the whole product: real servers, workers and
// sandboxes, scripted peers, and what must hold when any of them is killed.
//
// The test binary is also the server that is killed (E2E_SERVER), the worker and
// the init of its sandbox.
package e2e

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/demo"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/source/mcp"
	"nightcrier.dev/nightcrier/internal/worker"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "worker":
		os.Exit(worker.Main(context.Background(), os.Args[2], os.Stdin, os.Stderr))
	case len(os.Args) > 1 && os.Args[1] == process.InitCommand:
		os.Exit(worker.InitMain(os.Args[2:]))
	case os.Getenv(orderVariable) != "":
		os.Exit(serve(os.Getenv(orderVariable)))
	}
	os.Exit(m.Run())
}

// scenarioTime is when the demo's faults happened, the same in every process of a
// test: the evidence of a run that is resumed is then what it was.
var scenarioTime = time.Now().UTC()

// options are those of every server here: the demo's clusters, and no pause that
// a test would have to wait for.
func options(cfg *config.Config, log slog.Handler) app.Options {
	return app.Options{
		Config: cfg, Logger: slog.New(log), Version: "e2e", RetryPause: 20 * time.Millisecond,
		SourceTimings: quickly(), Access: demoAccess,
	}
}

// demoClusters are the demo's clusters at scenarioTime.
var demoClusters = sync.OnceValue(func() *demo.Demo {
	d, err := demo.Load(scenarioTime)
	if err != nil {
		panic(err) // the embedded scenarios are whole
	}
	return d
})

func demoAccess(cluster string) app.ClusterAccess {
	if c := demoClusters().Cluster(cluster); c != nil {
		return c
	}
	return nil
}

// quickly are timings of sources that notice within a test's patience.
func quickly() mcp.Timings {
	return mcp.Timings{
		Call: 2 * time.Second, Poll: 200 * time.Millisecond, StreamGrace: 200 * time.Millisecond,
		BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond, Stable: time.Second, Close: time.Second,
	}
}
