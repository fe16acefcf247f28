package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run"
)

var begin = flag.String("begin", "", "write testdata/begun/NAME: what the present version has begun, and every later one has to finish")

// begunDir has an installation for each version that began something: its databases as text, the files of its
// workspaces, and when that was.
const begunDir = "testdata/begun"

// begunPipeline has agents beside each other, and is done once at a time.
var begunPipeline = map[string]string{
	"skills/shop/teller/SKILL.md": "# Tell what you see\n",
	"pipelines/wide.yaml": "name: wide\non: manual\nconcurrency: {key: input.app}\nphases:\n" +
		"- {name: first, steps: [{id: plan, agent_id: plan, skill: shop/teller}]}\n" +
		"- {name: look, type: parallel, steps: [{id: left, agent_id: left, skill: shop/teller}, {id: right, agent_id: right, skill: shop/teller}]}\n" +
		"- {name: end, fan_in_from: look, steps: [{id: sum, agent_id: sum, skill: shop/teller}]}\n",
}

// What an older version has begun (an investigation whose agent works, a pipeline with two agents beside each
// other, a run that waits) the present one finishes, without doing anything twice. When this fails, a change of
// shape lacks a migration, or a way to read what was written before.
func TestWhatAnOlderVersionBeganIsFinished(t *testing.T) {
	t.Parallel()
	if *begin != "" {
		writeBegun(t, filepath.Join(begunDir, *begin))
	}
	all, err := os.ReadDir(begunDir)
	if err != nil || len(all) == 0 {
		t.Fatalf("nothing was begun: %v", err)
	}
	for _, one := range all {
		t.Run(one.Name(), func(t *testing.T) {
			t.Parallel()
			finishBegun(t, filepath.Join(begunDir, one.Name()))
		})
	}
}

// halfway are agents that work until they are let go, and remember nothing of an earlier process.
type halfway struct {
	orders
	held func(backend.Spec) bool
}

func (w *halfway) Follow(ctx context.Context, h backend.Handle, from int64, fn func(nightcrier.JournalEntry) error) (backend.Ended, error) {
	for _, s := range w.all() {
		if s.WorkerName() == h.ID && w.held(s) {
			<-ctx.Done()
			return backend.Ended{}, ctx.Err()
		}
	}
	now := time.Now()
	return backend.Ended{Result: nightcrier.AgentResult{State: nightcrier.StateSuccess, FinalMessage: "All is well.", StartedAt: now, EndedAt: now}}, nil
}

func (h *house) startBegun(w *halfway) {
	h.Helper()
	dir := filepath.Dir(h.root)
	_, err := h.load(nil, working, "skills: {cache_dir: "+dir+"/skills}", "pipelines_dir: "+dir+"/pipelines")
	h.must(err)
	h.run(func(o *app.Options) { o.Runs = func(c *run.Config) { c.Workers = w } })
}

// writeBegun begins runs, and keeps what is there of them while they go on.
func writeBegun(t *testing.T, to string) {
	h := newHouse(t)
	w := &halfway{held: func(s backend.Spec) bool { return s.Step != "plan" && s.Step != "left" }}
	h.writeFiles(filepath.Dir(h.root), begunPipeline)
	h.startBegun(w)
	inc := h.fault("d1", "critical").Incident.ID
	for range 2 {
		_, err := h.StartRun(t.Context(), api.Call{Pipeline: "wide", Input: json.RawMessage(`{"app": "cart"}`), By: "ann", Key: nightcrier.NewID()})
		h.must(err)
	}
	h.counts(2, 1)
	h.eventually(func() string {
		if n := len(w.all()); n < 4 {
			return fmt.Sprintf("%d agents were started", n)
		}
		return ""
	})
	h.eventually(func() string {
		for _, r := range begunRuns(h) {
			steps, err := h.Store().Steps(t.Context(), r.ID)
			h.must(err)
			if slices.ContainsFunc(steps, func(s nightcrier.Step) bool { return s.ID == "left" && s.State == nightcrier.StateSuccess }) {
				return ""
			}
		}
		return "no agent has ended"
	})
	began, err := h.Store().Incident(t.Context(), inc)
	h.must(err)
	facts, err := os.ReadFile(filepath.Join(began.Workspace, "context/initial_triage_report.md"))
	h.must(err)
	h.must(os.WriteFile(filepath.Join(began.Workspace, "output/investigation.md"), facts, 0o600)) // by its agent
	h.must(os.MkdirAll(to, 0o755))
	h.must(os.WriteFile(filepath.Join(to, "when"), []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o644))
	for _, db := range begunDatabases {
		h.must(os.WriteFile(filepath.Join(to, db+".sql"), h.portable(h.dump(db)), 0o644))
	}
	var dirs []string
	h.must(filepath.WalkDir(h.root, func(path string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, h.root+"/")
		if err == nil && e.IsDir() && isKept(rel) {
			dirs = append(dirs, strings.TrimPrefix(rel, h.root))
		}
		if err != nil || !e.Type().IsRegular() || !isKept(rel) {
			return err
		}
		data, err := os.ReadFile(path)
		h.must(err)
		at := filepath.Join(to, "root", rel)
		h.must(os.MkdirAll(filepath.Dir(at), 0o755))
		return os.WriteFile(at, h.portable(data), 0o644)
	}))
	h.must(os.WriteFile(filepath.Join(to, "directories"), h.portable([]byte(strings.Join(dirs, "\n")+"\n")), 0o644))
}

// begunDatabases are those of an installation. What the engine has as done, is in the other one already.
var begunDatabases = []string{"engine.db", "nightcrier.db"}

