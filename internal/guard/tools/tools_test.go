package tools_test

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

var discard = slog.New(slog.DiscardHandler)

var cited = regexp.MustCompile(`\[evidence (E\d+(?: E\d+)*)\]\n?$`)

func TestReadsGoThroughTheGuardOnce(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	s.Pod(t, ns, "cart", nil)
	r := start(t, s)
	c := r.client(t)
	text, failed := call(t, c, "kubernetes_list", map[string]any{"kind": "pods", "namespace": ns})
	if failed || !strings.Contains(text, "cart") {
		t.Fatalf("list: %s", text)
	}
	ids := cited.FindStringSubmatch(text)
	if ids == nil {
		t.Fatalf("no evidence is named: %s", text)
	}
	item, ok := r.evidence.Item(ids[1])
	if !ok || !strings.Contains(item.Source, "kubectl get pods -n "+ns) {
		t.Errorf("%s is %+v", ids[1], item)
	}
	if n := count(r, "list", "pods"); n != 1 {
		t.Errorf("the list is on record %d times", n)
	}
	text, failed = call(t, c, "kubernetes_get", map[string]any{"kind": "pod", "name": "nobody", "namespace": ns})
	if id := cited.FindStringSubmatch(text); !failed || id == nil || !strings.Contains(text, "not found") {
		t.Errorf("what is not there: %t %s", failed, text)
	} else if item, _ := r.evidence.Item(id[1]); item.Kind != "error" {
		t.Errorf("%s is %+v", id[1], item)
	}
	if n := count(r, "get", "pods"); n != 1 {
		t.Errorf("the get is on record %d times", n)
	}
}

func count(r *run, verb, resource string) (n int) {
	for _, a := range r.outcomes() {
		if a.Verb == verb && a.Resource == resource {
			n++
		}
	}
	return n
}

func TestToolsAreReadOnlyAndNamed(t *testing.T) {
	r := start(t, kubetest.Start(t))
	list, err := r.client(t).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if a := tool.Annotations; a == nil || !a.ReadOnlyHint || a.DestructiveHint == nil || *a.DestructiveHint {
			t.Errorf("%s does not say that it only reads", tool.Name)
		}
	}
	told := r.Names()
	slices.Sort(names)
	slices.Sort(told)
	if !slices.Equal(names, told) || !slices.Contains(names, "kubernetes_logs") || !slices.Contains(names, "read_file") {
		t.Errorf("offered %v, told %v", names, told)
	}
}

func TestWithoutAClusterThereAreFiles(t *testing.T) {
	r := start(t, nil)
	if got := fmt.Sprint(r.Names()); got != "[read_file list_files]" {
		t.Errorf("tools %s", got)
	}
	c := connect(t, r.URL(), r.Token())
	text, failed := call(t, c, "list_files", nil)
	for _, want := range []string{`".claude/skills/k8s-troubleshooter/SKILL.md"`, `"context/event.json"`, `"incident.json"`} {
		if failed || !strings.Contains(text, want) {
			t.Errorf("the list lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "home") || strings.Contains(text, "output") || strings.Contains(text, "prompt-sent") {
		t.Errorf("the list tells too much:\n%s", text)
	}
	for path, want := range map[string]string{
		"context/event.json":                           "BackOff",
		"./context/../incident.json":                   "incidentId",
		".claude/skills/k8s-troubleshooter/./SKILL.md": "# How to look",
	} {
		if text, failed := call(t, c, "read_file", map[string]any{"path": path}); failed || !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

func TestReadFileIsBounded(t *testing.T) {
	r := start(t, nil)
	var lines strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&lines, "line %d of the log\n", i+1)
	}
	r.write(t, "context/logs.txt", lines.String())
	r.write(t, "context/long.txt", strings.Repeat("é", 1<<20)+"\nthe end")
	r.write(t, "context/empty.txt", "")
	r.write(t, "context/evil.txt", "a\x1b[2J\u202eb\x00c")
	for _, c := range []struct {
		name string
		args map[string]any
		want []string
		fail bool
	}{
		{"from the start", map[string]any{"path": "context/logs.txt"}, []string{"line 1 of", "line 1000 of", "(lines 1 to 1000 are shown; go on with from: 1001)"}, false},
		{"too many lines", map[string]any{"path": "context/logs.txt", "lines": 5000}, []string{"line 2000 of", "go on with from: "}, false},
		{"the end", map[string]any{"path": "context/logs.txt", "from": 19999}, []string{"line 19999 of the log\nline 20000 of the log\n"}, false},
		{"behind the end", map[string]any{"path": "context/logs.txt", "from": 20001}, []string{"the file has 20000 lines"}, true},
		{"a long line", map[string]any{"path": "context/long.txt"}, []string{"(line 1 goes on behind these", "go on with from: 2"}, false},
		{"behind a long line", map[string]any{"path": "context/long.txt", "from": 2}, []string{"the end"}, false},
		{"nothing", map[string]any{"path": "context/empty.txt"}, []string{"(the file is empty)"}, false},
		{"a directory", map[string]any{"path": "context"}, []string{"list_files"}, true},
		{"what is not there", map[string]any{"path": "context/nope"}, []string{"there is no"}, true},
		{"below a file", map[string]any{"path": "incident.json/x"}, []string{"there is no"}, true},
		{"no path", map[string]any{}, []string{"argument path is missing"}, true},
		{"what steers a terminal", map[string]any{"path": "context/evil.txt"}, []string{"\uFFFD"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, failed := call(t, r.client(t), "read_file", c.args)
			if failed != c.fail || len(text) > 160<<10 || strings.ContainsAny(text, "\x1b\x00\u202e") {
				t.Errorf("error %t, %d bytes: %.300q", failed, len(text), text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in %.200q … %q", want, text, text[max(0, len(text)-200):])
				}
			}
		})
	}
	if d := r.refusals(); len(d) > 0 {
		t.Errorf("taken for denials: %v", d)
	}
}

// Clients ask for what we do not have, and go on when they are told so in the
// protocol's own words.
func TestUnknownMethods(t *testing.T) {
	r := start(t, nil)
	for _, method := range []string{"server/nothing", "tasks/list", "x", "tools/nothing"} {
		code, answer := post(t, r.URL(), r.Token(), message(t, method, map[string]any{}))
		if !strings.Contains(answer, "-32601") {
			t.Errorf("%s: %d %s", method, code, answer)
		}
	}
	code, answer := post(t, r.URL(), r.Token(), message(t, "server/discover", map[string]any{}))
	if code >= 500 || !strings.Contains(answer, `"error"`) && !strings.Contains(answer, `"result"`) {
		t.Errorf("server/discover: %d %s", code, answer)
	}
	t.Logf("server/discover: %d %s", code, answer)
}
