package agentruntime_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier/agentruntime"
)

// TestMain is what an importing program's main function has to begin with.
func TestMain(m *testing.M) {
	agentruntime.Main()
	os.Exit(m.Run())
}

// An agent is any executable. This one hands in what was found out before it
// was started.
const agent = `#!/bin/sh
echo "looking at $KUBERNETES_NAMESPACE of $KUBERNETES_CLUSTER"
cp "$WORKSPACE_DIR/context/initial_triage_report.md" "$OUTPUT_DIR/investigation.md"
`

func Example() {
	dir, err := os.MkdirTemp("", "agentruntime-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "agent.sh")
	if err := os.WriteFile(script, []byte(agent), 0o700); err != nil {
		log.Fatal(err)
	}

	runtime, err := agentruntime.New(agentruntime.Options{
		WorkspaceRoot: filepath.Join(dir, "incidents"),
		Settings:      map[string]string{"agent.executor": "script", "agent.script_path": script, "agent.timeout": "1m"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close()

	result, err := runtime.RunAgent(context.Background(), &agentruntime.Incident{
		ID: "0196b3f2-7a31-7c55-9d1e-2b7a60c5f0aa", Cluster: "prod-1", Namespace: "shop", Severity: "critical",
		EventData: []byte(`{"faultType": "CrashLoop", "resource": {"kind": "Pod", "name": "cart-0", "namespace": "shop"},
			"context": "Container entered CrashLoopBackOff state, restart count: 4"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Status, result.ExitCode, result.Error)
	for _, path := range result.Artifacts {
		fmt.Println(filepath.Base(path))
	}
	// Output:
	// success 0 <nil>
	// investigation.md
	// report.json
	// final-report.md
}
