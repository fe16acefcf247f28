package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/oneshot"
	"nightcrier.dev/nightcrier/internal/oneshot/replay"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	recording "nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/datatest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// again replays an incident of the site with nothing but its record.
func (s *site) again(inc nightcrier.Incident, change func(*replay.Options)) replay.Result {
	s.Helper()
	cfg, _, err := config.Load(config.Options{Env: []string{"PATH=" + os.Getenv("PATH"), "WORKSPACE_ROOT=" + s.TempDir()}})
	s.must(err)
	then, err := s.order().config()
	s.must(err)
	cfg.Agent.Executor, cfg.Agent.Command, cfg.Agent.ScriptPath = inc.Executor, then.Agent.Command, then.Agent.ScriptPath // the programs are still there
	o := replay.Options{
		Config: cfg, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "e2e", Out: s.TempDir(),
		Workspace: filepath.Join(s.root, "incident-"+inc.ID), WorkerCommand: []string{testproc.Self(), "worker"},
	}
	if change != nil {
		change(&o)
	}
	got, err := replay.Replay(s.Context(), o)
	s.must(err)
	return got
}

// comesToTheSame fails unless a replay came to the same.
func (s *site) comesToTheSame(got replay.Result) {
	s.Helper()
	if !got.Same || len(got.Aspects) < 10 {
		s.Errorf("replayed: %+v", got)
	}
}

// What each real CLI found out is made again when cluster and model can be reached no
// more: the CLI runs, and both answer from the record.
func TestReplayOfEveryCLI(t *testing.T) {
	t.Parallel()
	everyCLI(t, func(i *inquiry) {
		i.begin()
		midAnswer(i)()
		inc := i.ended()
		i.v.term()
		i.door.stop()
		i.must(i.model.Close())
		i.sameButForCalls(i.again(inc, nil))
	})
}

// sameButForCalls is comesToTheSame for a CLI that may ask its model once more or less
// than then, as some do on a busy machine: what it found out and reports is the same.
func (s *site) sameButForCalls(got replay.Result) {
	s.Helper()
	if len(got.Doubts) > 0 || len(got.NotServed) > 0 {
		s.Errorf("replayed: %+v", got)
	}
	for _, d := range got.Differences {
		if strings.HasPrefix(d.Where, "call ") {
			s.Logf("asked otherwise: %+v", d)
			continue
		}
		s.Errorf("replayed: %+v", got)
		return
	}
}

// looksAndReports is a script that looks into its cluster.
const looksAndReports = `kubectl get pods -n "$KUBERNETES_NAMESPACE" && kubectl get pods -o name && kubectl logs deployment/cart; kubectl get nodes -o json > /dev/null; kubectl delete pod x; ` + reports

// The rules and a script on a real API server come to the same when it is gone.
func TestReplayOnARealCluster(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	for executor, prepare := range map[string]func(*site){"builtin": func(*site) {}, "script": func(s *site) { s.script(looksAndReports) }} {
		t.Run(executor, func(t *testing.T) {
			t.Parallel()
			s, p := newRealSite(t), newPatient(t, kube)
			prepare(s)
			door := newDoor(t, kube.ReadOnly(t))
			inc := s.investigate(t, p, door.kubeconfig)
			door.stop()
			got := s.again(inc, nil)
			s.comesToTheSame(got)
			if len(got.NotAsked) > 0 {
				t.Errorf("not asked: %v", got.NotAsked)
			}
		})
	}
}

