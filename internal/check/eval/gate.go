package eval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
)

// The gates that a diagnosis of a case has to pass.
const (
	// CauseGate: with all that the root cause rests on taken out of the recording, the
	// diagnosis must not be the same.
	CauseGate = "cause taken out"
	// NoiseGate: with trouble added that has nothing to do with it, it must be the same.
	NoiseGate = "noise added"
)

// Trial is what a gate did with one case.
type Trial struct {
	Case string `json:"case"`
	Gate string `json:"gate"`
	// Before and After are what was said of the case as it is, and as it was changed.
	Before string `json:"before"`
	After  string `json:"after"`
	Passed bool   `json:"passed"`
	// Skipped says why the case could not be changed.
	Skipped string `json:"skipped,omitempty"`
}

// TryGates changes every case in both ways and diagnoses it again by the rules.
func TryGates(ctx context.Context, cases []Case, look Investigate) ([]Trial, error) {
	trials := make([][]Trial, len(cases))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, c := range cases {
		group.Go(func() (err error) {
			trials[i], err = tryCase(ctx, c, look)
			return err
		})
	}
	err := group.Wait()
	all := slices.Concat(trials...)
	slices.SortStableFunc(all, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(a.weight(), b.weight()), cmp.Compare(a.Gate, b.Gate), cmp.Compare(a.Case, b.Case))
	})
	return all, err
}

// weight puts what did not pass first.
func (t Trial) weight() int {
	switch {
	case t.Skipped != "":
		return 1
	case t.Passed:
		return 2
	}
	return 0
}

func tryCase(ctx context.Context, c Case, look Investigate) (trials []Trial, err error) {
	before, err := look(ctx, c)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "nightcrier-gate-")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "a changed copy of %s: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if before.Verdict == nightcrier.VerdictFault && before.RootCause != nil {
		t, err := tryWithout(ctx, c, look, before, filepath.Join(dir, "cause"))
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
	}
	t, err := tryWithNoise(ctx, c, look, before, filepath.Join(dir, "noise"))
	return append(trials, t), err
}

// maxRounds is how often what a cause rests on is taken out: behind the first evidence there
// may be other.
const maxRounds = 8

func tryWithout(ctx context.Context, c Case, look Investigate, before *nightcrier.Report, dir string) (Trial, error) {
	t := Trial{Case: c.Name, Gate: CauseGate, Before: describeAnswer(before, true)}
	out := &excision{settings: map[string][]string{}}
	for round, after := 0, before; round < maxRounds && !t.Passed; round++ {
		for _, q := range quotesOfRoot(after) {
			out.add(q)
		}
		had := out.removed
		out.removed = 0
		changed, err := c.copyTo(filepath.Join(dir, fmt.Sprint(round)), out.edit)
		switch {
		case err != nil:
			return t, err
		case out.removed == 0:
			t.Skipped = "nothing that the cause rests on stands in a file of JSON or a log"
			return t, nil
		case out.removed == had: // nothing is left of it
			return t, nil
		}
		if after, err = look(ctx, changed); err != nil {
			return t, err
		}
		t.After = describeAnswer(after, true)
		t.Passed = t.After != t.Before
	}
	return t, nil
}

func tryWithNoise(ctx context.Context, c Case, look Investigate, before *nightcrier.Report, dir string) (Trial, error) {
	t := Trial{Case: c.Name, Gate: NoiseGate, Before: describeAnswer(before, false)}
	if kind, _ := c.Asked(); c.Namespace == "" || kind == "Namespace" {
		t.Skipped = "whatever fails is asked about"
		return t, nil
	}
	snap, err := snapshot.Open(c.Dir)
	if err != nil {
		return t, err
	}
	changed, err := c.copyTo(dir, func(_ string, raw []byte) []byte { return raw })
	if err == nil {
		err = writeNoise(dir, c.Namespace, snap.CapturedAt)
	}
	if err != nil {
		return t, err
	}
	after, err := look(ctx, changed)
	if err != nil {
		return t, err
	}
	t.After = describeAnswer(after, false)
	t.Passed = t.After == t.Before
	return t, nil
}

// describeAnswer is what a report answers, in a line.
func describeAnswer(r *nightcrier.Report, howSure bool) string {
	if r.RootCause == nil {
		return string(r.Verdict)
	}
	s := fmt.Sprintf("%s %s %s", r.Verdict, r.RootCause.Cause, r.RootCause.Object)
	if howSure {
		s += " " + string(r.RootCause.Confidence)
	}
	return s
}

