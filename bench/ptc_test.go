package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// BenchmarkPTC runs 50 of our own agents at once, each with ten turns of two calls, in one process
// and in one process each. The memory is what their processes have for themselves, a run; the time of
// the processor is what their start takes and what a turn does.
func BenchmarkPTC(b *testing.B) {
	for _, shared := range []bool{true, false} {
		b.Run(map[bool]string{true: "one process", false: "a process each"}[shared], func(b *testing.B) { runPTC(b, shared) })
	}
}

const (
	ptcRuns  = 50
	ptcTurns = 10
)

func runPTC(b *testing.B, shared bool) {
	tools := sdk.NewServer(&sdk.Implementation{Name: "tools"}, nil)
	tools.AddTool(&sdk.Tool{Name: "owner", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "the team cart"}}}, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return tools }, nil))
	defer web.Close()
	call := fakemodel.ToolCall{Name: "far_owner", Input: map[string]any{}}
	var steps []fakemodel.Step
	for range ptcTurns - 1 {
		steps = append(steps, fakemodel.Step{Tools: []fakemodel.ToolCall{call, call}})
	}
	steps[0].Hold = "begun"
	last := fakemodel.Step{Text: "It is the team cart's.", Hold: "all"}
	for b.Loop() {
		m := fakemodel.New(b)
		m.MustAdd(b, "it", fakemodel.Scenario{Steps: append(slices.Clone(steps), last)})
		one := newInvestigation(b, "ptc")
		one.spec.Provider, one.spec.Model, one.spec.BaseURL, one.spec.MaxTurns = nightcrier.Anthropic, "claude-sonnet-4-5", m.URL("it"), 2*ptcTurns
		one.spec.ToolServers = []toolserver.Server{{Name: "far", URL: web.URL, Tools: []string{"owner"}, Timeout: time.Minute}}
		one.sec.ModelAPIKey = "sk-bench"
		var all []*investigation
		for range ptcRuns {
			i := newInvestigation(b, "ptc")
			i.spec.Spec, i.sec = one.spec.Spec, one.sec
			if i.workers.Dir = one.workers.Dir; !shared {
				i.workers.Dir = filepath.Join(i.spec.Workspace, "..", ".workers")
			}
			i.launch(b)
			all = append(all, i)
		}
		asked := func(n int) func() bool {
			return func() bool { return len(m.Requests("it")) >= n }
		}
		until(b, "the first turn of all", asked(ptcRuns))
		pids := map[int]bool{}
		for _, i := range all {
			pids[workerOf(b, i)] = true
		}
		var private float64
		var begun, used time.Duration
		for pid := range pids {
			begun += cpuTime(b, pid)
		}
		m.Release("begun")
		until(b, "the last turn of all", asked(ptcRuns*ptcTurns))
		for pid := range pids {
			private += memoryOf(b, pid).Private
			used += cpuTime(b, pid)
		}
		m.Release("all")
		for _, i := range all {
			if r := i.end(b); r.State != nightcrier.StateSuccess {
				b.Fatalf("%+v", r)
			}
		}
		b.ReportMetric(float64(len(pids)), "processes")
		b.ReportMetric(private/mib/ptcRuns, "private-MiB/run")
		b.ReportMetric(float64(begun)/float64(time.Millisecond)/ptcRuns, "start-cpu-ms/run")
		b.ReportMetric(float64(used-begun)/float64(time.Millisecond)/(ptcRuns*(ptcTurns-1)), "cpu-ms/turn")
	}
}

// workerOf is the process of an attempt.
func workerOf(b *testing.B, i *investigation) int {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join(i.workers.Dir, fmt.Sprintf("%s-%d", i.spec.RunID, i.spec.Attempt), "pid"))
	must(b, err)
	var p struct {
		Worker struct {
			PID int `json:"pid"`
		} `json:"worker"`
	}
	must(b, json.Unmarshal(raw, &p))
	return p.Worker.PID
}
