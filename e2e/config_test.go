package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/ingest/webhook"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/apitest"
	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

// TestEveryKeyHasAnEffect shows what each key of the configuration changes in the
// running product. A key without a row fails: no key does nothing.
func TestEveryKeyHasAnEffect(t *testing.T) {
	t.Parallel()
	rows := effects()
	known := keysOf(t, config.Schema())
	for key := range rows {
		if !slices.Contains(known, key) {
			t.Errorf("%s is no key", key)
		}
	}
	for _, key := range known {
		show := rows[key]
		if show == nil {
			t.Errorf("nobody shows the effect of %s", key)
			continue
		}
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			show(newHouse(t))
		})
	}
}

// keysOf lists the paths of a schema's settings, older spellings excepted.
func keysOf(t *testing.T, schema []byte) []string {
	t.Helper()
	type node struct {
		Deprecated bool
		Properties map[string]json.RawMessage
		Items      json.RawMessage
	}
	var paths []string
	var walk func(path string, raw json.RawMessage)
	walk = func(path string, raw json.RawMessage) {
		var n node
		if err := json.Unmarshal(raw, &n); err != nil {
			t.Fatal(err)
		}
		switch {
		case n.Deprecated:
		case n.Properties != nil:
			for name, sub := range n.Properties {
				walk(strings.TrimPrefix(path+"."+name, "."), sub)
			}
		case n.Items != nil:
			walk(path+"[]", n.Items)
		default:
			paths = append(paths, path)
		}
	}
	walk("", schema)
	slices.Sort(paths)
	return paths
}

// effects are the rows: what each key changes, by its path.
func effects() map[string]func(*house) {
	all := map[string]func(*house){}
	for _, some := range []map[string]func(*house){intakeEffects(), serverEffects(), clusterEffects(), sourceEffects(), hookEffects(), toolEffects(), agentEffects(), knowledgeEffects(), checkedOnly()} {
		maps.Copy(all, some)
	}
	return all
}

// working is an agent of which only the orders are looked at.
const working = "agent: {executor: script, script_path: /bin/true}"

func intakeEffects() map[string]func(*house) {
	return map[string]func(*house){
		"severity_threshold": func(h *house) {
			h.start("severity_threshold: critical")
			low, high := h.fault("d1", "error"), h.fault("d2", "critical")
			h.want(low.Reason == nightcrier.BelowThreshold && high.Outcome == nightcrier.Opened, "%+v, %+v", low, high)
		},
		"dedupe_window": func(h *house) {
			h.start("dedupe_window: 0")
			first := h.done()
			again := h.fault("d1", "critical")
			h.want(again.Outcome == nightcrier.Opened && again.Incident.PreviousID == first.ID, "%+v", again)
		},
		"storm.fingerprints": func(h *house) {
			h.start("storm: {fingerprints: 2}")
			h.fault("d1", "error")
			h.want(h.fault("d2", "error").StormStarted != nil, "two faults are no storm")
		},
		"storm.within": func(h *house) {
			h.start("storm: {fingerprints: 2, within: 1s}")
			h.fault("d1", "error")
			h.ahead.Store(int64(3 * time.Second))
			h.want(h.fault("d2", "error").StormStarted == nil, "two faults within three seconds are a storm")
		},
		"storm.investigate": func(h *house) {
			h.start("storm: {fingerprints: 2, investigate: 1}", working)
			h.fault("d1", "error")
			h.fault("d2", "error")
			third := h.fault("d3", "error")
			h.want(third.Run.Reason == nightcrier.StormListed || slices.ContainsFunc(third.Dropped, func(r nightcrier.Run) bool { return r.Reason == nightcrier.StormListed }), "%+v", third)
		},
		"storm.quiet": func(h *house) {
			h.start("storm: {fingerprints: 2, quiet: 1s}")
			h.fault("d1", "error")
			h.fault("d2", "error")
			h.ahead.Store(int64(time.Minute))
			h.logs("storm is over")
		},
		"max_concurrent_agents": func(h *house) {
			h.start("max_concurrent_agents: 6", working)
			for i := range 7 {
				h.fault("d1", "error", fmt.Sprint("c", i))
			}
			h.counts(6, 1)
		},
		"max_concurrent_per_cluster": func(h *house) {
			h.start("max_concurrent_per_cluster: 2", working)
			for _, d := range []string{"d1", "d2", "d3"} {
				h.fault(d, "error")
			}
			h.counts(2, 1)
		},
		"queue.max": func(h *house) {
			h.start("queue: {max: 1}", working)
			h.fault("d1", "critical")
			h.counts(1, 0)
			h.fault("d2", "critical")
			third := h.fault("d3", "warning")
			h.want(len(third.Dropped) == 1 && third.Dropped[0].Reason == nightcrier.QueueFull, "%+v", third)
		},
		"queue.expiry": func(h *house) {
			h.start("queue: {expiry: 1m}", working)
			h.fault("d1", "critical")
			h.counts(1, 0)
			second := h.fault("d2", "critical")
			h.ahead.Store(int64(2 * time.Minute))
			h.fault("d3", "critical", "c2") // wakes admission
			h.want(h.closed(second.Incident.ID).Status == nightcrier.Failed, "the second is not given up")
			h.logs(string(nightcrier.QueueExpired))
		},
	}
}

