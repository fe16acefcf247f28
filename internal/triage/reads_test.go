package triage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// watched tells audit of its reads, as a reader behind a guard does.
type watched struct {
	diagnose.Reader
	audit func(context.Context, journal.Request) error
	n     atomic.Int64
}

func (w *watched) Get(ctx context.Context, res nightcrier.Resource) ([]byte, error) {
	return w.asked(ctx, "get", strings.ToLower(res.Kind)+"s", res.Namespace, res.Name, func() ([]byte, error) { return w.Reader.Get(ctx, res) })
}

func (w *watched) List(ctx context.Context, kind, ns, labels, fields string, limit int) ([]byte, error) {
	k, _ := kinds.Named(kind)
	return w.asked(ctx, "list", k.Plural, ns, "", func() ([]byte, error) {
		return w.Reader.List(ctx, kind, ns, labels, fields, limit)
	})
}

func (w *watched) asked(ctx context.Context, verb, resource, ns, name string, ask func() ([]byte, error)) ([]byte, error) {
	q := journal.Request{ID: w.n.Add(1), Time: time.Now(), Verb: verb, Resource: resource, Namespace: ns, Name: name, Decision: journal.Allow}
	if err := w.audit(ctx, q); err != nil {
		return nil, err
	}
	body, err := ask()
	q.Done, q.Status, q.Bytes, q.SHA256 = true, 200, int64(len(body)), "of the answer"
	return body, errors.Join(err, w.audit(ctx, q))
}

func watching(t *testing.T) func(string, *mask.Masker, func(context.Context, journal.Request) error) diagnose.Reader {
	d, err := scenarios()
	if err != nil {
		t.Fatal(err)
	}
	return func(name string, _ *mask.Masker, audit func(context.Context, journal.Request) error) diagnose.Reader {
		return &watched{Reader: recorded(d, name), audit: audit}
	}
}

// lines reads the audit of the run.
func (b *bench) lines() (list []audit.Record) {
	b.Helper()
	file := b.read(auditFile)
	if _, problems, err := audit.Verify(strings.NewReader(file), b.report().AuditHead); err != nil || len(problems) > 0 {
		b.Errorf("the audit does not verify: %v, %v", problems, err)
	}
	for line := range strings.Lines(file) {
		var r audit.Record
		b.must(json.Unmarshal([]byte(line), &r))
		list = append(list, r)
	}
	return list
}

// What the preparation reads is in the audit, with the id under which it was kept.
func TestThePreparationIsAudited(t *testing.T) {
	b := newBench(t, run.Builtin, watching(t))
	var asked audit.Summary
	b.told.ended = func(s audit.Summary) { asked = s }
	b.investigate()
	index := b.read("output/evidence/index.jsonl")
	list := b.lines()
	if len(list) == 0 || asked.Requests != len(list) || asked.Head != b.report().AuditHead || asked.Head == "" {
		t.Fatalf("%d lines, %+v", len(list), asked)
	}
	for _, r := range list {
		if r.Evidence == "" || r.Status != 200 || !strings.Contains(index, `"id":"`+r.Evidence+`"`) || !strings.Contains(index, r.SHA256) {
			t.Errorf("%+v is not what was kept:\n%s", r, index)
		}
	}
	for _, line := range list { // each answer stands with what was kept of it
		if kept := keptAs(t, index, line.Evidence); line.Verb == "list" && !strings.HasPrefix(kept, "kubectl get "+line.Resource) {
			t.Errorf("%s of %s was kept as %q", line.Verb, line.Resource, kept)
		}
	}
	log := b.read(run.AgentLogFile)
	asks := 0
	for _, r := range list {
		if r.Evidence == list[0].Evidence {
			asks++ // the tests of the report may get the same answer again
		}
	}
	if n := strings.Count(log, "evidence "+list[0].Evidence+" "); n != asks {
		t.Errorf("%s is told %d times, asked for %d times:\n%s", list[0].Evidence, n, asks, log)
	}
	if told := regexp.MustCompile("→ 200, " + list[0].Evidence + `\b`); !told.MatchString(b.read(report.FinalFile)) {
		t.Errorf("the final report lists no request that was kept as %s:\n%s", list[0].Evidence, b.read(report.FinalFile))
	}
	if !strings.Contains(b.read(report.FinalFile), asked.Head) {
		t.Error("the head is not in the final report")
	}
}

