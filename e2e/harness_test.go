package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
	"nightcrier.dev/nightcrier/internal/test/pgtest"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// patience bounds every wait for something that a real process does: a real CLI that
// works through its whole script beside others, on a machine that does much else.
const patience = 3 * time.Minute

// databases runs a test on each of the databases.
func databases(t *testing.T, test func(t *testing.T, dsn func(testing.TB) string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, sqlite) })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.DSN) })
}

// sqlite is the database in the workspace root.
func sqlite(testing.TB) string { return "" }

// site is all that one installation of the product has around it: a workspace
// root, a database, a peer that pushes faults, a Slack that counts. When the
// test ends nothing of it may run any more.
type site struct {
	testing.TB
	root  string
	dsn   string
	peer  *fakemcp.Peer
	slack *slackHook
	// env overrides what the configuration is read from.
	env map[string]string
	// clusters are those with a source.
	clusters []string
	logFile  string
	// program is what servers are started from.
	program string
	// when is when the recorded faults happened, to the site's servers.
	when time.Time
}

// cluster is the demo's cluster that most tests let a fault happen in.
const cluster = "demo-east"

// newSite makes an installation with one cluster.
func newSite(tb testing.TB, dsn string) *site {
	tb.Helper()
	dir := tb.TempDir()
	s := &site{
		TB: tb, root: filepath.Join(dir, "root"), dsn: dsn, peer: fakemcp.NewPeer(), slack: newSlackHook(tb),
		env: map[string]string{}, clusters: []string{cluster}, logFile: filepath.Join(dir, "server.log"),
		program: testproc.Self(), when: scenarioTime,
	}
	s.must(s.peer.Listen())
	tb.Cleanup(func() { s.must(s.peer.Close()) })
	tb.Cleanup(func() {
		s.noneLeft()
		if tb.Failed() {
			log, _ := os.ReadFile(s.logFile)
			tb.Logf("server log:\n%s", log[max(0, len(log)-6<<10):])
		}
	})
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// agentMark is what every agent says first.
const agentMark = "agent-is-up"

// script makes the agent a shell script; see the scripts below. Further output
// should wait for the test: lines that come together are one journal entry, or two.
func (s *site) script(body string) {
	s.Helper()
	path := filepath.Join(filepath.Dir(s.root), "agent.sh")
	s.must(os.WriteFile(path, []byte("#!/bin/sh\necho "+agentMark+"\n"+body), 0o755))
	s.env["NIGHTCRIER_AGENT_EXECUTOR"], s.env["AGENT_SCRIPT_PATH"] = "script", path
}

const (
	// reports writes a valid report: the facts that the agent was given.
	reports = `cp "$WORKSPACE_DIR/context/initial_triage_report.md" "$OUTPUT_DIR/investigation.md"` + "\n"
	// waits until the test lets the agent go on; see site.release.
	waits = `while [ ! -e "$TMPDIR/go" ]; do sleep 0.02; done` + "\n"
	// stubborn takes no notice of being interrupted.
	stubborn = `trap "" INT TERM` + "\n"
)

// order is the configuration of the site's servers.
func (s *site) order() order {
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "WORKSPACE_ROOT": s.root, "DATABASE_URL": s.dsn,
		"SLACK_WEBHOOK_URL": s.slack.URL, "NIGHTCRIER_LISTEN": "none", "NIGHTCRIER_AGENT_EXECUTOR": "builtin",
		// Models that are scripted have no price.
		"NIGHTCRIER_BUDGET_PER_RUN_USD": "0", "NIGHTCRIER_BUDGET_PER_INCIDENT_USD": "0", "NIGHTCRIER_BUDGET_PER_CLUSTER_DAY_USD": "0",
		"NIGHTCRIER_AGENT_GRACEFUL_SHUTDOWN": "300ms", "AGENT_TIMEOUT": "240", // a machine that tests four CLIs is slow
	}
	for k, v := range s.env {
		env[k] = v
	}
	o := order{Endpoints: map[string]string{}, ScenarioTime: s.when}
	for k, v := range env {
		o.Env = append(o.Env, k+"="+v)
	}
	slices.Sort(o.Env)
	for _, name := range s.clusters {
		o.Endpoints[name] = s.peer.URL(name)
	}
	return o
}

