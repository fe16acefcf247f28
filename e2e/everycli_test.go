package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// midway is the signal at which the model stops in the middle of an answer.
const midway = "midway"

// investigation is what a CLI's model does about the patient: it reads the skill, is
// stopped in the middle of an answer, looks, tries to change something, looks again,
// and reports.
func (h hands) investigation() []fakemodel.Step {
	call := func(c fakemodel.ToolCall) []fakemodel.ToolCall { return []fakemodel.ToolCall{c} }
	return append([]fakemodel.Step{
		{Text: "First how to go about it.", Tools: call(h.read(".claude/skills/k8s-troubleshooter/SKILL.md"))},
		{Text: "Then what the Pod says at present.", Tools: call(h.look(h.first)), Hold: midway, HoldAfter: h.half},
		{Text: "I take the Pod away, so that it starts afresh.", Tools: call(h.change)},
		{Text: "That is not mine to do. I look for its last words.", Tools: call(h.look(lastWords))},
	}, h.deliver(oneFact)...)
}

// inquiry is one investigation of the patient by a real CLI, in a server of its own.
type inquiry struct {
	*site
	t     *testing.T
	hands hands
	model *fakemodel.Server
	door  *door
	kube  *kubetest.Server
	sick  *patient
	v     *server
}

func newInquiry(t *testing.T, kube *kubetest.Server, h hands) *inquiry {
	t.Helper()
	m := fakemodel.New(t)
	return &inquiry{site: h.site(t, m, h.investigation()), t: t, hands: h, model: m, door: newDoor(t, kube.ReadOnly(t)), kube: kube, sick: newPatient(t, kube)}
}

// begin starts a server and lets the patient's fault arrive.
func (i *inquiry) begin() {
	i.Helper()
	i.up()
	i.push("real", i.sick.fault(i.t))
}

// up starts a server, the first or the next one.
func (i *inquiry) up() {
	i.Helper()
	i.v = i.serve(func(o *order) { o.Kubeconfigs = map[string]string{"real": i.door.kubeconfig} }).ready()
}

// await waits for something that the agent comes to, unless it ends before that.
func (i *inquiry) await(reached <-chan struct{}) { _ = awaited(i, reached) }

// awaited is await for what comes with it.
func awaited[T any](i *inquiry, reached <-chan T) (came T) {
	i.Helper()
	i.eventually(func() string {
		select {
		case came = <-reached:
			return ""
		default:
		}
		i.look(func(st *store.Store) {
			for _, inc := range i.incidents(st) {
				if !inc.Status.Open() {
					i.Fatalf("it ended too early, as %s: %s", inc.Status, inc.FailureReason)
				}
			}
		})
		return "the agent does not come so far"
	})
	return came
}

// begun is the incident, which is the only one.
func (i *inquiry) begun() (inc nightcrier.Incident) {
	i.Helper()
	i.look(func(st *store.Store) { inc = i.incidents(st)[0] })
	return inc
}

// tree are the processes of an attempt: its worker and all below it.
func (i *inquiry) tree(run string, attempt int) []process.ID {
	i.Helper()
	worker, err := process.Identify(i.workerPID(run, attempt))
	i.must(err)
	all := []process.ID{worker}
	for _, pid := range worker.Below() {
		if id, err := process.Identify(pid); err == nil {
			all = append(all, id)
		}
	}
	return all
}

// noneAlive waits until none of the processes lives.
func (i *inquiry) noneAlive(all []process.ID) {
	i.Helper()
	i.eventually(func() string {
		for _, id := range all {
			if id.Alive() {
				return fmt.Sprintf("process %d lives", id.PID)
			}
		}
		return ""
	})
}

// secrets are what the agent may not come to know.
func secrets() []string { return []string{realKey, clusterCanary} }