func serverEffects() map[string]func(*house) {
	return map[string]func(*house){
		"workspace_root": func(h *house) {
			h.root = filepath.Join(filepath.Dir(h.root), "elsewhere")
			inc := h.start("workspace_root: ./elsewhere", "log: {level: info}").done()
			h.want(filepath.Dir(inc.Workspace) == h.cfg.WorkspaceRoot && filepath.Base(h.cfg.WorkspaceRoot) == "elsewhere", "%s", inc.Workspace)
			h.t.Cleanup(func() { _ = os.RemoveAll(h.cfg.WorkspaceRoot) })
		},
		"workspace_max_bytes": func(h *house) {
			spec := h.order("workspace_max_bytes: 7MiB", working)
			h.want(spec.MaxWorkspaceBytes == 7<<20, "%+v", spec)
		},
		"retention": func(h *house) {
			inc := h.start("retention: 1h").done()
			h.must(h.Stop(context.Background()))
			h.ahead.Store(int64(2 * time.Hour))
			h.run(nil)
			h.eventually(func() string {
				if _, err := os.Stat(inc.Workspace); os.IsNotExist(err) {
					return ""
				}
				return "the workspace is still there"
			})
		},
		"database_url": func(h *house) {
			h.dsn = pgtest.DSN(h.t)
			h.start("database_url: " + h.dsn).done()
			h.look(func(st *store.Store) { h.want(len(h.incidents(st)) == 1, "PostgreSQL has no incident") })
			_, err := os.Stat(filepath.Join(h.root, "nightcrier.db"))
			h.want(os.IsNotExist(err), "there is a SQLite file: %v", err)
		},
		"listen": func(h *house) {
			h.start("listen: 127.0.0.1:0")
			h.want(h.get("http://"+h.Addr()+"/api/v1/incidents") == 200, "the API does not listen")
		},
		"health_listen": func(h *house) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			h.must(err)
			h.must(l.Close())
			h.start("health_listen: " + l.Addr().String())
			h.want(h.get("http://"+l.Addr().String()+"/healthz") == 200, "health is not served")
			h.want(h.get("http://"+l.Addr().String()+"/api/v1/incidents") == 404, "incidents are served with health")
		},
		"page_listen": func(h *house) {
			h.start("page_listen: 127.0.0.1:0")
			h.want(h.get(h.PageLink()) == 200, "the page is not served")
		},
		"page_url": func(h *house) {
			h.start("page_listen: 127.0.0.1:0", "page_url: https://night.example")
			h.want(h.getAs("night.example", h.PageLink()) == 200, "it is not reached by its address")
			h.want(h.getAs("other.example", h.PageLink()) == 421, "it is reached by another one")
		},
		"page_tokens": func(h *house) {
			h.start("page_listen: 127.0.0.1:0", "page_tokens: [ada=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]")
			link, err := url.Parse(h.PageLink())
			h.must(err)
			for token, want := range map[string]int{"test": 303, "tset": 401} {
				r, err := http.NewRequest("POST", "http://"+link.Host+"/login", strings.NewReader("token="+token))
				h.must(err)
				r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {"http://" + link.Host}}
				answer, err := http.DefaultTransport.RoundTrip(r)
				h.must(err)
				h.must(answer.Body.Close())
				h.want(answer.StatusCode == want, "token %s: %d", token, answer.StatusCode)
			}
		},
		"log.level": func(h *house) {
			h.start("log: {level: error}").done()
			h.want(h.log.String() == "", "logged at level error: %s", h.log)
		},
		"log.format": func(h *house) {
			h.start("log: {format: text}")
			h.want(strings.Contains(h.log.String(), "event=ready"), "%s", h.log)
		},
		"slack.webhook_url": func(h *house) {
			h.start("slack: {webhook_url: " + h.slack.URL + "}").done()
			h.eventually(func() string { return strings.Repeat("no post", 1-min(1, len(h.slack.got()))) })
		},
	}
}