// keptAs is the source of evidence id.
func keptAs(t *testing.T, index, id string) string {
	t.Helper()
	for line := range strings.Lines(index) {
		var it struct{ ID, Source string }
		if err := json.Unmarshal([]byte(line), &it); err == nil && it.ID == id {
			return it.Source
		}
	}
	t.Errorf("%s is not in the index", id)
	return ""
}

// A step that is repeated after a crash asks again, and both are on record.
func TestARepeatedPreparationIsAuditedTwice(t *testing.T) {
	b := newBench(t, run.Builtin, watching(t))
	o := b.order(agent.Spec{Executor: run.Builtin, Preload: true, Timeout: time.Minute})
	_, err := b.store.BeginRun(t.Context(), b.run.ID)
	b.must(err)
	ws, err := b.root.Create(b.inc.ID)
	b.must(err)
	b.must(ws.Close())
	var res nightcrier.AgentResult
	for range 2 {
		s := b.session(o)
		res, err = s.prepareRun(t.Context())
		b.must(err)
		s.Close()
	}
	s := b.session(o)
	defer s.Close()
	if _, err := s.checkOutcome(t.Context(), res, run.Review{}, nil); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range b.lines() {
		seen[r.Verb+" "+r.Resource+" "+r.Name+" "+r.Evidence]++
	}
	for what, n := range seen {
		if n != 2 {
			t.Errorf("%s stands there %d times", what, n)
		}
	}
}

// What was kept is told once: by the request that it answers, each time that it does, or
// by an entry of its own, and not again at the end of a later step. A reader that tells of
// no requests has entries of their own alone.
func TestEvidenceIsToldOnce(t *testing.T) {
	ask := journal.Request{ID: 1, Time: time.Now(), Verb: "get", Resource: "pods", Name: "cart", Decision: journal.Allow, Done: true, Status: 200, Evidence: "E77"}
	for name, reader := range map[string]func(string, *mask.Masker, func(context.Context, journal.Request) error) diagnose.Reader{"audited": watching(t), "not audited": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "script", reader, attempt{report: "facts", result: success(), says: []journal.Item{journal.OfRequest(ask)}})
			b.investigate()
			entries, err := b.store.Journal(t.Context(), b.run.ID, 1, 1000)
			b.must(err)
			told, first, tested := map[string]string{}, 0, false
			for _, e := range entries {
				tested = tested || e.Key == "tested"
				if e.Type != nightcrier.EntryEvidence {
					continue
				}
				v, err := journal.Decode[journal.Evidence](e)
				b.must(err)
				if v.Request == nil && told[v.ID] != "" {
					t.Errorf("%s, which %s tells, is told again by %s", v.ID, told[v.ID], e.Key)
				}
				if told[v.ID] == "" {
					told[v.ID] = e.Key
					first++
				}
			}
			if !tested || first < 3 {
				t.Errorf("the report's tests were run: %v; %d pieces of evidence", tested, first)
			}
			for line := range strings.Lines(b.read("output/evidence/index.jsonl")) {
				var it struct{ ID string }
				b.must(json.Unmarshal([]byte(line), &it))
				if told[it.ID] == "" {
					t.Errorf("%s is told nowhere", it.ID)
				}
			}
		})
	}
}

// Without an entry in the journal nothing is asked.
func TestNoReadWithoutItsEntry(t *testing.T) {
	b := newBench(t, run.Builtin, nil)
	s := b.session(b.order(agent.Spec{}))
	defer s.Close()
	look := s.newReads(t.Context())
	look.note = func(string, journal.Item) error { return errors.New("the store is away") }
	if err := look.auditRequest(t.Context(), journal.Request{Decision: journal.Allow}); err == nil {
		t.Error("a decision that was not journaled was let through")
	}
}