// app starts the product in this process, without processes of its own to kill.
// change, if not nil, changes its options first.
func (s *site) app(change func(*app.Options)) *app.App {
	s.Helper()
	a, err := s.tryApp(change)
	s.must(err)
	return a
}

func (s *site) tryApp(change func(*app.Options)) (*app.App, error) {
	s.Helper()
	cfg, err := s.order().config()
	s.must(err)
	log, err := os.OpenFile(s.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.must(err)
	s.Cleanup(func() { s.must(log.Close()) })
	opt := options(cfg, slog.NewJSONHandler(log, nil))
	if change != nil {
		change(&opt)
	}
	a, err := app.New(opt)
	s.must(err)
	if err := a.Start(s.Context()); err != nil {
		return nil, err
	}
	s.Cleanup(func() { s.must(a.Stop(context.Background())) })
	return a, nil
}

// fault is the recorded notification whose name contains a text.
func fault(tb testing.TB, name string) []byte {
	tb.Helper()
	return faultAt(tb, name, scenarioTime)
}

// faultAt is that notification as it would be if the fault had happened then.
func faultAt(tb testing.TB, name string, when time.Time) []byte {
	tb.Helper()
	all, err := recorded.ReadDir("testdata/pushed")
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range all {
		if strings.Contains(e.Name(), name) {
			raw, err := recorded.ReadFile("testdata/pushed/" + e.Name())
			if err != nil {
				tb.Fatal(err)
			}
			return snapshot.MoveTimes(raw, when.Sub(happened))
		}
	}
	tb.Fatalf("no fault %q was recorded", name)
	return nil
}

// oom is the fault that most tests push.
const oom = "oom-kill"

// push waits for the subscription and pushes a fault to it.
func (s *site) push(to string, payload []byte) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		s.must(s.peer.AwaitSubscribed(ctx, to))
		n, err := s.peer.Push(to, payload)
		s.must(err)
		if n > 0 {
			return
		}
	}
}

// look opens the store beside whoever owns it, for reading.
func (s *site) look(fn func(*store.Store)) {
	s.Helper()
	st, err := store.OpenReadOnly(s.Context(), store.Options{URL: s.dsn, Path: filepath.Join(s.root, "nightcrier.db")})
	s.must(err)
	defer st.Close()
	fn(st)
}

// eventually polls until what returns "", and fails when it has returned the same
// for too long. What takes longer is looked at less often: looking costs the others.
func (s *site) eventually(what func() string) {
	s.Helper()
	var last string
	began := time.Now()
	for since := began; ; time.Sleep(min(20*time.Millisecond+time.Since(began)/20, 500*time.Millisecond)) {
		missing := what()
		if missing == "" {
			return
		}
		if missing != last {
			last, since = missing, time.Now()
		}
		if time.Since(since) > patience {
			s.Fatalf("still: %s", missing)
		}
	}
}

// incidents lists all incidents.
func (s *site) incidents(st *store.Store) []nightcrier.Incident {
	s.Helper()
	list, _, err := st.Incidents(s.Context(), store.IncidentFilter{Limit: 10000})
	s.must(err)
	return list
}

// ended waits until there is an incident, none is open and no lease is held, and
// returns the newest.
func (s *site) ended() nightcrier.Incident {
	s.Helper()
	var newest nightcrier.Incident
	s.eventually(func() (missing string) {
		s.look(func(st *store.Store) {
			c, err := st.Counts(s.Context())
			s.must(err)
			list, _, err := st.Incidents(s.Context(), store.IncidentFilter{Limit: 1})
			s.must(err)
			open := c.Incidents[nightcrier.Pending] + c.Incidents[nightcrier.Investigating]
			switch {
			case len(list) == 0:
				missing = "no incident"
			case open > 0 || c.Leases > 0 || list[0].Status.Open(): // it may have come between the two reads
				missing = fmt.Sprintf("%d incidents open, %d leases; the newest is %s, %s", open, c.Leases, list[0].Status, list[0].State)
			default:
				newest = list[0]
			}
		})
		return missing
	})
	return newest
}