// watched is one cluster whose faults the peer pushes.
func (h *house) watched(more string) []string {
	return []string{"clusters:", "  - {name: c1, mcp: {endpoint: " + h.peer.URL("c1") + "}" + more + "}"}
}

func (h *house) subscribed(of string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	h.must(h.peer.AwaitSubscribed(ctx, of))
}

func clusterEffects() map[string]func(*house) {
	return map[string]func(*house){
		"clusters[].name": func(h *house) {
			h.start("clusters: [{name: berlin-1, mcp: {endpoint: " + h.peer.URL("c1") + "}}]")
			h.push("c1", fault(h.t, oom))
			h.want(h.ended().Cluster == "berlin-1", "the incident is of another cluster")
		},
		"clusters[].labels": func(h *house) {
			h.start(h.watched(", labels: {team: shop}")...)
			h.want(h.Statuses()[0].Labels["team"] == "shop", "%+v", h.Statuses())
		},
		"clusters[].mcp.endpoint": func(h *house) {
			h.start(h.watched("")...)
			h.subscribed("c1")
		},
		"clusters[].mcp.mode": func(h *house) {
			h.start("clusters: [{name: c1, mcp: {endpoint: " + h.peer.URL("c1") + ", mode: events}}]")
			h.subscribed("c1")
			h.want(h.peer.Stats("c1").Subscribes[0]["mode"] == "events", "%+v", h.peer.Stats("c1"))
		},
		"clusters[].mcp.api_key_env": func(h *house) {
			_, err := h.load([]string{"C1_KEY=key-abcdef"}, "clusters: [{name: c1, mcp: {endpoint: "+h.peer.URL("c1")+", api_key_env: C1_KEY}}]")
			h.must(err)
			h.run(nil)
			h.subscribed("c1")
			h.want(h.peer.Stats("c1").Authorization == "Bearer key-abcdef", "%+v", h.peer.Stats("c1"))
		},
		"clusters[].watch": func(h *house) {
			cluster := apitest.New(h.t)
			h.start("clusters: [{name: c1, watch: true, kubeconfig: " + cluster.Kubeconfig(h.t) + "}]")
			cluster.Put("persistentvolumeclaims", "shop", "data", []byte(`{"metadata":{"name":"data","namespace":"shop","uid":"u1"},"status":{"phase":"Lost"}}`))
			h.counts(1, 0)
			h.want(h.Statuses()[0].Source == "watch", "%+v", h.Statuses())
		},
		"clusters[].kubeconfig": func(h *house) {
			path, asked := h.kubeconfig()
			h.start(h.watched(", kubeconfig: " + path)...).done()
			h.want(asked["first"].Load() && !asked["second"].Load(), "the first server was not asked, or the second was")
		},
		"clusters[].context": func(h *house) {
			path, asked := h.kubeconfig()
			h.start(h.watched(", context: second, kubeconfig: " + path)...).done()
			h.want(asked["second"].Load() && !asked["first"].Load(), "the second server was not asked, or the first was")
		},
		"clusters[].namespaces": func(h *house) {
			h.start("clusters: [{name: c1, namespaces: [shop]}, {name: c2, namespaces: [made-up]}]")
			out, in := h.fault("d1", "error"), h.fault("d1", "error", "c2")
			h.want(out.Reason == nightcrier.OutsideNamespaces && in.Outcome == nightcrier.Opened, "%+v, %+v", out, in)
		},
		"clusters[].allow_write_credential": func(h *house) {
			h.start(h.watched(", allow_write_credential: true, kubeconfig: " + h.administrator())...)
			h.eventually(func() string {
				if a := h.Statuses()[0].Access; a.ReadOnly != "no" || !a.Agents {
					return fmt.Sprintf("%+v", a)
				}
				return ""
			})
		},
	}
}