// holdNoSecret fails when a secret stands in the environment or the command line of
// one of the processes, of which one must be the CLI, with a key that is not the real one.
func (i *inquiry) holdNoSecret(all []process.ID) {
	i.Helper()
	armed := false
	for _, id := range all {
		dir := filepath.Join("/proc", fmt.Sprint(id.PID))
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		i.must(err)
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		i.must(err)
		for _, secret := range secrets() {
			if bytes.Contains(environ, []byte(secret)) || bytes.Contains(cmdline, []byte(secret)) {
				i.Errorf("process %d, %q, was given %q", id.PID, cmdline, secret)
			}
		}
		armed = armed || strings.Contains("\x00"+string(environ), "\x00"+i.hands.key+"=")
	}
	if !armed {
		i.Errorf("none of %d processes is an agent with a key of its own", len(all))
	}
}

// end waits for the end, and holds what is left of the investigation to everything
// that is promised of it, however it was disturbed: attempts agents did it.
func (i *inquiry) end(attempts int) nightcrier.Incident {
	i.Helper()
	inc := i.ended()
	i.eventually(func() (missing string) {
		i.look(func(st *store.Store) { _, missing = i.told(st, inc.ID) })
		return missing
	})
	rep := i.checkReport(inc, i.sick, "agent", "permission-denied")
	if n := checks(rep); rep.CheckedShare != 1 || n[nightcrier.Seen] == 0 {
		i.Errorf("share %v, facts %+v", rep.CheckedShare, rep.Facts)
	}
	if len(rep.SandboxLayers) == 0 || rep.Usage.OutputTokens == 0 {
		i.Errorf("layers %v, usage %+v", rep.SandboxLayers, rep.Usage)
	}
	if inc.Attempts != 1 || len(i.slack.got()) != 1 {
		i.Errorf("%d runs and %d posts, want one of either", inc.Attempts, len(i.slack.got()))
	}
	i.v.term()
	i.noneLeft()
	i.checkWorkspace(inc)
	i.checkIncident(inc, i.sick)
	i.checkSent(inc, i.model.Requests(i.hands.cli))
	i.checkJournal(inc, attempts)
	i.checkExchanges(inc)
	if writes := i.door.writes(); len(writes) > 0 {
		i.Errorf("these reached the cluster: %v", writes)
	}
	for _, secret := range secrets() {
		i.nowhereIn(filepath.Dir(i.root), secret)
	}
	return inc
}

// checkJournal holds the journal to what happened: each agent started once, the
// change refused, and each request to the cluster on record once.
func (i *inquiry) checkJournal(inc nightcrier.Incident, attempts int) {
	i.Helper()
	var entries []nightcrier.JournalEntry
	var keys []string
	i.look(func(st *store.Store) {
		keys = i.journal(st, inc.RunID)
		var err error
		entries, err = st.Journal(i.Context(), inc.RunID, 0, 10000)
		i.must(err)
	})
	running := 0
	denied := map[string]journal.Denial{} // a CLI may tell of one twice
	for _, k := range keys {
		if strings.HasPrefix(k, "worker#") && strings.HasSuffix(k, "=running") {
			running++
		}
	}
	var asked []string
	for _, e := range entries {
		if e.Type == nightcrier.EntryDenial {
			d, err := journal.Decode[journal.Denial](e)
			i.must(err)
			denied[d.Tool+" "+d.Command] = d
		}
		r, err := journal.RequestOf(e)
		i.must(err)
		if r != nil && !r.Done && r.Decision == journal.Allow {
			asked = append(asked, fmt.Sprintf("%s %s/%s %s", r.Verb, r.Resource, r.Subresource, r.Name))
		}
	}
	if running != attempts {
		i.Errorf("agents started %d times, want %d: %v", running, attempts, keys)
	}
	changes := 0
	for _, d := range denied {
		if strings.HasPrefix(d.Command, "kubectl delete pod ") || strings.HasSuffix(d.Tool, "kubernetes_delete") {
			changes++
		}
	}
	if changes != 1 || len(denied) != 1 { // what it looks at, it may
		i.Errorf("denied was %v, want the change alone", denied)
	}
	if got := i.door.byGuards(); len(got) != len(asked) {
		i.Errorf("guards asked the cluster\n%v, on record is\n%v", got, asked)
	}
	ids := map[string]bool{}
	for line := range bytes.Lines(i.file(inc, "output/evidence/index.jsonl")) {
		var e struct{ ID, Source, SHA256 string }
		i.must(json.Unmarshal(line, &e))
		if ids[e.ID] || ids[e.Source+e.SHA256] {
			i.Errorf("evidence %s is there twice: %s", e.ID, e.Source)
		}
		ids[e.ID], ids[e.Source+e.SHA256] = true, true
	}
	sum, problems, err := audit.Verify(bytes.NewReader(i.file(inc, "output/audit.jsonl")), "")
	i.must(err)
	if len(problems) > 0 || sum.Head == "" {
		i.Errorf("the audit does not verify: %+v, %v", sum, problems)
	}
}

