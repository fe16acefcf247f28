package report

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
)

func TestScreen(t *testing.T) {
	r := sample()
	md := Final(&r, Detail{Depth: Full, Commands: []string{"get pods cart-7d4b-x2x7q -n shop"}, Excerpts: []Excerpt{{"the log <of> cart", "line **one**\n  line `two`"}}})
	screen := Screen{Width: 80}
	for name, got := range map[string]string{
		"card.txt": screen.Card(NewCard(&r), Beside{Rest: "add -o full"}),
		"full.txt": screen.Report(md),
	} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s:\n%s", name, got)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		if m := regexp.MustCompile("[*]{2}|`|^#|&lt;|<details>|\\|---").FindString(strings.Replace(got, "line **one**\n      line `two`", "", 1)); m != "" {
			t.Errorf("%s has Markdown in it: %q", name, m)
		}
	}
}

// colours are the escape sequences that we write.
var colours = regexp.MustCompile("\x1b\\[[0-9;]+m")

// TestScreenIsNotSteered: whatever a report says, a terminal shows it.
func TestScreenIsNotSteered(t *testing.T) {
	hostile := activeContent + "\x1b]0;owned\x07 &#27;[2J &#x9b;2J `\x1b[31m` **\u202e** [x](http://ok.example/\x1b[2J) ![\x1b[1m](y)\n\n    \x1b[2Jcode\n\n> quoted \x9b2J\n"
	o := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "a\x1b[2J"}
	card := Card{Status: Status{"Degraded", Warn}, Severity: hostile, Target: o, Mend: o, Cluster: hostile, Cause: hostile, CauseID: hostile, Unseen: hostile, Confidence: "high\x1b[2J",
		Test: Test{Command: hostile, Says: hostile}, First: Step{hostile, hostile, hostile, hostile, Destroys}, NotChecked: 2, Worst: nightcrier.NotChecked{What: hostile, Why: hostile}}
	for _, s := range []Screen{{}, {Width: 1}, {Width: 80}, {Width: 80, Colour: true}, {Width: 500, Colour: true}} {
		for _, got := range []string{s.Report([]byte(hostile)), s.Card(card, Beside{hostile, hostile, hostile, hostile, hostile, []string{hostile}})} {
			if !s.Colour && strings.Contains(got, "\x1b") {
				t.Errorf("%+v: an escape without colour: %q", s, got)
			}
			if bad := strings.IndexFunc(colours.ReplaceAllString(got, ""), func(r rune) bool { return r != '\n' && texts.IsHidden(r) }); bad >= 0 {
				t.Errorf("%+v: what steers a terminal is in %q", s, got)
			}
		}
	}
}

// A command is one line, however narrow the screen: broken, it could not be copied.
func TestCommandsStayWhole(t *testing.T) {
	const command = "kubectl get pod cart-7d4b9c8f6d-x2x7q -n shop -o yaml"
	got := Screen{Width: 30}.Card(Card{Cause: "it ends again and again, and nobody knows why", Test: Test{Command: command, Says: "holds"}, First: Step{Action: "x", Command: command + " -w"}}, Beside{Rest: command})
	if once := (Screen{}).Card(Card{Test: Test{Command: command, Says: "holds"}, First: Step{Command: command}}, Beside{}); strings.Count(once, command) != 1 || !strings.Contains(once, "its test, the command above, holds") {
		t.Errorf("one command is told twice:\n%s", once)
	}
	got = strings.Replace(got, command+" -w\n", command+"\n", 1)
	if strings.Count(got, command+"\n") != 3 || !strings.Contains(got, "\n             again, and") {
		t.Errorf("\n%s", got)
	}
}

func TestScreenWraps(t *testing.T) {
	for name, tt := range map[string]struct {
		width int
		spans []span
		want  string
	}{
		"no end":              {0, []span{{"a b  c\nd", plainly}}, "- a b c d\n"},
		"between words":       {8, []span{{"aaa bbb ccc", plainly}}, "- aaa\n  bbb\n  ccc\n"},
		"to the last column":  {9, []span{{"aaa bbb ccc", plainly}}, "- aaa bbb\n  ccc\n"},
		"a word of two parts": {9, []span{{"aaa (", plainly}, {"bbb", boldly}, {") c", plainly}}, "- aaa\n  (bbb) c\n"},
		"a long word":         {6, []span{{"a bbbbbbbbbb c", plainly}}, "- a\n  bbbbbbbbbb\n  c\n"},
		"nothing":             {6, nil, "-\n"},
	} {
		if got := (Screen{Width: tt.width}).wrapSpans(indent{"- ", "  "}, tt.spans...); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func FuzzScreen(f *testing.F) {
	f.Add(activeContent)
	f.Add("# t\n\n## 0. x\n\n- a\n  1. b\n     - c\n\n| a | b |\n|---|---|\n| 1 | \\| |\n\n> > q\n\n***\n")
	f.Fuzz(func(t *testing.T, md string) {
		if got := (Screen{Width: 40}).Report([]byte(md)); strings.Contains(got, "\x1b") || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	})
}