// administrator names an API server that says its caller may do everything.
func (h *house) administrator() string {
	h.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":{"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}}`)
	}))
	h.t.Cleanup(server.Close)
	path := filepath.Join(filepath.Dir(h.root), "administrator")
	h.must(os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\ncurrent-context: a\nusers: [{name: u, user: {}}]\n"+
		"clusters: [{name: a, cluster: {server: '"+server.URL+"'}}]\ncontexts: [{name: a, context: {cluster: a, user: u}}]\n"), 0o600))
	return path
}

// kubeconfig names two API servers that refuse everything, and tells which of them
// was asked.
func (h *house) kubeconfig() (path string, asked map[string]*atomic.Bool) {
	h.Helper()
	text := "apiVersion: v1\nkind: Config\ncurrent-context: first\nusers: [{name: u, user: {}}]\n"
	var clusters, contexts string
	asked = map[string]*atomic.Bool{"first": {}, "second": {}}
	for name, was := range asked {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			was.Store(true)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "it is forbidden"})
		}))
		h.t.Cleanup(server.Close)
		clusters += fmt.Sprintf("- {name: %s, cluster: {server: '%s'}}\n", name, server.URL)
		contexts += fmt.Sprintf("- {name: %s, context: {cluster: %s, user: u}}\n", name, name)
	}
	path = filepath.Join(filepath.Dir(h.root), "kubeconfig")
	h.must(os.WriteFile(path, []byte(text+"clusters:\n"+clusters+"contexts:\n"+contexts), 0o600))
	return path, asked
}

// reportOf returns the report of an incident that has ended.
func (h *house) reportOf(inc nightcrier.Incident) (rep nightcrier.Report) {
	h.Helper()
	raw, err := h.Store().Report(h.t.Context(), inc.ID)
	h.must(err)
	h.must(json.Unmarshal(raw, &rep))
	return rep
}

// alerted starts the product, lets an alert arrive that names a page, and returns
// the runbooks of its report.
func (h *house) alerted(setting, page string) []nightcrier.Runbook {
	h.Helper()
	h.start(setting, "clusters: [{name: c1}]")
	list, err := webhook.Alerts(webhook.Cluster{Name: "c1"}, fmt.Appendf(nil,
		`{"labels": {"alertname": "KubePodCrashLooping", "severity": "critical", "namespace": "shop", "pod": "cart-0"}, "annotations": {"runbook_url": %q}}`, page))
	h.must(err)
	list[0].ReceivedAt = time.Now()
	dec, err := h.Deliver(h.t.Context(), list[0])
	h.must(err)
	return h.reportOf(h.closed(dec.Incident.ID)).Runbooks
}

func agentEffects() map[string]func(*house) {
	// spec is a row of a key that a worker is told.
	spec := func(setting string, told func(backend.Spec) bool) func(*house) {
		return func(h *house) {
			got := h.order("agent:", "  executor: script", "  script_path: /bin/true", "  "+setting)
			h.want(told(got), "%+v", got)
		}
	}
	return map[string]func(*house){
		"agent.executor": func(h *house) {
			h.want(h.start("agent: {executor: builtin, script_path: /bin/true}").done().Executor == "builtin", "another executor")
			h.want(len(h.orders.all()) == 0, "a worker was started")
		},
		"agent.script_path": func(h *house) {
			got := h.order("agent: {script_path: /bin/true}")
			h.want(got.Executor == "script" && got.ScriptPath == "/bin/true", "%+v", got)
		},
		"agent.command": func(h *house) {
			got := h.order("agent: {command: /bin/true}")
			h.want(got.Executor == "claude-code" && got.Command == "/bin/true", "%+v", got)
		},
		"agent.shell": func(h *house) {
			got := h.order("agent: {command: /bin/true, shell: false}")
			h.want(got.Executor == "claude-code" && !got.Shell, "%+v", got)
		},
		"agent.provider":          spec("provider: openai", func(s backend.Spec) bool { return s.Provider == nightcrier.OpenAI }),
		"agent.cli":               spec("cli: goose", func(s backend.Spec) bool { return s.CLI == "goose" }),
		"agent.model":             spec("model: opus", func(s backend.Spec) bool { return s.Model == "opus" }),
		"agent.timeout":           spec("timeout: 77s", func(s backend.Spec) bool { return s.Timeout == 77*time.Second }),
		"agent.graceful_shutdown": spec("graceful_shutdown: 7s", func(s backend.Spec) bool { return s.Grace == 7*time.Second }),
		"agent.max_turns":         spec("max_turns: 7", func(s backend.Spec) bool { return s.MaxTurns == 7 }),
		"agent.max_tokens":        spec("max_tokens: 700", func(s backend.Spec) bool { return s.MaxTokens == 700 }),
		"agent.models":            spec("models: [x*]", func(s backend.Spec) bool { return slices.Equal(s.Models, []string{"x*"}) }),
		"agent.prices":            spec("prices: [x=1/2]", func(s backend.Spec) bool { return slices.Equal(s.Prices, []string{"x=1/2"}) }),
		"agent.allowed_tools":     spec("allowed_tools: [Read]", func(s backend.Spec) bool { return slices.Equal(s.AllowedTools, []string{"Read"}) }),
		"agent.base_url":          spec("base_url: http://127.0.0.1:9", func(s backend.Spec) bool { return s.BaseURL == "http://127.0.0.1:9" }),
		"agent.system_prompt_file": func(h *house) {
			file := filepath.Join(filepath.Dir(h.root), "prompt.md")
			h.must(os.WriteFile(file, []byte("You look at shops."), 0o600))
			inc := h.start("agent: {system_prompt_file: " + file + "}").done()
			h.want(strings.Contains(h.inWorkspace(inc, "context/system-instructions.txt"), "You look at shops."), "the file is not in the prompt")
		},
		"agent.api_key": func(h *house) {
			h.script(`echo "${ANTHROPIC_API_KEY:+there}" > "$OUTPUT_DIR/artifacts/key"; ` + reports)
			_, err := h.load(nil, "agent: {api_key: "+realKey+", script_path: "+h.env["AGENT_SCRIPT_PATH"]+"}")
			h.must(err)
			h.run(nil)
			h.want(h.inWorkspace(h.done(), "output/artifacts/key") == "there\n", "the agent has no way to a model")
		},
		"skills.cache_dir": func(h *house) {
			dir := filepath.Join(filepath.Dir(h.root), "skills")
			h.must(os.MkdirAll(filepath.Join(dir, "k8s-troubleshooter"), 0o700))
			h.must(os.WriteFile(filepath.Join(dir, "k8s-troubleshooter", "SKILL.md"), []byte("# Mine\n"), 0o600))
			h.script(`cat "$SKILLS_DIR/k8s-troubleshooter/SKILL.md" .claude/skills/k8s-troubleshooter/SKILL.md > "$OUTPUT_DIR/artifacts/skill"; ` + reports)
			_, err := h.load(nil, "skills: {cache_dir: "+dir+"}", "agent: {script_path: "+h.env["AGENT_SCRIPT_PATH"]+"}")
			h.must(err)
			h.run(nil)
			inc := h.done()
			h.want(h.inWorkspace(inc, "output/artifacts/skill") == "# Mine\n# Mine\n" && inc.Skills[0].Version == "", "the skill is %q, %+v", h.inWorkspace(inc, "output/artifacts/skill"), inc.Skills)
		},
		"pipelines_dir": func(h *house) {
			dir := filepath.Join(filepath.Dir(h.root), "pipelines")
			h.must(os.MkdirAll(dir, 0o700))
			h.must(os.WriteFile(filepath.Join(dir, "triage.yaml"), []byte("name: k8s-incident-triage\non: incident\nsteps:\n"+
				"- {id: look-around, action: collect}\n- {id: investigate, skill: sre/k8s-troubleshooter, deliverable: report, required: false}\n- action: check\n- action: notify\n"), 0o600))
			steps, err := h.start("pipelines_dir: "+dir).Store().Steps(h.t.Context(), h.done().RunID)
			h.must(err)
			h.want(len(steps) > 0 && steps[0].ID == "look-around", "the steps of the run are %+v", steps)
		},
		"history_dir": func(h *house) {
			dir := filepath.Join(filepath.Dir(h.root), "history")
			h.must(os.MkdirAll(dir, 0o700))
			h.must(os.WriteFile(filepath.Join(dir, "episodic_memory.json"), []byte(`{"entries": [{"execution_id": "EXEC-1", "skill": "dev/reviewer", "timestamp": "`+
				time.Now().UTC().Format(time.RFC3339)+`", "outcome": "accepted"}]}`), 0o600))
			runs, _, err := h.start("history_dir: "+dir).Store().ListRuns(h.t.Context(), store.RunFilter{})
			h.must(err)
			h.want(len(runs) == 1 && runs[0].Pipeline == "dev/reviewer", "the runs are %+v", runs)
		},
		"skills.sources": func(h *house) {
			cache, source := filepath.Join(filepath.Dir(h.root), "cache"), filepath.Join(filepath.Dir(h.root), "source")
			for dir, text := range map[string]string{cache: "# Cached\n", source: "# Sourced\n"} {
				h.must(os.MkdirAll(filepath.Join(dir, "k8s-troubleshooter"), 0o700))
				h.must(os.WriteFile(filepath.Join(dir, "k8s-troubleshooter", "SKILL.md"), []byte(text), 0o600))
			}
			inc := h.start("skills: {cache_dir: " + cache + ", sources: [{path: " + source + "}]}").done()
			h.want(h.inWorkspace(inc, ".claude/skills/k8s-troubleshooter/SKILL.md") == "# Sourced\n", "the source is not used")
		},
		"skills.include": func(h *house) {
			dir := filepath.Join(filepath.Dir(h.root), "skills")
			h.must(os.MkdirAll(filepath.Join(dir, "payments", "references"), 0o700))
			h.must(os.WriteFile(filepath.Join(dir, "payments", "SKILL.md"), []byte("---\ndescription: for the queue\nversion: 3\n---\n"), 0o600))
			h.must(os.WriteFile(filepath.Join(dir, "payments", "references", "queue.md"), []byte("drain"), 0o600))
			inc := h.start("skills: {cache_dir: " + dir + ", include: [payments]}").done()
			h.want(len(inc.Skills) == 2 && inc.Skills[1].Name == "payments" && inc.Skills[1].Version == "3" && inc.Skills[1].Digest != "", "%+v", inc.Skills)
			h.want(strings.Contains(h.inWorkspace(inc, "PROMPT.md"), "- `.claude/skills/payments/SKILL.md`: for the queue\n"), "the prompt does not name it")
			h.want(h.inWorkspace(inc, ".claude/skills/payments/references/queue.md") == "drain", "it is not there whole")
		},
		"skills.triage_script": func(h *house) {
			dir := filepath.Join(filepath.Dir(h.root), "triage")
			h.must(os.MkdirAll(dir, 0o700))
			path := filepath.Join(dir, "look.sh")
			h.must(os.WriteFile(path, []byte("#!/bin/sh\necho looked with $# option: $1\n"), 0o700))
			h.script(reports)
			_, err := h.load(nil, "skills: {triage_script: "+path+"}", "agent: {script_path: "+h.env["AGENT_SCRIPT_PATH"]+"}",
				strings.Join(h.watched(", allow_write_credential: true, kubeconfig: "+h.administrator()), "\n"))
			h.must(err)
			h.run(nil)
			h.eventually(func() string {
				if !h.Statuses()[0].Access.Agents {
					return "the credential is not examined yet"
				}
				return ""
			})
			sent := h.inWorkspace(h.done(), "prompt-sent.md")
			h.want(strings.Contains(sent, "looked with 1 option: --skip-dump"), "the script's output is not in the prompt:\n%s", sent)
		},
		"runbooks.dir": func(h *house) {
			dir := filepath.Join(filepath.Dir(h.root), "runbooks")
			h.must(os.MkdirAll(dir, 0o700))
			h.must(os.WriteFile(filepath.Join(dir, "x.md"), []byte("---\nmatch: {class: workload, labels: {env: prod}}\n---\nLook at the queue."), 0o600))
			h.start("runbooks: {dir: "+dir+"}", "clusters: [{name: c1, labels: {env: prod}}]")
			list := h.reportOf(h.done()).Runbooks
			h.want(len(list) == 1 && list[0].Text == "Look at the queue.", "joined %+v", list)
		},
		"runbooks.allowed_hosts": func(h *house) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				fmt.Fprint(w, "From the wiki.")
			}))
			defer srv.Close()
			list := h.alerted("runbooks: {allowed_hosts: ['"+strings.TrimPrefix(srv.URL, "http://")+"']}", srv.URL)
			h.want(len(list) == 1 && list[0].Text == "From the wiki.", "joined %+v", list)
		},
		"runbooks.timeout": func(h *house) {
			srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
			defer srv.Close()
			list := h.alerted("runbooks: {timeout: 123ms, allowed_hosts: ['"+strings.TrimPrefix(srv.URL, "http://")+"']}", srv.URL)
			h.want(len(list) == 1 && list[0].Problem == "it did not answer within 123ms", "joined %+v", list)
		},
		"skills.disable_triage_preload": func(h *house) {
			got := h.order("skills: {disable_triage_preload: true}", working)
			prompt, err := os.ReadFile(filepath.Join(got.Workspace, "prompt-sent.md"))
			h.must(err)
			h.want(!bytes.Contains(prompt, []byte("<initial_triage_report>")) && bytes.Contains(prompt, []byte("<incident>")), "the facts are in the prompt")
			h.want(!got.Preload, "%+v", got)
		},
		"budget.per_run_usd":            limits("per_run_usd", budget.Limits{Run: budget.Limit{Money: cents}}),
		"budget.per_incident_usd":       limits("per_incident_usd", budget.Limits{Incident: budget.Limit{Money: cents}}),
		"budget.per_cluster_day_usd":    limits("per_cluster_day_usd", budget.Limits{ClusterDay: budget.Limit{Money: cents}}),
		"budget.per_day_usd":            limits("per_day_usd", budget.Limits{Day: budget.Limit{Money: cents}}),
		"budget.per_run_tokens":         limits("per_run_tokens", budget.Limits{Run: budget.Limit{Tokens: 2}}),
		"budget.per_incident_tokens":    limits("per_incident_tokens", budget.Limits{Incident: budget.Limit{Tokens: 2}}),
		"budget.per_cluster_day_tokens": limits("per_cluster_day_tokens", budget.Limits{ClusterDay: budget.Limit{Tokens: 2}}),
		"budget.per_day_tokens":         limits("per_day_tokens", budget.Limits{Day: budget.Limit{Tokens: 2}}),
		"sandbox.require": func(h *house) {
			got := h.order("sandbox: {require: none}", working)
			h.want(got.Require == "none", "%+v", got)
		},
		"sandbox.read": func(h *house) {
			got := h.order("sandbox: {read: [/opt/scripts]}", working)
			h.want(slices.Equal(got.ReadPaths, []string{"/opt/scripts"}), "%+v", got)
		},
		"sandbox.uid_base": func(h *house) {
			got := h.order("sandbox: {uid_base: 300000}", working)
			h.want(got.UIDBase == 300000, "%+v", got)
		},
	}
}

