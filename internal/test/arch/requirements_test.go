package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wanted lists the ids that docs/requirements.md must have a row for.
func wanted() []string {
	var ids []string
	add := func(prefix string, last int) {
		for n := 1; n <= last; n++ {
			ids = append(ids, fmt.Sprintf("%s%02d", prefix, n))
		}
	}
	add("D000-", 53)
	add("S001-", 43)
	add("W003-", 23)
	add("P004-", 21)
	for n := 1; n <= 6; n++ {
		ids = append(ids, "D000-Q"+strconv.Itoa(n))
	}
	for n := 1; n <= 31; n++ {
		if n < 24 || n > 27 { // numbers never given
			ids = append(ids, "C"+strconv.Itoa(n))
		}
	}
	for record, items := range map[int]int{37: 6, 38: 4, 39: 3, 40: 3, 41: 3, 42: 5, 43: 3, 44: 2, 45: 1, 46: 4, 47: 3, 48: 3, 49: 1, 51: 3, 53: 1, 54: 1, 55: 3, 56: 2, 57: 3, 58: 2} {
		add(fmt.Sprintf("DEC-%03d.", record), items)
	}
	return append(ids, "P004-Q1", "P004-Q2")
}

func TestEveryRequirementHasOneRow(t *testing.T) {
	rows := map[string]int{}
	for _, row := range tables(doc(t, "requirements.md"), "id", "requirement", "shown by") {
		rows[row[0]]++
	}
	for _, id := range wanted() {
		if rows[id] != 1 {
			t.Errorf("docs/requirements.md has %d rows for %s, want 1", rows[id], id)
		}
		delete(rows, id)
	}
	for id := range rows {
		t.Errorf("docs/requirements.md has a row for %s, which is no requirement", id)
	}
}

func TestEveryRequirementIsShownOrDecided(t *testing.T) {
	c := claims{root: root(t), tests: map[string]string{}}
	for _, row := range tables(doc(t, "requirements.md"), "id", "requirement", "shown by") {
		if len(row) != 3 || row[1] == "" {
			t.Errorf("docs/requirements.md: row %q: want id, requirement, shown by", row)
			continue
		}
		for _, claim := range strings.Split(row[2], ";") {
			if err := c.check(strings.TrimSpace(claim)); err != nil {
				t.Errorf("docs/requirements.md: %s (%s): %v", row[0], row[1], err)
			}
		}
	}
}

// claims checks what the last column says against the tree.
type claims struct {
	root  string
	tests map[string]string // sources of the tests in a folder
}

var (
	testClaim     = regexp.MustCompile("^`?((?:Test|Fuzz|Example)\\w*)(?:/[^`()]+)?`? \\(`?([\\w./-]+)`?\\)$")
	decisionClaim = regexp.MustCompile(`^\[?decision (\d{4})(?:\]\([\w./-]+\))?$`)
	laterClaim    = regexp.MustCompile(`^later: \S.{9,}`)
)

func (c *claims) check(claim string) error {
	if m := testClaim.FindStringSubmatch(claim); m != nil {
		return c.testExists(m[1], m[2])
	}
	if m := decisionClaim.FindStringSubmatch(claim); m != nil {
		return c.decisionExists(m[1])
	}
	if laterClaim.MatchString(claim) {
		return nil
	}
	return fmt.Errorf("%q is neither `TestName (folder)` nor `decision NNNN` nor `later: what is missing`", claim)
}

func (c *claims) testExists(name, folder string) error {
	source, err := c.source(folder)
	if err != nil {
		return err
	}
	if !strings.Contains(source, "\nfunc "+name+"(") {
		return fmt.Errorf("no func %s in %s/*_test.go", name, folder)
	}
	return nil
}

// source returns all test files of the folder as one text.
func (c *claims) source(folder string) (string, error) {
	if text, ok := c.tests[folder]; ok {
		return text, nil
	}
	files, err := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all.Write(append(data, '\n'))
	}
	c.tests[folder] = all.String()
	return all.String(), nil
}

func (c *claims) decisionExists(number string) error {
	found, err := filepath.Glob(filepath.Join(c.root, "docs", "decisions", number+"-*.md"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d files match docs/decisions/%s-*.md, want 1", len(found), number)
	}
	return err
}

// Decisions are referred to by their number, which stands in the name and in the title.
func TestDecisionsAreNumberedOnce(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root(t), "docs", "decisions", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	taken := map[int]string{}
	for _, file := range files {
		name := filepath.Base(file)
		var number int
		if _, err := fmt.Sscanf(name, "%04d-", &number); err != nil {
			t.Errorf("%s has no number of four digits", name)
			continue
		}
		if other := taken[number]; other != "" {
			t.Errorf("%s and %s have the same number: the later one takes the next that is free", other, name)
		}
		taken[number] = name
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), fmt.Sprintf("# %d. ", number)) {
			t.Errorf("%s does not begin with %q", name, fmt.Sprintf("# %d. ", number))
		}
	}
}

func TestClaims(t *testing.T) {
	c := claims{root: root(t), tests: map[string]string{}}
	for claim, ok := range map[string]bool{
		"TestClaims (internal/test/arch)":           true,
		"`TestClaims/case` (`internal/test/arch`)":  true,
		"TestClaims (internal/nowhere)":             false,
		"TestClaim (internal/test/arch)":            false,
		"TestClaims":                                false,
		"decision 9999":                             false,
		"later: reports in cloud storage, wave two": true,
		"later:":                 false,
		"later: soon":            false,
		"open":                   false,
		"":                       false,
		"shown by hand":          false,
		"TestClaims (../../etc)": false,
	} {
		if err := c.check(claim); (err == nil) != ok {
			t.Errorf("%q: %v, want it accepted: %v", claim, err, ok)
		}
	}
}

func TestAgentHomeIsNotCommitted(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root(t), ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Split(string(data), "\n"), "/agent-home/") {
		t.Error(".gitignore has no line /agent-home/")
	}
}
