package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// source is what a Go file that is no test needs and says.
type source struct {
	file    string // below the root, with slashes
	folder  string // the same, "nightcrier" for the root package
	imports []string
	strings []string // its string literals
	tree    *ast.File
}

// sources are the module's Go files, without tests, test data and the modules
// nested below tools/. They are parsed once.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var parseAll = sync.OnceValues(func() ([]source, error) {
	base, err := rootDir()
	if err != nil {
		return nil, err
	}
	var out []source
	err = filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(base, name, d)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := parse(base, name)
		out = append(out, src)
		return err
	})
	return out, err
})

// enter says whether a folder belongs to the module's code.
func enter(base, name string, d fs.DirEntry) error {
	if name == base {
		return nil
	}
	if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

func parse(base, name string) (source, error) {
	rel, err := filepath.Rel(base, name)
	if err != nil {
		return source{}, err
	}
	tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	src := source{file: filepath.ToSlash(rel), tree: tree}
	src.folder = path.Dir(src.file)
	if src.folder == "." {
		src.folder = "nightcrier"
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ImportSpec); ok {
			src.imports = append(src.imports, unquote(spec.Path.Value))
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			src.strings = append(src.strings, unquote(lit.Value))
		}
		return true
	})
	return src, nil
}

func unquote(lit string) string {
	s, err := strconv.Unquote(lit)
	if err != nil {
		return lit
	}
	return s
}

// ours turns the import path of a package of this module into its folder.
func ours(imp string) (string, bool) {
	if imp == modulePath {
		return "nightcrier", true
	}
	return strings.CutPrefix(imp, modulePath+"/")
}

// permits says whether one of the patterns covers the folder.
func permits(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if tree, ok := strings.CutSuffix(p, "/..."); ok {
			return folder == tree || strings.HasPrefix(folder, tree+"/")
		}
		return folder == p
	})
}

// fences keep a technology inside the packages that are made for it.
var fences = []struct {
	what    string
	imports []string // prefixes of import paths
	literal string   // part of a string
	in      []string // folders
}{
	{
		what:    "SQL",
		imports: []string{"database/sql", "github.com/jackc/pgx", "modernc.org/sqlite", "github.com/pressly/goose"},
		in:      []string{"internal/record/store/...", "internal/run/engine/...", "internal/test/pgtest"},
	},
	{
		what:    "Slack",
		imports: []string{"github.com/slack-go/slack"},
		literal: "slack.com/api",
		in:      []string{"internal/face/notify/slack/..."},
	},
	{
		what:    "a second YAML module",
		imports: []string{"sigs.k8s.io/yaml", "gopkg.in/yaml", "github.com/goccy/go-yaml", "github.com/ghodss/yaml", "go.yaml.in/yaml/v2", "go.yaml.in/yaml/v3"},
	},
	{
		what:    "a second JSON Schema module",
		imports: []string{"github.com/santhosh-tekuri/jsonschema", "github.com/xeipuu/gojsonschema", "github.com/qri-io/jsonschema"},
	},
	{
		what:    "the durable engine",
		imports: []string{"github.com/dbos-inc/dbos-transact-golang"},
		in:      []string{"internal/run/engine/..."},
	},
}

func TestTechnologiesStayInTheirPackages(t *testing.T) {
	all := sources(t)
	for _, fence := range fences {
		for _, src := range all {
			if permits(fence.in, src.folder) {
				continue
			}
			for _, imp := range src.imports {
				if slices.ContainsFunc(fence.imports, func(p string) bool { return strings.HasPrefix(imp, p) }) {
					t.Errorf("%s imports %s; %s belongs to %v", src.file, imp, fence.what, fence.in)
				}
			}
			if fence.literal != "" && slices.ContainsFunc(src.strings, func(s string) bool { return strings.Contains(s, fence.literal) }) {
				t.Errorf("%s says %q; %s belongs to %v", src.file, fence.literal, fence.what, fence.in)
			}
		}
	}
}

// heavy are what the main program must not link: they cost memory while idle,
// or belong to tests.
var heavy = []string{
	"sigs.k8s.io/controller-runtime", "k8s.io/kubernetes", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver",
	"github.com/aws/", "cloud.google.com/", "google.golang.org/api", "github.com/Azure/azure-sdk-for-go",
	"testing",
}

func TestMainProgramLinksNothingHeavy(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root(t), "cmd", "nightcrier")); err != nil {
		t.Fatal("cmd/nightcrier is not here")
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/nightcrier")
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.Bytes())
	}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, h := range heavy {
			if dep == strings.TrimSuffix(h, "/") || strings.HasPrefix(dep, strings.TrimSuffix(h, "/")+"/") {
				t.Errorf("cmd/nightcrier links %s", dep)
			}
		}
	}
}
