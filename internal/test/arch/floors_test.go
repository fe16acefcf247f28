package arch

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A tower is what docs/architecture.md says of the rooms: the floor of each, counted
// from the top of the table, and the arrows that are still to go.
type tower struct {
	floor map[string]int
	debts map[[2]string]bool // a room and a package of another
}

func parseTower(lines []string) tower {
	w := tower{floor: map[string]int{}, debts: map[[2]string]bool{}}
	for i, row := range tables(lines, "floor", "rooms", "what they are") {
		for name := range strings.SplitSeq(row[1], ",") {
			w.floor[strings.Trim(name, " `")] = -i
		}
	}
	for _, row := range tables(lines, "still", "imports", "until") {
		w.debts[[2]string{strings.Trim(row[0], "`"), strings.Trim(row[1], "`")}] = true
	}
	return w
}

// roomOf returns the room of a folder, or "" for what stands beside the house: the nouns,
// which all may import, and tests and tools, which may import all.
func roomOf(folder string) string {
	first, rest, _ := strings.Cut(folder, "/")
	switch {
	case first == "cmd", first == "agentruntime":
		return first
	case first == "internal" && rest != "test" && !strings.HasPrefix(rest, "test/"):
		room, _, _ := strings.Cut(rest, "/")
		return room
	}
	return ""
}

// faults lists the imports that the floors do not allow, rooms without a floor, and debts
// that are paid.
func (w tower) faults(all []source) []string {
	found := map[string]bool{}
	open := maps.Clone(w.debts)
	for _, src := range all {
		from := roomOf(src.folder)
		if from == "" && src.folder != "nightcrier" {
			continue
		}
		if _, ok := w.floor[from]; !ok && from != "" {
			found[from+" has no floor"] = true
			continue
		}
		for _, imp := range src.imports {
			folder, ok := ours(imp)
			if !ok || folder == "nightcrier" || from != "" && roomOf(folder) == from {
				continue
			}
			if debt := [2]string{from, folder}; w.debts[debt] {
				delete(open, debt)
				continue
			}
			if why := w.forbids(from, folder); why != "" {
				found[fmt.Sprintf("%s imports %s: %s", src.file, folder, why)] = true
			}
		}
	}
	for debt := range open {
		found[fmt.Sprintf("%s no longer imports %s: take the line out", debt[0], debt[1])] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// forbids says why a room must not import a package of another.
func (w tower) forbids(from, folder string) string {
	to := roomOf(folder)
	below, known := w.floor[to]
	switch {
	case from == "":
		return "the nouns stand on nothing"
	case to == "":
		return "it is made for tests"
	case !known:
		return to + " has no floor"
	case below >= w.floor[from]:
		return to + " is not below " + from
	}
	return ""
}

func TestImportsGoDownTheFloors(t *testing.T) {
	w := parseTower(doc(t, "architecture.md"))
	if len(w.floor) == 0 {
		t.Fatal("docs/architecture.md has no table with the header | floor | rooms | what they are |")
	}
	for _, fault := range w.faults(sources(t)) {
		t.Errorf("docs/architecture.md: %s", fault)
	}
}

func TestFaultsOfATowerAreSeen(t *testing.T) {
	w := parseTower(strings.Split("| floor | rooms | what they are |\n|---|---|---|\n"+
		"| 3 | `cmd` | |\n| 2 | `face`, `run` | |\n| 1 | `record` | |\n"+
		"\n| still | imports | until |\n|---|---|---|\n| `record` | `internal/face/api` | soon |\n", "\n"))
	imports := func(folder string, imps ...string) source {
		for i := range imps {
			imps[i] = strings.TrimSuffix(modulePath+"/"+imps[i], "/")
		}
		return source{file: folder + "/a.go", folder: folder, imports: append(imps, "fmt")}
	}
	debt := imports("internal/record/store", "internal/face/api")
	cases := map[string]struct {
		src  source
		want int
	}{
		"the nouns, by all":      {imports("internal/record/store", ""), 0},
		"downwards":              {imports("cmd/nightcrier", "internal/face/api", "internal/record/store"), 0},
		"the own room":           {imports("internal/record/store", "internal/record/journal"), 0},
		"upwards":                {imports("internal/record/store", "internal/run/engine"), 1},
		"beside":                 {imports("internal/face/api", "internal/run"), 1},
		"a debt, and only that":  {imports("internal/record/journal", "internal/face/api", "internal/face/notify"), 1},
		"what is made for tests": {imports("internal/run", "internal/test/pgtest"), 1},
		"tests import all":       {imports("internal/test/pgtest", "internal/run"), 0},
		"so do end-to-end tests": {imports("e2e", "internal/run"), 0},
		"the nouns import ours":  {imports("nightcrier", "internal/record/store"), 1},
		"a room without floor":   {imports("internal/rogue"), 1},
		"to one without floor":   {imports("internal/face/api", "internal/rogue"), 1},
	}
	for name, c := range cases {
		if got := w.faults([]source{c.src, debt}); len(got) != c.want {
			t.Errorf("%s: %q, want %d faults", name, got, c.want)
		}
	}
	if got := w.faults(nil); len(got) != 1 {
		t.Errorf("a debt that is paid: %q, want one fault", got)
	}
}

// offered matches a line of a room's doc.go that offers a package.
var offered = regexp.MustCompile(`(?m)^//   - ([\w/]+): \S`)

// TestRoomsAreEnteredByTheirDoors holds each room's doc.go to its packages: those that it
// lists are there, and others are entered by nobody from outside: they lie below the room's
// own internal, where the compiler sees to it.
func TestRoomsAreEnteredByTheirDoors(t *testing.T) {
	packages := map[string]map[string]bool{} // room → its packages that can be imported
	for _, src := range sources(t) {
		below := strings.TrimPrefix(src.folder, "internal/")
		if room := roomOf(src.folder); room != "" && below != src.folder && below != room && !strings.Contains(below, "/internal/") {
			if packages[room] == nil {
				packages[room] = map[string]bool{}
			}
			packages[room][strings.TrimPrefix(below, room+"/")] = true
		}
	}
	for room, has := range packages {
		text, err := os.ReadFile(filepath.Join(root(t), "internal", room, "doc.go"))
		if err != nil {
			t.Errorf("internal/%s has packages, but no doc.go that lists them", room)
			continue
		}
		says := map[string]bool{}
		for _, m := range offered.FindAllSubmatch(text, -1) {
			says[string(m[1])] = true
		}
		for name := range has {
			if !says[name] {
				t.Errorf("internal/%s/doc.go does not offer %s: list it, or move it to %s", room, name, path.Join("internal", room, "internal", name))
			}
		}
		for name := range says {
			if !has[name] {
				t.Errorf("internal/%s/doc.go offers %s, which is not there", room, name)
			}
		}
	}
}

// TestPathsOnThePage holds the files that docs/architecture.md leads to against the tree.
func TestPathsOnThePage(t *testing.T) {
	path := regexp.MustCompile("`([a-z_]+(?:/[a-z_]+)*/[a-z_]+\\.go)`")
	seen := 0
	for n, line := range doc(t, "architecture.md") {
		for _, m := range path.FindAllStringSubmatch(line, -1) {
			seen++
			if _, err := os.Stat(filepath.Join(root(t), "internal", m[1])); err != nil {
				t.Errorf("docs/architecture.md:%d leads to internal/%s, which is not there", n+1, m[1])
			}
		}
	}
	if seen == 0 {
		t.Error("docs/architecture.md leads to no file")
	}
}