// checkpoint is what the engine keeps of one, encoded.
var checkpoint = regexp.MustCompile(`'(eyJ[A-Za-z0-9+/=]+)'`)

// isKept leaves out of an installation what is kept as text, what a server makes itself, and copies of what is part
// of the product.
func isKept(rel string) bool {
	top, _, _ := strings.Cut(rel, "/")
	return !strings.Contains(top, ".db") && top != "budget" && top != ".mask-key" && !strings.Contains(rel, "/.claude/") && !strings.HasSuffix(rel, ".gz")
}

// rootMark stands in what is kept for where it was.
const rootMark = "/the/root"

func (h *house) portable(data []byte) []byte {
	return bytes.ReplaceAll(data, []byte(h.root), []byte(rootMark))
}

// tablesOf asks a database how its tables were made.
const tablesOf = `SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type = 'table' DESC, name`

// column is the only column of what a database answers.
func (h *house) column(name, query string) (all []string) {
	h.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.root, name)+"?mode=ro")
	h.must(err)
	defer db.Close()
	rows, err := db.QueryContext(h.t.Context(), query)
	h.must(err)
	defer rows.Close()
	for rows.Next() {
		var one string
		h.must(rows.Scan(&one))
		all = append(all, one)
	}
	h.must(rows.Err())
	return all
}

// dump is what a database holds, as the statements that make it.
func (h *house) dump(name string) []byte {
	h.Helper()
	column := func(query string) []string { return h.column(name, query) }
	var out bytes.Buffer
	for _, made := range column(tablesOf) {
		out.WriteString(made + ";\n\n")
	}
	for _, table := range column(`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`) {
		var quoted []string
		for _, c := range column(`SELECT name FROM pragma_table_info('` + table + `')`) {
			quoted = append(quoted, `quote("`+c+`")`)
		}
		for _, row := range column(`SELECT ` + strings.Join(quoted, ` || ', ' || `) + ` FROM "` + table + `"`) {
			for _, kept := range checkpoint.FindAllStringSubmatch(row, -1) {
				said, err := base64.StdEncoding.DecodeString(kept[1])
				h.must(err)
				h.want(!bytes.Contains(said, []byte(h.root)), "a checkpoint says where it is: %s", said)
				fmt.Fprintf(&out, "-- %s\n", said)
			}
			fmt.Fprintf(&out, "INSERT INTO %q VALUES (%s);\n", table, row)
		}
	}
	return out.Bytes()
}

// restore makes an installation of what is kept.
func (h *house) restore(from string) {
	h.Helper()
	whole := func(name string) []byte {
		data, err := os.ReadFile(name)
		h.must(err)
		return bytes.ReplaceAll(data, []byte(rootMark), []byte(h.root))
	}
	for dir := range strings.Lines(string(whole(filepath.Join(from, "directories")))) {
		h.must(os.MkdirAll(filepath.Join(h.root, strings.TrimSpace(dir)), 0o700))
	}
	for _, name := range begunDatabases {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(h.root, name))
		h.must(err)
		_, err = db.ExecContext(h.t.Context(), string(whole(filepath.Join(from, name+".sql"))))
		h.must(errors.Join(err, db.Close()))
	}
	files := filepath.Join(from, "root")
	h.must(filepath.WalkDir(files, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		h.writeFiles(h.root, map[string]string{strings.TrimPrefix(path, files+"/"): string(whole(path))})
		return nil
	}))
	when, err := time.Parse(time.RFC3339, strings.TrimSpace(string(whole(filepath.Join(from, "when")))))
	h.must(err)
	h.ahead.Store(int64(time.Until(when.Add(time.Minute))))
}

func begunRuns(h *house) []nightcrier.Run {
	runs, _, err := h.Store().ListRuns(h.t.Context(), store.RunFilter{})
	h.must(err)
	return runs
}

// finishBegun has the present version finish what is kept.
func finishBegun(t *testing.T, from string) {
	h := newHouse(t)
	h.restore(from)
	h.writeFiles(filepath.Dir(h.root), begunPipeline)
	w := &halfway{held: func(backend.Spec) bool { return false }}
	h.startBegun(w)
	h.counts(0, 0)
	runs := begunRuns(h)
	h.want(len(runs) == 3, "there are %d runs", len(runs))
	for _, r := range runs {
		h.want(r.Outcome == nightcrier.StateSuccess, "the run of %s: %s, %s", r.Pipeline, r.Outcome, r.FailureReason)
		steps, err := h.Store().Steps(t.Context(), r.ID)
		h.must(err)
		for _, s := range steps {
			h.want(s.State == nightcrier.StateSuccess && s.Attempt == 1, "%s of %s, attempt %d: %s, %s", s.ID, r.Pipeline, s.Attempt, s.State, s.FailureReason)
		}
		if inc := r.IncidentID(); inc != "" {
			h.want(h.closed(inc).Status == nightcrier.Resolved, "the incident is %s", h.closed(inc).Status)
		}
	}
	var again []string
	for _, s := range w.all() {
		again = append(again, s.Step)
	}
	slices.Sort(again)
	// What ran is only awaited: a new agent has the step behind it, and the run that waited.
	h.want(slices.Equal(again, []string{"left", "plan", "right", "sum", "sum"}), "agents were started for %v", again)
	fresh := newHouse(t)
	fresh.start()
	for _, db := range begunDatabases {
		h.want(slices.Equal(h.column(db, tablesOf), fresh.column(db, tablesOf)), "the tables of %s are not those of a new installation: a migration that others have run was changed; write another one behind it", db)
	}
}