// cents are two, as the tests of limits set them.
const cents = price.Dollar / 50

// limits shows that a limit reaches the worker, which keeps it, and that no agent is
// asked once what it allows is spent.
func limits(key string, want budget.Limits) func(*house) {
	return func(h *house) {
		value, none := "2", "per_run_usd: 0, per_incident_usd: 0, per_cluster_day_usd: 0, "
		if strings.HasSuffix(key, "_usd") {
			value, none = "0.02", strings.Replace(none, key+": 0, ", "", 1)
		}
		got := h.order("budget: {"+none+key+": "+value+"}", working)
		h.want(got.Budget == want && got.BudgetDir == filepath.Join(h.root, "budget"), "%+v", got)
		l, err := budget.Open(got.BudgetDir, time.Now)
		h.must(err)
		defer l.Close()
		who := budget.Who{Run: got.RunID, Incident: got.IncidentID, Cluster: got.Cluster}
		g, err := l.Account(who, budget.Limits{}).Reserve(context.Background(), budget.Want{Output: 2, Price: price.Price{Output: cents / 2}}, nil)
		h.must(err)
		g.Lost()
		err = l.Check(who, got.Budget)
		h.want(err != nil && strings.Contains(err.Error(), "budget."+key+" is reached"), "%v", err)
	}
}

// checkedOnly are keys that leave nothing to choose: what they cannot do is
// refused or said, never ignored.
func checkedOnly() map[string]func(*house) {
	refused := func(setting, says string) func(*house) {
		return func(h *house) {
			_, err := h.load(nil, setting)
			h.want(err != nil && strings.Contains(err.Error(), says), "%s: %v", setting, err)
		}
	}
	return map[string]func(*house){
		"sandbox.backend":               refused("sandbox: {backend: docker}", "not available"),
		"agent_runtime.read_only_mode":  refused("agent_runtime: {read_only_mode: false}", "read-only"),
		"agent_runtime.metrics_enabled": refused("agent_runtime: {metrics_enabled: false}", "metrics"),
		"agent_runtime.skills[].name":   refused("agent_runtime: {skills: [{name: other}]}", "k8s-troubleshooter"),
		"agent_runtime.skills[].enabled": refused("agent_runtime: {skills: [{name: k8s-troubleshooter, enabled: false}]}",
			"cannot be switched off"),
	}
}
