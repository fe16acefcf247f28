package runbook

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// write fills a directory; a name that ends in a slash is made as a folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// book is a file with a match.
func book(match string) string { return "---\nmatch: " + match + "\n---\n# Title\n\nText.\n" }

func TestMatch(t *testing.T) {
	c := Case{Class: nightcrier.ClassWorkload, Cause: "oom-killed", Alert: "KubePodCrashLooping", Namespace: "shop-eu",
		Kinds: []string{"Pod", "Deployment"}, Labels: map[string]string{"env": "prod", "team": "cart"}}
	for match, want := range map[string]bool{
		"{class: workload}":                           true,
		"{class: [node, workload]}":                   true,
		"{class: [node]}":                             false,
		"{cause: [oom-killed]}":                       true,
		"{cause: oom}":                                false,
		"{alert: KubePodCrashLooping}":                true,
		`{alert: "KubePod*"}`:                         true,
		`{alert: ["Other", "*Crash*ing"]}`:            true,
		`{alert: "*Crash*Crash*"}`:                    false,
		"{alert: kubepodcrashlooping}":                false,
		`{alert: "KubePod"}`:                          false,
		"{kind: deployment}":                          true,
		"{kind: StatefulSet}":                         false,
		`{namespace: "shop-*"}`:                       true,
		`{namespace: shop}`:                           false,
		"{labels: {env: prod}}":                       true,
		"{labels: {env: [dev, prod], team: 'c*'}}":    true,
		"{labels: {env: prod, team: pay}}":            false,
		"{labels: {zone: '*'}}":                       false,
		"{class: workload, cause: crash-on-start}":    false,
		"{class: workload, cause: [a-b, oom-killed]}": true,
	} {
		b, err := parseBook("x.md", book(match))
		if err != nil {
			t.Errorf("%s: %v", match, err)
		} else if b.match.fitsCase(c) != want {
			t.Errorf("%s: fits %t", match, !want)
		}
	}
	for _, match := range []string{`{alert: "*"}`, `{namespace: "*"}`, "{cause: oom-killed}", "{kind: Pod}", "{class: node}", "{labels: {a: b}}"} {
		if b, err := parseBook("x.md", book(match)); err != nil || b.match.fitsCase(Case{}) {
			t.Errorf("%s fits a case of which nothing is known, %v", match, err)
		}
	}
}

func TestProblemsNameFileAndField(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"no front matter":  {"# Title\n", "x.md: has no front matter"},
		"not ended":        {"---\nmatch: {kind: Pod}\n", "x.md: front matter: its second line"},
		"no match":         {"---\ntitle: x\n---\ntext", "x.md: match: is missing"},
		"empty match":      {book("{}"), "x.md: match: is empty"},
		"unknown field":    {book("{kinds: Pod}"), `"kinds"`},
		"unknown class":    {book("{class: pods}"), `x.md: match.class: "pods" is none of [workload`},
		"no cause":         {book("{cause: OOM Killed}"), "x.md: match.cause:"},
		"empty word":       {book(`{alert: ["a", ""]}`), "x.md: match.alert: holds an empty word"},
		"empty label":      {book(`{labels: {env: ""}}`), "x.md: match.labels.env:"},
		"a wrong type":     {book("{alert: {a: b}}"), "x.md: front matter:"},
		"no YAML":          {book("{alert: ["), "x.md: front matter:"},
		"no text":          {"---\nmatch: {kind: Pod}\n---\n \n", "x.md: has no text"},
		"anchors":          {"---\nmatch: &a {kind: Pod}\n---\ntext", "x.md: front matter: anchors"},
		"too large":        {book("{kind: Pod}") + strings.Repeat("x", MaxText), "x.md: is larger than 256 KiB"},
		"too large a head": {"---\ntitle: " + strings.Repeat("x", maxFrontMatter) + "\n---\ntext", "x.md: front matter: is larger"},
	} {
		books, problems := Load(write(t, map[string]string{"x.md": c.file, "good.md": book("{kind: Pod}")}))
		if err := errors.Join(problems...); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.md") || strings.Contains(err.Error(), "/x.md") {
			t.Errorf("%s: %v, want …%s…", name, err, c.want)
		}
		if len(books) != 1 || books[0].File != "good.md" {
			t.Errorf("%s: the other file was not read: %+v", name, books)
		}
	}
	if _, problems := Load(filepath.Join(t.TempDir(), "none")); len(problems) != 1 || nightcrier.CodeOf(problems[0]) != nightcrier.NotFound {
		t.Errorf("a directory that is not there: %v", problems)
	}
}