// checkExchanges compares the calls that the model's API received with those on
// record, body by body.
func (i *inquiry) checkExchanges(inc nightcrier.Incident) {
	i.Helper()
	var got, recorded []string
	for _, r := range i.model.Requests(i.hands.cli) {
		sum := sha256.Sum256(r.Body)
		got = append(got, hex.EncodeToString(sum[:]))
	}
	for line := range bytes.Lines(i.file(inc, "logs/model.jsonl")) {
		var l struct {
			Event   string
			Request struct{ SHA256 string }
		}
		i.must(json.Unmarshal(line, &l))
		if l.Event == "sent" {
			recorded = append(recorded, l.Request.SHA256)
		}
	}
	slices.Sort(got)
	slices.Sort(recorded)
	if !slices.Equal(got, recorded) {
		i.Errorf("the model's API received %d calls, %d are on record, or others", len(got), len(recorded))
	}
}

// askedOnce fails unless the model was asked for each turn of the script once, and
// nothing else twice.
func (i *inquiry) askedOnce() {
	i.Helper()
	i.asked()
	seen := map[string]bool{}
	for _, r := range i.model.Requests(i.hands.cli) {
		if seen[string(r.Body)] {
			i.Errorf("the model was asked for turn %d twice", r.Turn)
		}
		seen[string(r.Body)] = true
	}
}

// asked fails unless the model was asked for these turns, by an agent that came to
// its end no further, and then for each turn of the script.
func (i *inquiry) asked(before ...int) {
	i.Helper()
	var turns []int
	for _, r := range i.model.Requests(i.hands.cli) {
		if len(r.Tools) > 0 {
			turns = append(turns, r.Turn)
		}
	}
	want := slices.Clone(before)
	for n := range i.hands.investigation() {
		want = append(want, n)
	}
	if !slices.Equal(turns, want) {
		i.Errorf("the model was asked for the turns %v, want %v", turns, want)
	}
}

// everyCLI runs a test over the real CLIs, each beside the next.
func everyCLI(t *testing.T, test func(i *inquiry)) { everyOne(t, investigators(), test) }

func everyOne(t *testing.T, all []hands, test func(i *inquiry)) {
	kube := kubetest.Start(t)
	for _, h := range all {
		name := h.executor
		if h.noShell {
			name += " without a shell"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clitest.CLI(t, h.cli)
			test(newInquiry(t, kube, h))
		})
	}
}

// A fault of a real cluster becomes a report by each real CLI, which looks through
// the guard, may change nothing, and holds no secret.
func TestEveryCLIOnARealCluster(t *testing.T) {
	t.Parallel()
	everyOne(t, append(investigators(), shellsTakenAway()...), func(i *inquiry) {
		i.begin()
		release := midAnswer(i)
		i.holdNoSecret(i.tree(i.begun().RunID, 1))
		release()
		inc := i.end(1)
		i.askedOnce()
		log := i.file(inc, "output/agent.log")
		for _, part := range []string{"First how to go about it.", "That is not mine to do.", "DENIED", "SKILL.md"} {
			if !bytes.Contains(log, []byte(part)) {
				i.Errorf("agent.log lacks %q:\n%s", part, log)
			}
		}
	})
}

