package review

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// A diff is read as git and GitHub write it. want has the lines as side:number:text.
func TestParseDiff(t *testing.T) {
	for name, c := range map[string]struct{ diff, want string }{
		"changed": {"diff --git a/a.go b/a.go\nindex 1..2 100644\n--- a/a.go\n+++ b/a.go\n@@ -1,3 +1,4 @@ func f()\n a\n-b\n+B\n+C\n d\n",
			"changed a.go | 1:1: a | 2:0: b | 0:2: B | 0:3: C | 3:4: d"},
		"a count that is left out":   {"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "changed x | 1:0: a | 0:1: b"},
		"no context":                 {"--- a/x\n+++ b/x\n@@ -3,0 +4,2 @@\n+a\n+b\n@@ -9 +11,0 @@\n-c\n", "changed x | 0:4: a | 0:5: b | 9:0: c"},
		"no newline at the end":      {"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", "changed x | 1:0: a | 0:1: b"},
		"CRLF":                       {"diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n", "changed x | 1:1: a | 2:0: b | 0:2: c"},
		"an empty line without sign": {"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "changed x | 1:1: a | 2:2:  | 3:0: b | 0:3: c"},
		"a line like a header":       {"--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- a/x\n+++ b/y\n c\n", "changed x.sql | 1:0: -- a/x | 0:1: ++ b/y | 2:2: c"},
		"a new file":                 {"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "added x | 0:1: a"},
		"a deleted file":             {"diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "deleted x | 1:0: a"},
		"a rename":                   {"diff --git a/old name b/new name\nsimilarity index 90%\nrename from old name\nrename to new name\n--- a/old name\t\n+++ b/new name\t\n@@ -1 +1 @@\n-a\n+b\n", "renamed new name from old name | 1:0: a | 0:1: b"},
		"a rename alone":             {"diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", "renamed y from x"},
		"another mode alone":         {"diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n", "changed run.sh"},
		"binary":                     {"diff --git a/p.png b/p.png\nindex 1..2 100644\nBinary files a/p.png and b/p.png differ\n", "changed p.png binary"},
		"a binary patch":             {"diff --git a/p.png b/p.png\nGIT binary patch\nliteral 3\nKcmZ\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "changed p.png binary; changed x | 1:0: a | 0:1: b"},
		"a submodule":                {"diff --git a/lib b/lib\nindex 1..2 160000\n--- a/lib\n+++ b/lib\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n", "changed lib submodule"},
		"no submodule by its name":   {"diff --git a/x b/mode 160000\nsimilarity index 90%\nrename from x\nrename to mode 160000\n--- a/x\n+++ b/mode 160000\n@@ -1 +1 @@\n-a\n+b\n", "renamed mode 160000 from x | 1:0: a | 0:1: b"},
		"a quoted name":              {"diff --git \"a/f\\303\\251\\t\\\"q\\\".txt\" \"b/f\\303\\251\\t\\\"q\\\".txt\"\n--- \"a/f\\303\\251\\t\\\"q\\\".txt\"\n+++ \"b/f\\303\\251\\t\\\"q\\\".txt\"\n@@ -1 +1 @@\n-a\n+b\n", "changed fé\t\"q\".txt | 1:0: a | 0:1: b"},
		"no patch":                   {"diff --git a/big.json b/big.json\n", "changed big.json"},
		"names in two halves":        {"diff --git a/x b/y b/x b/y\n", "changed x b/y"},
		"it breaks off":              {"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n", "changed x cut its diff breaks off | 1:1: a"},
		"numbers that are none":      {"--- a/x\n+++ b/x\n@@ -99999999999999999999 +1 @@\n a\n@@ nonsense\n", "changed x cut the numbers of one of its hunks cannot be read"},
		"a merge":                    {"diff --cc x.go\nindex 1,2..3\n--- a/x.go\n+++ b/x.go\n@@@ -1,1 -1,1 +1,2 @@@\n  a\n++b\n", "changed x.go cut it is the diff of a merge, of which there are two"},
		"words around it":            {"From 12 Mon\nSubject: x\n\n---\n x | 2 +-\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \n2.40\n", "changed x | 1:0: a | 0:1: b"},
		"nothing":                    {"hello\n", ""},
	} {
		var got []string
		for _, f := range ParseDiff([]byte(c.diff)).Files {
			said := string(f.Change) + " " + f.Path
			if f.Old != "" {
				said += " from " + f.Old
			}
			if f.Binary {
				said += " binary"
			}
			if f.Submodule {
				said += " submodule"
			}
			if f.Cut != "" {
				said += " cut " + f.Cut
			}
			for _, h := range f.Hunks {
				for _, l := range h.Lines {
					said += fmt.Sprintf(" | %d:%d: %s", l.Old, l.New, l.Text)
				}
			}
			got = append(got, said)
		}
		if said := strings.Join(got, "; "); said != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, said, c.want)
		}
	}
}

// Which lines can be commented, and on which side.
func TestNumbersOfLines(t *testing.T) {
	d := ParseDiff([]byte("--- a/x\n+++ b/x\n@@ -10,3 +20,3 @@\n stays\n-goes\n+comes\n stays too\n"))
	want := [][2]int{{20, 0}, {0, 11}, {21, 0}, {22, 0}} // right, left
	for i, l := range d.Files[0].Hunks[0].Lines {
		if got := [2]int{l.Number(Right), l.Number(Left)}; got != want[i] {
			t.Errorf("line %d: %v, want %v", i, got, want[i])
		}
	}
}

// A diff that is too large is read up to its bounds, and says so.
func TestHugeDiffs(t *testing.T) {
	one := []byte("--- a/x\n+++ b/x\n@@ -1 +1,9999999 @@\n" + strings.Repeat("+"+strings.Repeat("x", 60)+"\n", 170_000))
	many := bytes.Repeat([]byte("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"), 5000)
	long := []byte("--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+" + strings.Repeat("é", 10<<20))
	lines := []byte("--- a/x\n+++ b/x\n@@ -1 +1,9999999 @@\n" + strings.Repeat("+a\n", 300_000))
	for name, raw := range map[string][]byte{"10 MB in a file": one, "files": many, "a line": long, "lines": lines} {
		d := ParseDiff(raw)
		n := 0
		for _, f := range d.Files {
			for _, h := range f.Hunks {
				n += len(h.Lines)
				for _, l := range h.Lines {
					if len(l.Text) > maxLineBytes {
						t.Fatalf("%s: a line of %d bytes", name, len(l.Text))
					}
				}
			}
		}
		if len(d.Files) > maxFiles || n > maxLines || n == 0 || d.Cut == "" && name != "10 MB in a file" {
			t.Errorf("%s: %d files, %d lines, cut %q", name, len(d.Files), n, d.Cut)
		}
		if last := d.Files[len(d.Files)-1]; name != "files" && last.Cut == "" {
			t.Errorf("%s: the file does not say that it is cut", name)
		}
	}
}

func FuzzDiff(f *testing.F) {
	for _, seed := range []string{"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@ f\n a\n-b\n+c\n", "diff --git \"a/\\303\" \"b/\\3\"\n", "--- a\n+++ b\n@@ -0,0 +1 @@\n+\r\n\\ No newline\n", "diff --cc x\n@@@ -1 -1 +1 @@@\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := ParseDiff(raw)
		d.clean(func(s string) string { return s })
		newMaterial(About{}, &d, &d, nil, nil)
		for i := range d.Files {
			file := &d.Files[i]
			if file.Path == "" {
				t.Fatal("a file without a name")
			}
			for _, h := range file.Hunks {
				for j, l := range h.Lines {
					if l.Old == 0 && l.New == 0 {
						t.Fatal("a line without a number")
					}
					for _, other := range h.Lines[:j] {
						if l.New > 0 && other.New >= l.New || l.Old > 0 && other.Old >= l.Old {
							t.Fatalf("numbers do not rise: %+v %+v", other, l)
						}
					}
					f := Finding{Path: file.Path, Side: Right, Line: l.New, Evidence: l.Text}
					if p := d.place(f); p.Unplaced == "" && !d.shows(p) {
						t.Fatalf("%+v stands on no line of the diff", p)
					}
				}
			}
		}
	})
}

// shows is the rule of a forge, written another way than place: all lines of a comment stand in one
// hunk, on its side.
func (d *Diff) shows(p found) bool {
	for _, f := range d.Files {
		if f.Path != p.Path {
			continue
		}
		for _, h := range f.Hunks {
			on := map[int]bool{}
			for _, l := range h.Lines {
				if p.Side == Right && l.New > 0 {
					on[l.New] = true
				}
				if p.Side == Left && l.New == 0 {
					on[l.Old] = true
				}
			}
			whole := on[p.Line]
			for n := p.Start; n > 0 && n < p.Line; n++ {
				whole = whole && on[n]
			}
			if whole {
				return true
			}
		}
	}
	return false
}
