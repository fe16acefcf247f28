package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// support are the folders whose other end is a test's own.
var support = []string{"internal/test/apitest", "internal/test/arch", "internal/test/assetcache", "internal/test/clitest", "internal/test/datatest", "internal/diagnose/internal/scenetest", "internal/run/engine/enginetest",
	"internal/test/kubetest", "internal/test/fakemcp", "internal/test/githubtest", "internal/fake/fakemodel", "internal/test/pgtest", "internal/sandbox/sandboxtest",
	"internal/record/store/storetest", "internal/test/testproc", "tools", "bench", "e2e", "eval"}

func inSupport(folder string) bool {
	return slices.ContainsFunc(support, func(s string) bool { return folder == s || strings.HasPrefix(folder, s+"/") })
}

// TestEveryOutsideInputHasARow finds what hears from outside: a package that opens a
// connection, a process, a file or standard input, and one with a fuzz test, which parses
// what others wrote. Each has its row in the threat model, or a line among the doors that
// says why it needs none.
func TestEveryOutsideInputHasARow(t *testing.T) {
	page := doc(t, "security.md")
	rows := rowsOf(page)
	found := map[string]string{}
	excused := map[string]bool{}
	for _, row := range tables(page, "package", "doors", "needs no row above, because") {
		excused[strings.Trim(row[0], "`")] = row[2] != ""
	}
	for folder, all := range doorsOf(t) {
		found[folder] = "it uses " + all.String()
	}
	for folder, test := range fuzzed(t) {
		if !inSupport(folder) {
			found[folder] = "it has " + test
		}
	}
	for folder, why := range found {
		switch {
		case !rows[folder] && !excused[folder]:
			t.Errorf("%s hears from outside (%s): docs/security.md needs a row for it, with who may have written what comes in, what bounds it, and the test that attacks it; or, where nobody else wrote it, the reason in its line among the doors", folder, why)
		case rows[folder] && excused[folder]:
			t.Errorf("docs/security.md has a row for %s, and says among the doors that it needs none", folder)
		}
		delete(rows, folder)
	}
	for folder := range rows {
		t.Errorf("docs/security.md has a row for %s, which hears nothing from outside", folder)
	}
}

// TestEveryDoorIsOnThePage counts the doors of each package against what the page says, so
// that a new one in a package that has a row already is thought about too.
func TestEveryDoorIsOnThePage(t *testing.T) {
	for _, wrong := range compareDoors(doc(t, "security.md"), doorsOf(t)) {
		t.Error(wrong)
	}
}

// rowsOf are the folders that the threat model has a row for.
func rowsOf(page []string) map[string]bool {
	rows := map[string]bool{}
	for _, row := range tables(page, "where", "what comes in", "who may have written it", "what bounds it", "shown by") {
		for folder := range strings.SplitSeq(row[0], ",") {
			rows[strings.Trim(strings.TrimSpace(folder), "`")] = true
		}
	}
	return rows
}

var fuzzTest = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzed maps the folders that have fuzz tests to one of them.
func fuzzed(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	base := root(t)
	for _, top := range []string{"internal", "cmd", "agentruntime"} {
		err := filepath.WalkDir(filepath.Join(base, top), func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			if m := fuzzTest.FindSubmatch(text); m != nil {
				folder, err := filepath.Rel(base, filepath.Dir(name))
				found[filepath.ToSlash(folder)] = string(m[1])
				return err
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// TestThreatModelIsShown holds the page to the tests that it names.
func TestThreatModelIsShown(t *testing.T) {
	c := claims{root: root(t), tests: map[string]string{}}
	page := doc(t, "security.md")
	rows := tables(page, "where", "what comes in", "who may have written it", "what bounds it", "shown by")
	attacks := tables(page, "attack", "CLI", "guard", "RBAC", "sandbox", "shown by")
	if len(rows) == 0 || len(attacks) == 0 {
		t.Fatal("docs/security.md has lost a table")
	}
	for _, row := range append(rows, attacks...) {
		for claim := range strings.SplitSeq(row[len(row)-1], ";") {
			if err := c.check(strings.TrimSpace(claim)); err != nil {
				t.Errorf("docs/security.md: %s: %v", row[0], err)
			}
		}
	}
}

// TestSingleLayersAreSaid: an attack that one layer alone stops is set in bold, and no
// other is, so that nobody counts on a second.
func TestSingleLayersAreSaid(t *testing.T) {
	for _, row := range tables(doc(t, "security.md"), "attack", "CLI", "guard", "RBAC", "sandbox", "shown by") {
		layers := 0
		for _, cell := range row[1:5] {
			if cell != "" && cell != "–" {
				layers++
			}
		}
		switch bold := strings.HasPrefix(row[0], "**"); {
		case layers == 0:
			t.Errorf("docs/security.md: nothing stops %q: say so under what is not covered", row[0])
		case bold != (layers == 1):
			t.Errorf("docs/security.md: %q has %d layers; bold is for those with one", row[0], layers)
		}
	}
}