// What the rules found out is investigated once more by real CLIs, with their models, when
// the cluster is gone: they look into what was recorded of it, and what they spend counts.
func TestReplayByAnotherAgent(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	s, p := newRealSite(t), newPatient(t, kube)
	door := newDoor(t, kube.ReadOnly(t))
	inc := s.investigate(t, p, door.kubeconfig)
	door.stop()
	for _, h := range oneOfEachKind() {
		model := map[nightcrier.Provider]string{nightcrier.Anthropic: "claude-sonnet-4-5", nightcrier.OpenAI: "gpt-5"}[h.provider] // which have a price
		t.Run(h.executor, func(t *testing.T) {
			t.Parallel()
			command, m := clitest.CLI(t, h.cli), fakemodel.New(t)
			other := h.site(t, m, append([]fakemodel.Step{
				{Tools: []fakemodel.ToolCall{h.look(thePod)}}, {Tools: []fakemodel.ToolCall{h.change}},
				{Tools: []fakemodel.ToolCall{h.look(lastWords)}},
			}, h.deliver(oneFact)...))
			other.root = s.root
			said, skillDir := "", filepath.Join(t.TempDir(), "our-runbook")
			other.must(os.Mkdir(skillDir, 0o700))
			other.must(os.WriteFile(filepath.Join(skillDir, "SKILL.md"), []byte("---\nname: our-runbook\ndescription: what we know of the cart\n---\nAsk its team.\n"), 0o600))
			got := other.again(inc, func(o *replay.Options) {
				cfg, _, err := config.Load(config.Options{Env: []string{
					"PATH=" + os.Getenv("PATH"), "WORKSPACE_ROOT=" + o.Config.WorkspaceRoot, "NIGHTCRIER_AGENT_EXECUTOR=" + h.executor, "NIGHTCRIER_AGENT_COMMAND=" + command,
					"NIGHTCRIER_AGENT_MODEL=" + model, h.key + "=" + realKey, h.url + "=" + m.URL(h.cli),
				}})
				other.must(err)
				o.Config, o.Another, o.Executor, o.Skill, o.Aloud = cfg, true, h.executor, skillDir, func(text string) { said += text }
				t.Cleanup(func() {
					spent, err := oneshot.ReadSpending(cfg, "", time.Now)
					if err != nil || spent.All.Calls != int64(len(m.Requests(h.cli))) || spent.All.SpentUSD == 0 {
						t.Errorf("spent is %+v, %v", spent.All, err)
					}
				})
			})
			if got.Another == nil || !got.Same || got.Another.Derived == 0 || len(got.NotRecorded) > 0 {
				t.Errorf("replayed: %+v, %+v", got, got.Another)
			}
			if !strings.Contains(said, m.URL(h.cli)) {
				t.Errorf("of the model's address was said %q", said)
			}
			other.root = filepath.Dir(got.Workspace)
			if !bytes.Contains(other.file(inc, ".claude/skills/our-runbook/SKILL.md"), []byte("Ask its team.")) || !bytes.Contains(other.file(inc, "prompt-sent.md"), []byte("what we know of the cart")) {
				t.Error("it was not given the skill")
			}
			rep := other.checkReport(nightcrier.Incident{ID: inc.ID, Status: nightcrier.Resolved, Fingerprint: inc.Fingerprint}, p, "agent", "permission-denied")
			if rep.CheckedShare != 1 || rep.Hypotheses[0].Falsification.Outcome != "holds" {
				t.Errorf("share %v, hypotheses %+v", rep.CheckedShare, rep.Hypotheses)
			}
		})
	}
}

// theirs is a tool server and a Prometheus that can be stopped, and what they were asked.
type theirs struct {
	tools, metrics *httptest.Server
	asked          atomic.Int64
}

func newTheirs(t *testing.T) *theirs {
	t.Helper()
	th := &theirs{}
	server := sdk.NewServer(&sdk.Implementation{Name: "theirs"}, nil)
	server.AddTool(&sdk.Tool{Name: "owner", Description: "Whose a workload is", InputSchema: json.RawMessage(`{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}`),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			said := fmt.Sprintf("team cart, asked %d times, password: hunter2-of-theirs\n%s", th.asked.Add(1), r.Params.Arguments)
			return &sdk.CallToolResult{IsError: strings.Contains(said, "nobody"), Content: []sdk.Content{&sdk.TextContent{Text: said}}}, nil
		})
	th.tools = httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	queue := datatest.Series{Name: "queue_length", Labels: `namespace="shop"`}
	for m := range 30 {
		queue.Samples = append(queue.Samples, datatest.Sample{At: time.Now().Add(-time.Duration(30-m) * time.Minute), Value: float64(m)})
	}
	behind, err := url.Parse(datatest.Prometheus(t, queue))
	if err != nil {
		t.Fatal(err)
	}
	th.metrics = httptest.NewServer(httputil.NewSingleHostReverseProxy(behind))
	t.Cleanup(th.stop)
	return th
}

// stop ends both.
func (th *theirs) stop() { th.tools.Close(); th.metrics.Close() }

// configured lets agents ask them, and a server that there is not.
func (th *theirs) configured(c *config.Config) {
	c.ToolServers = []config.ToolServer{
		{Name: "far", URL: th.tools.URL, Tools: []string{"owner"}, Timeout: time.Minute},
		{Name: "gone", URL: "http://127.0.0.1:1/mcp", Tools: []string{"*"}, Timeout: time.Minute},
	}
	c.Clusters[0].Sources.Prometheus.URL = th.metrics.URL
}