// quotesOfRoot are what the facts quote that the root cause rests on.
func quotesOfRoot(r *nightcrier.Report) (quotes []string) {
	for _, h := range r.Hypotheses {
		if h.Cause != r.RootCause.Cause || h.Object != r.RootCause.Object {
			continue
		}
		for _, f := range r.Facts {
			if f.Quote != "" && slices.Contains(h.For, f.ID) {
				quotes = append(quotes, f.Quote)
			}
		}
	}
	return quotes
}

// copyTo copies a case, its files edited, and returns the copy.
func (c Case) copyTo(dir string, edit func(name string, raw []byte) []byte) (Case, error) {
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return c, nightcrier.Errorf(nightcrier.Invalid, "copy case %s: %w", c.Name, err)
	}
	defer root.Close()
	files := root.FS()
	err = fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(dir, name), edit(name, raw))
	})
	if err != nil {
		return c, nightcrier.Errorf(nightcrier.Invalid, "copy case %s: %w", c.Name, err)
	}
	c.Dir = dir
	return c, nil
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// excision takes what was quoted out of a recording: a setting such as exitCode=137 and a
// condition such as Ready=Unknown wherever they stand, and every Event, log line and message
// that says the same but for its numbers.
type excision struct {
	settings map[string][]string // values by the name of the field
	texts    []string
	removed  int
}

// shortestText is the length from which a piece of a quote counts as a text of its own.
const shortestText = 8

// add takes note of a quote, which may have been cut in the middle.
func (x *excision) add(quote string) {
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(quote, ", ") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || strings.ContainsAny(name, " \"{") {
			for piece := range strings.SplitSeq(quote, " … ") {
				if len(piece) >= shortestText {
					x.texts = append(x.texts, withoutNumbers(piece))
				}
			}
			return
		}
		pairs[name] = value
	}
	for name, value := range pairs {
		x.settings[name] = append(x.settings[name], value)
	}
}

// withoutNumbers is a text with 0 for every number: a log says the same at other times.
func withoutNumbers(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		switch digit := '0' <= s[i] && s[i] <= '9'; {
		case !digit:
			out = append(out, s[i])
		case i == 0 || s[i-1] < '0' || s[i-1] > '9':
			out = append(out, '0')
		}
	}
	return string(out)
}

func (x *excision) edit(name string, raw []byte) []byte {
	switch {
	case strings.HasPrefix(name, "logs/"):
		return x.editLog(raw)
	case !strings.HasPrefix(name, "objects/") || filepath.Ext(name) != ".json":
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	v = x.editValue(v)
	edited, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return edited
}

func (x *excision) editLog(raw []byte) []byte {
	lines := slices.DeleteFunc(strings.Split(string(raw), "\n"), func(line string) bool {
		has := x.hasText(line)
		if has {
			x.removed++
		}
		return has
	})
	return []byte(strings.Join(lines, "\n"))
}

func (x *excision) hasText(s string) bool {
	s = withoutNumbers(s)
	return slices.ContainsFunc(x.texts, func(t string) bool { return strings.Contains(s, t) })
}

func (x *excision) editValue(v any) any {
	switch v := v.(type) {
	case []any:
		kept := v[:0]
		for _, e := range v {
			if x.isQuoted(e) {
				x.removed++
				continue
			}
			kept = append(kept, x.editValue(e))
		}
		return kept
	case map[string]any:
		for name, e := range v {
			if x.isQuoted(e) || slices.Contains(x.settings[name], fmt.Sprint(e)) {
				x.removed++
				delete(v, name)
				continue
			}
			v[name] = x.editValue(e)
		}
	}
	return v
}

// isQuoted reports whether a value is a text that is quoted, or what it is the message of: an
// Event, a condition, a state of a container.
func (x *excision) isQuoted(v any) bool {
	switch v := v.(type) {
	case string:
		return x.hasText(v)
	case map[string]any:
		kind, _ := v["type"].(string)
		message, _ := v["message"].(string)
		return v["reason"] != nil && v["phase"] == nil && x.hasText(message) || kind != "" && slices.Contains(x.settings[kind], fmt.Sprint(v["status"]))
	}
	return false
}

// GateTotals are what the trials of a gate came to.
type GateTotals struct {
	Gate    string `json:"gate"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
}

// SumGates sums trials up, by gate.
func SumGates(trials []Trial) []GateTotals {
	all := []GateTotals{{Gate: CauseGate}, {Gate: NoiseGate}}
	for _, t := range trials {
		s := &all[slices.IndexFunc(all, func(s GateTotals) bool { return s.Gate == t.Gate })]
		switch {
		case t.Skipped != "":
			s.Skipped++
		case t.Passed:
			s.Passed++
		default:
			s.Failed++
		}
	}
	return all
}