func TestWhatLiesInTheDirectory(t *testing.T) {
	outside := write(t, map[string]string{"secret.md": book("{kind: Pod}")})
	dir := write(t, map[string]string{
		"a/b.md":            "\uFEFF---\r\ntitle: \"From\u202e the\\n title\"\r\nmatch: {kind: Pod}\r\n---\r\nText\x1b[2J\r\n",
		"heading.MD":        book("{kind: Pod}"),
		"plain.md":          "---\nmatch: {kind: Pod}\n---\nno heading",
		"README.md":         "# About these files",
		"notes.txt":         "not ours",
		".git/x.md":         "hidden",
		"1/2/3/4/5/deep.md": book("{kind: Pod}"),
		"..data/mounted.md": book("{kind: Pod}"),
	})
	must(t, os.Symlink("..data/mounted.md", filepath.Join(dir, "mounted.md"))) // as a ConfigMap is mounted
	must(t, os.Symlink(filepath.Join(outside, "secret.md"), filepath.Join(dir, "evil.md")))
	must(t, os.Symlink("/dev/zero", filepath.Join(dir, "zero.md")))
	must(t, os.Mkdir(filepath.Join(dir, "folder.md"), 0o700))
	books, problems := Load(dir)
	got := ""
	for _, b := range books {
		got += fmt.Sprintf("%s=%s;", b.File, b.Title)
	}
	if want := "a/b.md=From the title;heading.MD=Title;mounted.md=Title;plain.md=plain;"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	if books[0].Text != "Text" {
		t.Errorf("text %q", books[0].Text)
	}
	if err := errors.Join(problems...); len(problems) != 2 || !strings.Contains(err.Error(), "evil.md") || !strings.Contains(err.Error(), "zero.md") {
		t.Errorf("problems %v", problems)
	}
}

func TestFilesAreBounded(t *testing.T) {
	files := map[string]string{}
	for i := range maxFiles + 3 {
		files[fmt.Sprintf("%04d.md", i)] = book("{kind: Pod}")
	}
	books, problems := Load(write(t, files))
	if len(books) != maxFiles || len(problems) != 1 || !strings.Contains(problems[0].Error(), "0500.md") {
		t.Errorf("%d books, %v", len(books), problems)
	}
}

func TestTheClosestComeFirst(t *testing.T) {
	files := map[string]string{"z-close.md": book(`{kind: Pod, cause: oom-killed, labels: {env: prod}}`), "broken.md": "x"}
	for i := range 20 {
		files[fmt.Sprintf("%02d.md", i)] = book("{kind: Pod}")
	}
	l, err := New(Options{Dir: write(t, files)})
	must(t, err)
	list, problems := l.For(t.Context(), Case{Kinds: []string{"Pod"}, Cause: "oom-killed", Labels: map[string]string{"env": "prod"}})
	if len(problems) != 1 || len(list) != maxJoined+maxNamed || list[0].Source != "z-close.md" || list[0].Text == "" || list[0].Problem != "" {
		t.Fatalf("%d, %v, first %+v", len(list), problems, list[0])
	}
	if list[4].Text == "" || list[5].Text != "" || !strings.Contains(list[5].Problem, "5 others") {
		t.Errorf("%+v", list[4:6])
	}
	none, err := New(Options{})
	must(t, err)
	if list, problems := none.For(t.Context(), Case{Kinds: []string{"Pod"}}); len(list)+len(problems) != 0 {
		t.Errorf("without a directory: %v, %v", list, problems)
	}
}

func TestHeard(t *testing.T) {
	raw := json.RawMessage(`{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"KubePodCrashLooping","env":"dev","pod":"x"},"annotations":{"runbook_url":"https://r.example/x"}}]}`)
	c := Case{Labels: map[string]string{"env": "prod"}}
	c.Heard(nightcrier.Event{Dialect: "alertmanager", Raw: raw})
	if c.Alert != "KubePodCrashLooping" || c.Link != "https://r.example/x" || c.Labels["pod"] != "x" {
		t.Errorf("%+v", c)
	}
	if c.Labels["env"] != "prod" {
		t.Error("an alert passes for one of another cluster")
	}
	for name, ev := range map[string]nightcrier.Event{
		"of another source": {Dialect: "faults", Raw: raw},
		"cut":               {Dialect: "alertmanager", Raw: raw[:40]},
		"no alert":          {Dialect: "alertmanager", Raw: json.RawMessage(`{"alerts":[]}`)},
		"another shape":     {Dialect: "alertmanager", Raw: json.RawMessage(`{"alerts":"x"}`)},
	} {
		c := Case{Labels: map[string]string{"env": "prod"}}
		c.Heard(ev)
		if c.Alert != "" || c.Link != "" || len(c.Labels) != 1 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(book(`{alert: "a*"}`))
	f.Add("---\n---\n---\n")
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := parseBook("x.md", s); err == nil && (b.Title == "" || b.Text == "" || b.match.countFields() == 0) {
			t.Errorf("%q became %+v", s, b)
		}
	})
}
