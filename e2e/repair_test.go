package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

const noSection3 = `section "## 3. Root Cause Analysis" is missing`

// forgets hands in a report without its third section, and when it is asked again
// all of it, or the same once more.
func (h hands) forgets(mends bool) []fakemodel.Step {
	broken := strings.Replace(oneFact, "## 3. Root Cause Analysis\n", "", 1)
	steps := append([]fakemodel.Step{{Text: "I look for its last words.", Tools: []fakemodel.ToolCall{h.look(lastWords)}}}, h.deliver(broken)...)
	if mends {
		return append(steps, h.deliver(oneFact)...)
	}
	return append(steps, h.deliver(broken)...)
}

// The same session of each real CLI is asked once for what its report lacks.
func TestAgentsAreAskedForTheirReportAgain(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	for _, h := range investigators() {
		t.Run(h.cli, func(t *testing.T) {
			t.Parallel()
			t.Run("mends", func(t *testing.T) {
				m := fakemodel.New(t)
				s, p := h.site(t, m, h.forgets(true)), newPatient(t, kube)
				inc := s.investigate(t, p, kube.ReadOnly(t))
				rep := s.checkReport(inc, p, "agent", "permission-denied")
				if inc.Status != nightcrier.Resolved || rep.CheckedShare != 1 || rep.RootCause == nil {
					t.Errorf("incident %s (%s), facts %+v", inc.Status, inc.FailureReason, rep.Facts)
				}
				s.checkWorkspace(inc)
				log := s.file(inc, "output/agent.log")
				for _, part := range []string{"the report is not valid: " + noSection3, "for its report again, in the same session", "report ready, since it was asked for again"} {
					if !bytes.Contains(log, []byte(part)) {
						t.Errorf("agent.log lacks %q:\n%s", part, log)
					}
				}
				if asked := s.file(inc, "context/repair.md"); !bytes.Contains(asked, []byte(noSection3)) || !bytes.HasSuffix(s.file(inc, "prompt-sent.md"), asked) {
					t.Errorf("it was asked, and recorded as sent:\n%s", asked)
				}
				calls := slices.DeleteFunc(m.Requests(h.cli), func(r fakemodel.Request) bool { return len(r.Tools) == 0 })
				last := calls[len(calls)-1].Text
				if !strings.Contains(last, "Root Cause Analysis") || !strings.Contains(last, "I look for its last words.") {
					t.Error("the last call is not of the session that wrote the report, or was not told what is missing")
				}
				if n := len(h.forgets(true)); len(calls) != n {
					t.Errorf("%d calls, the script has %d", len(calls), n)
				}
				if in, out := s.metered(inc); rep.Usage.InputTokens != in || rep.Usage.OutputTokens != out || out == 0 {
					t.Errorf("usage %+v, on record are %d tokens in and %d out", rep.Usage, in, out)
				}
				s.noKeyIn(s.root)
			})
			if !slices.ContainsFunc(oneOfEachKind(), func(one hands) bool { return one.executor == h.executor }) {
				return // one that writes a file and one that answers do for the rest
			}
			t.Run("stays", func(t *testing.T) {
				m := fakemodel.New(t)
				s, p := h.site(t, m, h.forgets(false)), newPatient(t, kube)
				inc := s.investigate(t, p, kube.ReadOnly(t))
				if inc.Status != nightcrier.AgentFailed || inc.FailureClass != nightcrier.FailInvalidOutput || strings.Count(inc.FailureReason, noSection3) != 2 {
					t.Errorf("incident %s, %s: %s", inc.Status, inc.FailureClass, inc.FailureReason)
				}
				rep := s.report(inc)
				if rep.Source != "builtin" || rep.RootCause == nil || !strings.Contains(strings.Join(rep.Problems, " "), "asked for again, it is still not valid") {
					t.Errorf("report of %s, root cause %+v, problems %v", rep.Source, rep.RootCause, rep.Problems)
				}
				log := s.file(inc, "output/agent.log")
				if n := bytes.Count(log, []byte("in the same session")); n != 1 {
					t.Errorf("it was asked %d times:\n%s", n, log)
				}
			})
		})
	}
}

// metered adds up what the calls of the model used, as they are on record.
func (s *site) metered(inc nightcrier.Incident) (in, out int64) {
	s.Helper()
	for line := range bytes.Lines(s.file(inc, "logs/model.jsonl")) {
		var call struct {
			Usage struct{ InputTokens, OutputTokens int64 }
		}
		s.must(json.Unmarshal(line, &call))
		in, out = in+call.Usage.InputTokens, out+call.Usage.OutputTokens
	}
	return in, out
}

// A server that is killed while a report is asked for again neither loses nor
// repeats it: the model gets each turn once.
func TestKilledWhileAReportIsAskedForAgain(t *testing.T) {
	t.Parallel()
	clitest.Claude(t)
	kube := kubetest.Start(t)
	h := investigators()[0]
	run := func(t *testing.T, dieAt int) (record, []int) {
		m := fakemodel.New(t)
		s, p, reader := h.site(t, m, h.forgets(true)), newPatient(t, kube), kube.ReadOnly(t)
		credential := func(o *order) { o.Kubeconfigs = map[string]string{"real": reader} }
		v := s.serve(func(o *order) { credential(o); o.DieAtEntry = int64(dieAt) }).ready()
		s.push("real", p.fault(t))
		if dieAt > 0 {
			v.gone()
			v = s.serve(credential).ready()
		}
		inc := s.ended()
		s.checkReport(inc, p, "agent", "permission-denied")
		r := s.recordOf(inc)
		v.term()
		var turns []int
		for _, c := range m.Requests(h.cli) {
			if len(c.Tools) > 0 {
				turns = append(turns, c.Turn)
			}
		}
		return r, turns
	}
	want, turns := run(t, 0)
	from := slices.Index(want.Journal, "review")
	if from < 0 || !slices.Contains(want.Journal, "worker#3/1=created") {
		t.Fatalf("undisturbed, the report is not asked for again: %v", want.Journal)
	}
	for k := from; k < len(want.Journal); k++ {
		if strings.HasPrefix(want.Journal[k], "evidence:") || strings.HasPrefix(want.Journal[k], "read:") {
			continue // of the report's tests, whose crashes are tried elsewhere
		}
		if saying(want.Journal[k]) && saying(want.Journal[k-1]) {
			continue // one thing that the agent says is like the one before it
		}
		t.Run(fmt.Sprintf("%02d-%s", k+1, want.Journal[k]), func(t *testing.T) {
			t.Parallel()
			got, again := run(t, k+1)
			if !slices.Equal(again, turns) {
				t.Errorf("the model was asked for the turns %v, undisturbed for %v", again, turns)
			}
			if got.Status != want.Status || got.Report.Source != "agent" || !got.Report.Valid || got.Posts != 1 || got.Attempts != 1 {
				t.Errorf("got %+v", got)
			}
			if !slices.Equal(workers(got.Journal), workers(want.Journal)) {
				t.Errorf("journal\n%v, undisturbed\n%v", got.Journal, want.Journal)
			}
		})
	}
}

// saying reports whether a worker's entry is not of its state.
func saying(key string) bool { return strings.HasPrefix(key, "worker#") && !strings.Contains(key, "=") }

// workers are the entries of a journal that workers and the run itself wrote.
func workers(keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return strings.HasPrefix(k, "evidence:") || strings.HasPrefix(k, "read:") })
}