// moment waits until the agent waits for something, and returns what lets it go on.
type moment func(i *inquiry) (release func())

// midAnswer is when half of the model's answer is said.
func midAnswer(i *inquiry) func() {
	i.Helper()
	i.await(i.model.Held(midway))
	return func() { i.model.Release(midway) }
}

// midRead is when a log of the cluster is open whose end has not come; with a shell it is
// kubectl that waits for it.
func midRead(i *inquiry) func() {
	i.Helper()
	goOn := midAnswer(i) // what was read before that, the server read
	held, release := i.door.holdLogs(strings.HasPrefix(i.hands.first.kubectl, "logs -f "))
	goOn()
	if read := awaited(i, held); read.Has("previous") {
		i.Errorf("the log that is held was asked for with %v", read)
	}
	if !i.hands.tools {
		i.kubectlAtWork()
	}
	return release
}

// kubectlAtWork fails unless a kubectl of the first attempt runs.
func (i *inquiry) kubectlAtWork() {
	i.Helper()
	for _, id := range i.tree(i.begun().RunID, 1) {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", id.PID)); err == nil && filepath.Base(exe) == "kubectl" {
			return
		}
	}
	i.Error("there is no kubectl below the worker")
}

// The same agent goes on when the server that started it is killed, whatever it
// waits for; the next server delivers its report.
func TestServerKilledWhileEachCLIWorks(t *testing.T) {
	t.Parallel()
	t.Run("in the middle of an answer", func(t *testing.T) {
		everyCLI(t, func(i *inquiry) {
			i.outlives(midAnswer, func() { i.v.kill() })
		})
	})
	t.Run("in the middle of a read", func(t *testing.T) { // by kubectl, and by our tool
		everyOne(t, following(oneOfEachKind()), func(i *inquiry) {
			i.outlives(midRead, func() { i.v.kill() })
		})
	})
}

// outlives ends the server at a moment and starts another.
func (i *inquiry) outlives(at moment, end func()) {
	i.Helper()
	i.begin()
	release, inc := at(i), i.begun()
	before := i.tree(inc.RunID, 1)
	end()
	i.up()
	if after := i.tree(inc.RunID, 1); !slices.Equal(after, before) {
		i.Errorf("the agent is the processes %v now, it was %v", after, before)
	}
	release()
	i.end(1)
	i.askedOnce()
}

// A server that is stopped for an upgrade leaves the agent to the next program.
func TestServerUpgradedWhileAnAgentWorks(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	h := investigators()[0]
	clitest.CLI(t, h.cli)
	i := newInquiry(t, kube, h)
	i.outlives(midAnswer, func() {
		i.v.term()
		next := i.program + "-next"
		i.must(os.Link(i.program, next))
		t.Cleanup(func() { i.must(os.Remove(next)) })
		i.program = next
	})
}

// A worker that is killed takes its agent with it, be that one program or several that
// start each other, and what its shell has started: a kubectl that waits for the end of a
// log. Another one investigates once more.
func TestWorkerKilledWhileEachCLIWorks(t *testing.T) {
	t.Parallel()
	everyOne(t, following(investigators()), func(i *inquiry) {
		i.begin()
		at := midAnswer
		if !i.hands.tools {
			at = midRead
		}
		release := at(i)
		first := i.tree(i.begun().RunID, 1)
		i.must(syscall.Kill(first[0].PID, syscall.SIGKILL))
		i.noneAlive(first)
		release()
		inc := i.end(2)
		i.asked(0, 1)
		log := i.file(inc, "output/agent.log")
		if !bytes.Contains(log, []byte("attempt 1 of 2 failed (lost)")) {
			i.Errorf("agent.log does not tell that the first attempt was lost:\n%s", log)
		}
	})
}