// What agents were told by tools of others and by Prometheus they are told again when none
// of it, neither the cluster nor the model, can be reached: the report is the same.
func TestReplayOfToolsOfOthersAndMetrics(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	for _, h := range oneOfEachKind() { // the others call tools by the same endpoint
		t.Run(h.executor, func(t *testing.T) {
			t.Parallel()
			clitest.CLI(t, h.cli)
			who, err := agent.For(h.executor)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(tool string, args map[string]any) fakemodel.Step {
				c := who.Calls.Tool(tool, args)
				return fakemodel.Step{Tools: []fakemodel.ToolCall{{Name: c.Tool, Input: c.Input}}}
			}
			m, th, p := fakemodel.New(t), newTheirs(t), newPatient(t, kube)
			s := h.site(t, m, append([]fakemodel.Step{
				ask("far_owner", map[string]any{"name": "cart"}), ask("far_owner", map[string]any{"name": "cart"}),
				ask("far_owner", map[string]any{"name": "nobody"}), ask("prometheus_query", map[string]any{"query": "queue_length", "start": "20m"}),
				ask("prometheus_query", map[string]any{"query": "sum("}), ask("prometheus_query", map[string]any{"values_of": "__name__"}),
				{Tools: []fakemodel.ToolCall{h.look(lastWords)}},
			}, h.deliver(oneFact)...))
			door := newDoor(t, kube.ReadOnly(t))
			s.app(func(o *app.Options) {
				o.Reach, o.Config.Clusters[0].Kubeconfig = nil, door.kubeconfig
				th.configured(o.Config)
			})
			s.push("real", p.fault(t))
			inc := s.ended()
			said := m.Requests(h.cli)
			if len(said) == 0 {
				t.Fatalf("the agent asked nothing: %s: %s", inc.Status, inc.FailureReason)
			}
			last := said[len(said)-1].Text
			for _, want := range []string{"asked 1 times", "asked 2 times", "asked 3 times", "namespace=", "parse error", "queue_length"} {
				if !strings.Contains(last, want) {
					t.Fatalf("the agent was not told %q:\n%s", want, last[max(0, len(last)-8<<10):])
				}
			}
			tape := s.unpacked(inc, recording.File(recording.Agent(1)))
			for name, mode := range map[string]os.FileMode{"record": 0o700, recording.File(recording.Agent(1)): 0o600} {
				if info, err := os.Stat(filepath.Join(s.root, "incident-"+inc.ID, name)); err != nil || info.Mode().Perm() != mode {
					t.Errorf("%s: %v, %v", name, info, err)
				}
			}
			if strings.Contains(tape, "hunter2") || strings.Count(tape, "asked ") < 3 {
				t.Errorf("the tape is\n%s", tape)
			}
			asked := th.asked.Load()
			door.stop()
			th.stop()
			s.must(m.Close())
			got := s.again(inc, nil)
			s.comesToTheSame(got)
			if len(got.NotAsked) > 0 || len(got.NotServed) > 0 || th.asked.Load() != asked {
				t.Errorf("replayed: %+v", got)
			}
			if h.tools {
				s.anotherAsks(t, h, inc, ask)
			}
			s.must(os.Remove(filepath.Join(s.root, "incident-"+inc.ID, recording.File(recording.Agent(1)))))
			if got = s.again(inc, nil); got.Same || len(got.NotServed) != 3 {
				t.Errorf("without its tape: %+v", got)
			}
		})
	}
}

// anotherAsks replays an incident with another model, which asks what was asked then and what
// was not.
func (s *site) anotherAsks(t *testing.T, h hands, inc nightcrier.Incident, ask func(string, map[string]any) fakemodel.Step) {
	t.Helper()
	m := fakemodel.New(t)
	other := h.site(t, m, append([]fakemodel.Step{
		ask("far_owner", map[string]any{"name": "cart"}), ask("far_owner", map[string]any{"name": "bank"}),
		ask("prometheus_query", map[string]any{"query": "queue_length", "start": "20m"}), {Tools: []fakemodel.ToolCall{h.look(lastWords)}},
	}, h.deliver(oneFact)...))
	got := s.again(inc, func(o *replay.Options) {
		cfg, err := other.order().config()
		s.must(err)
		cfg.WorkspaceRoot = o.Config.WorkspaceRoot
		o.Config, o.Another = cfg, true
	})
	said := m.Requests(h.cli)
	last := said[len(said)-1].Text
	if got.Another == nil || !got.Same || len(got.NotRecorded) != 1 || !strings.Contains(got.NotRecorded[0], "bank") {
		t.Errorf("replayed: %+v, %+v", got, got.Another)
	}
	for _, want := range []string{"asked 1 times", "not recorded: nobody asked", "namespace="} {
		if !strings.Contains(last, want) {
			t.Errorf("the other model was not told %q", want)
		}
	}
}

// unpacked is a file of an incident's workspace that is packed.
func (s *site) unpacked(inc nightcrier.Incident, rel string) string {
	s.Helper()
	in, err := gzip.NewReader(bytes.NewReader(s.file(inc, rel)))
	s.must(err)
	raw, err := io.ReadAll(in)
	s.must(err)
	return string(raw)
}