// started says how often the agents of an incident were started: the spools of its
// workers hold what each of them said.
func (s *site) started(incident string) (n int) {
	s.Helper()
	specs, err := filepath.Glob(filepath.Join(s.root, ".workers", "*", "spec.json"))
	s.must(err)
	for _, path := range specs {
		spec, err := os.ReadFile(path)
		s.must(err)
		spool, err := os.ReadFile(filepath.Join(filepath.Dir(path), "spool.jsonl"))
		if err != nil && !os.IsNotExist(err) {
			s.Fatal(err)
		}
		if strings.Contains(string(spec), incident) {
			n += strings.Count(string(spool), agentMark)
		}
	}
	return n
}

// working waits until the agent of the only incident runs, and returns it.
func (s *site) working() nightcrier.Incident {
	s.Helper()
	var inc nightcrier.Incident
	s.eventually(func() (missing string) {
		s.look(func(st *store.Store) {
			list := s.incidents(st)
			if len(list) != 1 {
				missing = fmt.Sprintf("%d incidents", len(list))
				return
			}
			inc = list[0]
		})
		if missing == "" && s.started(inc.ID) == 0 {
			missing = "the agent was not started"
		}
		return missing
	})
	return inc
}

// release lets an agent that waits go on. It must be at work: what lies in its
// directories before that is cleared away.
func (s *site) release(incident string) {
	s.Helper()
	s.must(os.WriteFile(filepath.Join(s.root, "incident-"+incident, "tmp", "go"), nil, 0o600))
}

// releaseSoon waits for the agent's start first.
func (s *site) releaseSoon(incident string) {
	s.Helper()
	s.eventually(func() string {
		if s.started(incident) == 0 {
			return "the agent of " + incident + " was not started"
		}
		return ""
	})
	s.release(incident)
}

// left lists the processes that belong to the site's root, by their command line
// or environment.
func (s *site) left() map[int]string {
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		id, err := process.Identify(atoi(filepath.Base(dir)))
		if err != nil || !id.Alive() || id.PID == os.Getpid() {
			continue
		}
		if strings.Contains(string(cmdline)+string(environ), s.root) {
			found[id.PID] = strings.ReplaceAll(string(cmdline), "\x00", " ")
		}
	}
	return found
}

func atoi(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}

// noneLeft waits until no process of the site is there any more. It fails when one
// stays, and ends it.
func (s *site) noneLeft() {
	s.Helper()
	left := s.left()
	for deadline := time.Now().Add(patience / 3); len(left) > 0 && time.Now().Before(deadline); left = s.left() {
		time.Sleep(50 * time.Millisecond)
	}
	for pid, what := range left {
		s.Errorf("left running: %d %s", pid, what)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// delivery is a made-up fault of a Deployment, as a source hands it over.
func delivery(cluster, deployment, severity string) nightcrier.Delivery {
	raw, err := json.Marshal(map[string]any{
		"faultId": deployment + "-" + severity, "faultType": "CrashLoop", "severity": severity, "context": "it crashes", "cluster": cluster,
		"resource":  map[string]string{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "made-up", "name": deployment},
		"timestamp": time.Now().UTC().Format(time.RFC3339),
	})
	if err != nil {
		panic(err) // strings can be encoded
	}
	return nightcrier.Delivery{Source: "mcp", Cluster: cluster, ReceivedAt: time.Now(), Raw: raw}
}

// marked reports whether a living process has an environment with the mark.
func marked(mark string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if env, err := os.ReadFile(f); err == nil && slices.Contains(strings.Split(string(env), "\x00"), mark) {
			return true
		}
	}
	return false
}

func containsAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
