package detect_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// noon is when every scenario starts. In its objects "@-5m" stands for five
// minutes before that.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// scenario is one file of testdata: what is seen when, and the edges that must
// come of it. A step without expectations must be silent, ticks included.
type scenario struct {
	About string
	Steps []step
}

type step struct {
	// At is when, after noon. Until then time passes by ticks.
	At time.Duration
	// Begin and End bracket a list; Gone deletes instead of showing.
	Begin, End, Gone bool
	API              *bool
	// Kind and Object are what is seen; Patch is laid over the last Object of the
	// scenario first.
	Kind   detect.Kind
	Object map[string]any
	Patch  map[string]any
	Expect []string
	// Says are words that the edges of the step must contain.
	Says []string
}

// clock is a time that tests set.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newDetector(c *clock) *detect.Detector {
	return detect.New(detect.Config{Now: c.Now, Class: intake.ClassOf, OwnerByName: intake.OwnerByName})
}

// pass lets time pass until to, with all ticks that are due.
func pass(d *detect.Detector, c *clock, to time.Time) []detect.Fault {
	var out []detect.Fault
	for n := d.Next(); !n.IsZero() && !n.After(to); n = d.Next() {
		if n.After(c.now) {
			c.now = n
		}
		out = append(out, d.Tick()...)
	}
	c.now = to
	return out
}

// spell writes an edge as scenarios do.
func spell(f detect.Fault) string {
	s := "begin"
	if f.Cleared {
		s = "clear"
	}
	s += fmt.Sprintf(" %s %s %s", f.Type, f.Severity, f.Resource)
	if f.Owner.String() != f.Resource.String() {
		s += " of " + f.Owner.String()
	}
	if f.Container != "" {
		s += " (" + f.Container + ")"
	}
	return s
}

// TestScenarios plays all scenarios, and holds the table of docs/events.md to
// them: what they show is what it lists, in the class that it says.
func TestScenarios(t *testing.T) {
	shown := map[string]nightcrier.Class{}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range strings.Split("\n"+string(raw), "\n---\n") {
				var s scenario
				if err := strictyaml.Unmarshal([]byte(doc), &s); err != nil {
					t.Fatal(err)
				}
				t.Run(s.About, func(t *testing.T) { play(t, s, shown) })
			}
		})
	}
	if diff := cmp.Diff(documented(t), shown); diff != "" {
		t.Errorf("docs/events.md does not list what the scenarios show (-docs +scenarios):\n%s", diff)
	}
}

var (
	row  = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| (\\w+) \\|")
	code = regexp.MustCompile("`([A-Za-z]+)`")
)

// documented are the fault types of the table in docs/events.md, with their class.
func documented(t *testing.T) map[string]nightcrier.Class {
	text, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "# What the detector finds")
	section, _, _ = strings.Cut(section, "\n#")
	out := map[string]nightcrier.Class{}
	for _, r := range row.FindAllStringSubmatch(section, -1) {
		for _, c := range code.FindAllStringSubmatch(r[1], -1) {
			out[c[1]] = nightcrier.Class(r[2])
		}
	}
	return out
}

func play(t *testing.T, s scenario, shown map[string]nightcrier.Class) {
	c := &clock{noon}
	d := newDetector(c)
	var last map[string]any
	for i, st := range s.Steps {
		edges := pass(d, c, noon.Add(st.At))
		if st.Object == nil {
			st.Object = last
		}
		last = overlay(st.Object, st.Patch)
		edges = append(edges, st.do(t, d, last)...)
		got := make([]string, 0)
		said := ""
		for _, f := range edges {
			checkEdge(t, f)
			shown[f.Type] = intake.ClassOf(f.Type, "")
			got, said = append(got, spell(f)), said+f.Context+"\n"
		}
		want := append(make([]string, 0), st.Expect...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("step %d at %s: edges (-want +got):\n%s\n%s", i+1, st.At, diff, said)
		}
		for _, words := range st.Says {
			if !strings.Contains(said, words) {
				t.Errorf("step %d: %q is not in\n%s", i+1, words, said)
			}
		}
	}
}

func (st step) do(t *testing.T, d *detect.Detector, object map[string]any) []detect.Fault {
	t.Helper()
	switch {
	case st.API != nil:
		return d.API(*st.API, "etcd failed")
	case st.Begin:
		d.Begin(st.Kind, "")
		return nil
	case st.End:
		return d.End(st.Kind, "")
	case st.Kind == "":
		return nil
	}
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	raw = dated(raw)
	if st.Gone {
		return d.Delete(st.Kind, raw)
	}
	return d.Observe(st.Kind, raw)
}

var relative = regexp.MustCompile(`"@(-?[0-9a-z.]+)"`)

// dated replaces "@-5m" by a time.
func dated(raw []byte) []byte {
	return relative.ReplaceAllFunc(raw, func(m []byte) []byte {
		d, err := time.ParseDuration(string(m[2 : len(m)-1]))
		if err != nil {
			return m
		}
		return []byte(`"` + noon.Add(d).Format(time.RFC3339) + `"`)
	})
}

// overlay lays a patch over an object, as a JSON merge patch.
func overlay(object, patch map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range object {
		out[k] = v
	}
	for k, v := range patch {
		under, _ := out[k].(map[string]any)
		switch over, isMap := v.(map[string]any); {
		case v == nil:
			delete(out, k)
		case isMap:
			out[k] = overlay(under, over)
		default:
			out[k] = v
		}
	}
	return out
}

// checkEdge holds every edge of every test to what is promised of them: the
// rest of the product reads it as it was meant.
func checkEdge(t *testing.T, f detect.Fault) {
	t.Helper()
	if len(f.Context) == 0 || len(f.Context) > 512 || f.OccurredAt.IsZero() {
		t.Errorf("%s: context of %d bytes, at %s", spell(f), len(f.Context), f.OccurredAt)
	}
	for _, err := range []error{f.Resource.Check(), f.Owner.Check()} {
		if err != nil {
			t.Errorf("%s: %v", spell(f), err)
		}
	}
	if _, _, known := dialect.Meaning(f.Type); !known {
		t.Errorf("%s: nobody knows this fault type", spell(f))
	}
	ev, err := dialect.Parse(f.Payload("prod", "sub-1"))
	want := nightcrier.Event{
		Cluster: "prod", Dialect: dialect.Faults, SubscriptionID: "sub-1", FaultID: f.ID("prod"), FaultType: f.Type,
		Severity: f.Severity, Resource: f.Resource, Owner: f.Owner, Container: f.Container, Context: f.Context,
		Cleared: f.Cleared, OccurredAt: f.OccurredAt, Raw: ev.Raw,
	}
	if diff := cmp.Diff(want, ev); diff != "" || err != nil {
		t.Errorf("%s is read back (-want +got), %v:\n%s", spell(f), err, diff)
	}
}
