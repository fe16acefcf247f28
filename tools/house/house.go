package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const modulePath = "nightcrier.dev/nightcrier/"

// A house is the product's code as it stands in the tree.
type house struct {
	files     map[string]int // folder → Go files
	imports   map[arrow]bool // between rooms
	functions []function
	lines     int
}

// An arrow says that a package of one room imports one of another.
type arrow struct{ from, to string }

type function struct {
	name  string
	lines int
	where string // file:line
}

// readHouse reads the Go files that are no tests.
func readHouse(root fs.FS) (house, error) {
	h := house{files: map[string]int{}, imports: map[arrow]bool{}}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skipFolder(root, name)
		case !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
			return nil
		}
		return h.readFile(root, name)
	})
	return h, err
}

// skipFolder passes by what holds no product code: hidden folders, test data and
// support, and modules of their own.
func skipFolder(root fs.FS, name string) error {
	base := path.Base(name)
	hidden := name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
	if hidden || base == "testdata" || name == "internal/test" || name == "tools" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(name, "go.mod")); err == nil && name != "." {
		return fs.SkipDir
	}
	return nil
}

func (h *house) readFile(root fs.FS, name string) error {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	h.files[path.Dir(name)]++
	h.lines += bytes.Count(src, []byte("\n"))
	for _, i := range tree.Imports {
		h.addImport(path.Dir(name), i.Path.Value)
	}
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			from, to := set.Position(f.Pos()), set.Position(f.End())
			h.functions = append(h.functions, function{f.Name.Name, to.Line - from.Line + 1, fmt.Sprintf("%s:%d", name, from.Line)})
		}
	}
	return nil
}

// addImport notes an import of another room.
func (h *house) addImport(folder, quoted string) {
	imported, err := strconv.Unquote(quoted)
	if err != nil {
		return
	}
	to, ours := strings.CutPrefix(imported, modulePath)
	a := arrow{roomOf(folder), roomOf(to)}
	if ours && a.from != "" && a.to != "" && a.from != a.to {
		h.imports[a] = true
	}
}

// roomOf returns the room that a folder lies in: the first folder below internal.
func roomOf(folder string) string {
	below, ok := strings.CutPrefix(folder, "internal/")
	if !ok {
		return ""
	}
	room, _, _ := strings.Cut(below, "/")
	return room
}

// rooms returns the names of all rooms that hold product code.
func (h house) rooms() []string {
	rooms := map[string]bool{}
	for folder := range h.files {
		if room := roomOf(folder); room != "" {
			rooms[room] = true
		}
	}
	return slices.Sorted(maps.Keys(rooms))
}

func (h house) arrows() []arrow {
	return slices.SortedFunc(maps.Keys(h.imports), func(a, b arrow) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
}

// filesPerPackage returns how many files 95 of 100 packages have at most, and the
// most that one has.
func (h house) filesPerPackage() (p95, most int, where string) {
	counts := slices.Sorted(maps.Values(h.files))
	if len(counts) == 0 {
		return 0, 0, ""
	}
	most = counts[len(counts)-1]
	for folder, n := range h.files {
		if n == most {
			where = folder
		}
	}
	return counts[(len(counts)*95+99)/100-1], most, where
}

func (h house) longestFunction() (lines int, where string) {
	for _, f := range h.functions {
		if f.lines > lines {
			lines, where = f.lines, f.where+" "+f.name
		}
	}
	return lines, where
}

// usage is how often a name is given to a function.
type usage struct {
	name  string
	times int
}

// oneWord returns the names that are one word in small letters, the most frequent
// first: they say too little to be searched for. Go itself names main and init.
func (h house) oneWord() []usage {
	times := map[string]int{}
	for _, f := range h.functions {
		if f.name == strings.ToLower(f.name) && f.name != "main" && f.name != "init" && f.name != "_" {
			times[f.name]++
		}
	}
	var all []usage
	for name, n := range times {
		all = append(all, usage{name, n})
	}
	slices.SortFunc(all, func(a, b usage) int {
		return cmp.Or(cmp.Compare(b.times, a.times), cmp.Compare(a.name, b.name))
	})
	return all
}

// oneWordNames returns the share of functions with such a name, in percent.
func (h house) oneWordNames() float64 {
	if len(h.functions) == 0 {
		return 0
	}
	n := 0
	for _, u := range h.oneWord() {
		n += u.times
	}
	return 100 * float64(n) / float64(len(h.functions))
}
