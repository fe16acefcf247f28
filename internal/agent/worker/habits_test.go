package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// habits are what the documentation says that a CLI tries without being told to, by
// executor: the cells of its row in the table of docs/agents.md.
func habits(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## What each tries on its own\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); len(cells) == 4 {
			rows[strings.Trim(cells[0], " `")] = cells[1:]
		}
	}
	return rows
}

// tried are what an agent tried to reach that is not there for it, by the tool that
// the journal names.
func tried(t *testing.T, entries []nightcrier.JournalEntry) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, e := range entries {
		if e.Type != nightcrier.EntryDenial {
			continue
		}
		d, err := journal.Decode[journal.Denial](e)
		if err != nil {
			t.Fatal(err)
		}
		if d.Tool == "model" || d.Tool == "network" {
			all[d.Tool] = append(all[d.Tool], strings.TrimPrefix(d.Command, "resolve "))
		}
	}
	return all
}

// hasOnlyItsHabits checks that a CLI, left alone with an honest model, tried what the
// documentation says and no more: a new version's new habit shows here.
func (b *cliBench) hasOnlyItsHabits(t *testing.T, r nightcrier.AgentResult, entries []nightcrier.JournalEntry) {
	t.Helper()
	row := habits(t)[b.cli.executor]
	if row == nil {
		t.Fatalf("docs/agents.md does not say what %s tries on its own", b.cli.executor)
	}
	did := tried(t, entries)
	t.Logf("%s: names %q, calls %q, %d in all", b.cli.named(), did["network"], did["model"], r.Blocked)
	who, err := agent.For(b.cli.executor)
	b.must(err)
	for i, tool := range []string{"network", "model"} {
		for _, what := range did[tool] {
			if !strings.Contains(row[i], "`"+what+"`") {
				t.Errorf("%s tried %q (%s), which docs/agents.md does not list: find out what it is for, "+
					"switch it off in internal/agent/%s.go if that can be done, and add it to the table if not", who.Command, what, tool, who.Command)
			}
		}
	}
	for _, q := range b.model.Requests("it") {
		if len(q.Tools) == 0 && !strings.Contains(row[2], "`"+filepath.Base(q.Path)+"`") {
			t.Errorf("%s asked its model something that belongs to no turn (%s), which docs/agents.md does not list: "+
				"see whether internal/agent/%s.go can switch it off", who.Command, q.Path, who.Command)
		}
	}
}

// An agent can try for ever: what is journaled of that has a bound, and the number is
// told.
func TestAttemptsInVainAreBounded(t *testing.T) {
	b := newBench(t, "")
	w, calls := b.keeper()
	calls.close()
	tries := blocked{worker: w}
	for i := range 3 * maxBlocked {
		tries.noteAttempt("network", fmt.Sprintf("resolve x%d.%s", i, strings.Repeat("x", 1<<10)), "no")
		tries.noteAttempt("network", "resolve often", "no")
	}
	tries.noteSummary()
	tries.noteAttempt("network", "resolve late", "no")
	tries.noteSummary()
	b.must(w.spool.Close())
	spool, err := os.ReadFile(b.dir().PathOf("spool.jsonl"))
	b.must(err)
	if n := strings.Count(string(spool), `"tool":"network"`); n != maxBlocked || len(spool) > 3*maxBlocked*maxBlockedText {
		t.Errorf("%d attempts in %d bytes", n, len(spool))
	}
	if tries.countAttempts() != 6*maxBlocked || strings.Count(string(spool), fmt.Sprintf("%d attempts", tries.countAttempts())) != 1 || strings.Contains(string(spool), "late") {
		t.Errorf("%d attempts were counted, and this was told:\n%s", tries.countAttempts(), spool[max(0, len(spool)-2000):])
	}
	if lines := strings.Split(strings.TrimSpace(string(spool)), "\n"); !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "resolve often (300)") }) {
		t.Error("the most frequent attempt is not told")
	}
}