// What the agent asked is in the audit, and whether it may ask in its prompt.
func TestTheAgentIsAudited(t *testing.T) {
	ask := journal.Request{ID: 1, Time: time.Now(), Verb: "get", Resource: "pods", Name: "cart", Decision: journal.Allow}
	answer := ask
	answer.Done, answer.Status, answer.Evidence = true, 200, "E77"
	write := journal.Request{ID: 2, Time: time.Now(), Verb: "delete", Resource: "pods", Name: secret, Decision: journal.Deny, Reason: "reads only", Done: true, Status: 403}
	for name, cred := range map[string]*backend.Credential{"with access": {Kubeconfig: []byte("x")}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "script", watching(t), attempt{report: "facts", result: success(),
				says: []journal.Item{journal.OfRequest(ask), journal.OfRequest(answer), journal.OfRequest(write)}})
			b.clusters.access = func(_ context.Context, cluster, namespace string) (*backend.Credential, string) {
				if cluster != b.inc.Cluster || namespace != b.inc.Namespace() {
					t.Errorf("asked for %s/%s", cluster, namespace)
				}
				return cred, "it can write"
			}
			b.investigate()
			list := b.lines()
			at := slices.IndexFunc(list, func(r audit.Record) bool { return r.Evidence == "E77" })
			if at < 0 || at+1 == len(list) || list[at+1].Decision != journal.Deny || list[at+1].Reason != "reads only" {
				t.Errorf("the audit does not hold what the agent asked: %+v", list)
			}
			if got := b.agents.creds(); len(got) != 1 || got[0] != cred {
				t.Errorf("the worker got %v", got)
			}
			prompt, log := b.read("PROMPT.md"), b.read(run.AgentLogFile)
			if can := strings.Contains(prompt, "Warning: evidence E12"); can != (cred != nil) {
				t.Errorf("the prompt says that the agent can look: %v", can)
			}
			if cred == nil && !(strings.Contains(prompt, "it can write") && strings.Contains(log, "cannot look into the cluster, it can write")) {
				t.Errorf("why not is not said:\n%s", log)
			}
			if commands := b.read("logs/agent-commands-executed.log"); !strings.Contains(commands, "DENIED cluster: delete pods") || bytes.Contains([]byte(b.read(auditFile)), []byte(secret)) {
				t.Errorf("commands:\n%s", commands)
			}
		})
	}
}

// An agent is told of what it may look with, which is what agent.allowed_tools names.
func TestThePromptPromisesWhatIsAllowed(t *testing.T) {
	for name, tt := range map[string]struct {
		allowed        []string
		says, saysNone string
	}{
		"some":    {[]string{"Bash(kubectl:get*)"}, "`kubectl get`.", "kubectl logs`"},
		"nothing": {[]string{"Read"}, "agent.allowed_tools names nothing that looks into one", "`kubectl get`."},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "script", watching(t), attempt{report: "facts", result: success()})
			b.clusters.access = func(context.Context, string, string) (*backend.Credential, string) {
				return &backend.Credential{Kubeconfig: []byte("x")}, ""
			}
			b.investigateWith(agent.Spec{Preload: true, Timeout: time.Minute, AllowedTools: tt.allowed})
			if prompt := b.read("PROMPT.md"); !strings.Contains(prompt, tt.says) || strings.Contains(prompt, tt.saysNone) {
				t.Error(prompt)
			}
		})
	}
}

// The tools of an agent without a shell are told of by the same words.
func TestToolsThatAreToldOf(t *testing.T) {
	codex, err := agent.For("codex")
	if err != nil {
		t.Fatal(err)
	}
	var without []string
	for _, name := range promptAgent(codex, []string{"Bash(kubectl:get*)"}).Tools {
		if strings.HasSuffix(name, "logs") || strings.HasSuffix(name, "describe") {
			without = append(without, name)
		}
	}
	if tools := promptAgent(codex, []string{"Bash(kubectl:get*)"}).Tools; len(without) > 0 || len(tools) == 0 {
		t.Errorf("told of %v", tools)
	}
	if tools := promptAgent(codex, nil).Tools; len(tools) > 0 {
		t.Errorf("told of %v", tools)
	}
}
