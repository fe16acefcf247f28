package knowledge

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of what is looked at of a repository: files, bytes of one that is read, and bytes in all.
const (
	maxFiles    = 20_000
	maxFile     = 256 << 10
	maxAll      = 64 << 20
	maxFound    = 2000 // of routes, workloads and files of tests each
	maxFoundLen = 120  // of one of them, in bytes
)

// Scan is what was found in a repository by reading it. No sentence of a file is in it, only names.
type Scan struct {
	Name      string     `json:"name"`
	Languages []Language `json:"languages"`
	Modules   []Module   `json:"modules"`
	Routes    []Route    `json:"routes"`
	Tests     []TestFile `json:"tests"`
	// Builds are files that say how it is built, Entries those that begin a program, and Workloads what
	// runs in a cluster by its manifests.
	Builds    []string `json:"builds"`
	Entries   []string `json:"entries"`
	Workloads []string `json:"workloads"`
	Files     int      `json:"files"`
	// LeftOut says what was not looked at, and why.
	LeftOut []string `json:"leftOut"`
}

// Language is how much of a language there is.
type Language struct {
	Name  string `json:"name"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// Module is a directory with code.
type Module struct {
	Path     string `json:"path"`
	Language string `json:"language"`
	Files    int    `json:"files"`
	Tests    int    `json:"tests"`
}

// Route is a way in over the network.
type Route struct {
	Method string `json:"method,omitempty"`
	Path   string `json:"path"`
	File   string `json:"file"`
}

// TestFile is a file of tests, and how many it has.
type TestFile struct {
	File  string `json:"file"`
	Tests int    `json:"tests"`
}

// scanner reads a repository.
type scanner struct {
	Scan
	root      *os.Root
	read      int64
	left      map[string]int
	languages map[string]*Language
	modules   map[string]*Module
	counts    map[string]map[string]int // module → language → files
	routes    map[Route]bool
}

// ScanRepo reads a repository as far as the bounds allow. Links are not followed, and nothing of it is run.
func ScanRepo(dir, name string) (*Scan, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "%w", err)
	}
	defer root.Close()
	s := scanner{Scan: Scan{Name: name, Builds: []string{}, Entries: []string{}, Workloads: []string{}, Tests: []TestFile{}, LeftOut: []string{}}, root: root,
		left: map[string]int{}, languages: map[string]*Language{}, modules: map[string]*Module{}, counts: map[string]map[string]int{}, routes: map[Route]bool{}}
	if err := fs.WalkDir(root.FS(), ".", s.visit); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", dir, err)
	}
	return s.conclude(), nil
}

// skippedDirs hold what is not the service's own.
var skippedDirs = []string{"node_modules", "vendor", "third_party", "dist", "build", "target", "testdata", "__pycache__", "venv"}

func (s *scanner) visit(p string, d fs.DirEntry, err error) error {
	name := d.Name()
	switch {
	case err != nil:
		s.left["what could not be read"]++
		return nil
	case d.IsDir():
		if p != "." && (strings.HasPrefix(name, ".") || slices.Contains(skippedDirs, name)) {
			return fs.SkipDir
		}
		return nil
	case !d.Type().IsRegular():
		s.left["links and other things that are no files"]++
		return nil
	case s.Files >= maxFiles || s.read >= maxAll:
		s.left["files beyond the first"]++
		return fs.SkipAll
	}
	s.Files++
	if slices.Contains(buildFiles, name) && len(s.Builds) < maxFound {
		s.Builds = append(s.Builds, shown(p))
	}
	lang, ext := languageOf(name), path.Ext(name)
	if lang == "" && !slices.Contains([]string{".yaml", ".yml", ".json", ".proto"}, ext) {
		return nil
	}
	info, err := d.Info()
	if err != nil || info.Size() > maxFile {
		s.left["files of more than 256 KiB, which are only counted"]++
		s.addCode(p, lang, 0, false)
		return nil
	}
	data, err := s.root.ReadFile(p)
	if err != nil {
		s.left["what could not be read"]++
		return nil
	}
	s.read += int64(len(data))
	s.readFile(p, lang, string(data))
	return nil
}

// readFile takes what is of use out of a file.
func (s *scanner) readFile(p, lang, data string) {
	if lang == "" {
		s.readData(p, data)
		return
	}
	tests := countTests(p, lang, data)
	s.addCode(p, lang, int64(len(data)), tests > 0)
	if tests > 0 {
		if len(s.Tests) < maxFound {
			s.Tests = append(s.Tests, TestFile{shown(p), tests})
		}
		return
	}
	if entry := entries[lang]; entry != nil && entry.MatchString(data) && len(s.Entries) < maxFound {
		s.Entries = append(s.Entries, shown(p))
	}
	for _, r := range routePatterns[lang] {
		for _, m := range r.FindAllStringSubmatch(data, maxFound) {
			s.addRoute(m[r.SubexpIndex("method")], m[r.SubexpIndex("path")], p)
		}
	}
}

// readData takes the routes and workloads out of what describes them.
func (s *scanner) readData(p, data string) {
	if path.Ext(p) == ".proto" {
		service := ""
		for _, m := range protoLine.FindAllStringSubmatch(data, maxFound) {
			if m[1] == "service" {
				service = m[2]
			} else {
				s.addRoute("rpc", "/"+service+"/"+m[2], p)
			}
		}
	}
	if openAPI.MatchString(data) {
		for _, m := range openAPIPath.FindAllStringSubmatch(data, maxFound) {
			s.addRoute("", m[1], p)
		}
	}
	for document := range strings.SplitSeq(data, "\n---") {
		if m := manifestName.FindStringSubmatch(document); m != nil && manifestKind.MatchString(document) && !slices.Contains(s.Workloads, m[1]) && len(s.Workloads) < maxFound {
			s.Workloads = append(s.Workloads, m[1])
		}
	}
}

func (s *scanner) addRoute(method, route, file string) {
	if slices.Contains([]string{"route", "Request", "Handle", "HandleFunc"}, method) { // of any
		method = ""
	}
	if before, after, ok := strings.Cut(route, " "); ok && method == "" && !strings.HasPrefix(route, "/") { // as in "GET /x"
		method, route = before, after
	}
	r := Route{strings.ToUpper(shown(method)), shown(route), shown(file)}
	if len(s.routes) < maxFound && r.Path != "" {
		s.routes[r] = true
	}
}

// addCode counts a file of a language in its module.
func (s *scanner) addCode(p, lang string, bytes int64, isTest bool) {
	if lang == "" {
		return
	}
	if s.languages[lang] == nil {
		s.languages[lang] = &Language{Name: lang}
	}
	s.languages[lang].Files++
	s.languages[lang].Bytes += bytes
	of := moduleOf(p)
	if s.modules[of] == nil {
		s.modules[of], s.counts[of] = &Module{Path: shown(of)}, map[string]int{}
	}
	s.modules[of].Files++
	s.counts[of][lang]++
	if isTest {
		s.modules[of].Tests++
	}
}

// holders are directories whose subdirectories are the modules.
var holders = []string{"src", "internal", "pkg", "cmd", "lib", "app", "apps", "services", "packages"}

func moduleOf(p string) string {
	dir := path.Dir(p)
	parts := strings.Split(dir, "/")
	if len(parts) > 1 && slices.Contains(holders, parts[0]) {
		return path.Join(parts[:2]...)
	}
	return parts[0]
}

// conclude puts what was found in order.
func (s *scanner) conclude() *Scan {
	for _, name := range slices.Sorted(maps.Keys(s.languages)) {
		s.Languages = append(s.Languages, *s.languages[name])
	}
	slices.SortStableFunc(s.Languages, func(a, b Language) int { return cmp.Compare(b.Files, a.Files) })
	for _, p := range slices.Sorted(maps.Keys(s.modules)) {
		m := s.modules[p]
		for _, lang := range slices.Sorted(maps.Keys(s.counts[p])) {
			if s.counts[p][lang] > s.counts[p][m.Language] {
				m.Language = lang
			}
		}
		s.Modules = append(s.Modules, *m)
	}
	s.Routes = slices.SortedFunc(maps.Keys(s.routes), func(a, b Route) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method), strings.Compare(a.File, b.File))
	})
	slices.Sort(s.Workloads)
	for _, why := range slices.Sorted(maps.Keys(s.left)) {
		s.LeftOut = append(s.LeftOut, text.CountNoun(s.left[why], "time")+": "+why)
	}
	return &s.Scan
}

// shown is a name from a repository as it may stand in a page: one line, short, and without what ends a
// quotation.
func shown(s string) string {
	return text.CutLine(strings.NewReplacer("`", "'", "<", "(", ">", ")", "|", "/").Replace(text.DropHidden(s)), maxFoundLen)
}

// maxShortened is how many of each list a model is told.
const maxShortened = 150

// Shorten is the scan with the first of each list.
func (s *Scan) Shorten() *Scan {
	short := *s
	short.Modules, short.Routes, short.Tests = firstOf(s.Modules), firstOf(s.Routes), firstOf(s.Tests)
	short.Builds, short.Entries, short.Workloads = firstOf(s.Builds), firstOf(s.Entries), firstOf(s.Workloads)
	return &short
}

func firstOf[T any](all []T) []T { return all[:min(len(all), maxShortened)] }

var errNothing = errors.New("no code of a language that is known")

// Check says why nothing can be written of it, nil when something can.
func (s *Scan) Check() error {
	if len(s.Languages) == 0 {
		return nightcrier.Errorf(nightcrier.Invalid, "%w was found in %d files", errNothing, s.Files)
	}
	return nil
}

var languageNames = map[string]string{".go": "go", ".java": "java", ".py": "python", ".ts": "typescript", ".tsx": "typescript", ".js": "javascript", ".jsx": "javascript",
	".rs": "rust", ".kt": "kotlin", ".rb": "ruby"}

// languageOf is the language of a file by its name, "" for none that is known.
func languageOf(name string) string { return languageNames[strings.ToLower(path.Ext(name))] }

var buildFiles = []string{"go.mod", "pom.xml", "build.gradle", "build.gradle.kts", "package.json", "pyproject.toml", "requirements.txt", "Cargo.toml", "Gemfile", "Dockerfile", "Makefile", "Chart.yaml", "kustomization.yaml"}

// entries are what begins a program.
var entries = map[string]*regexp.Regexp{
	"go": regexp.MustCompile(`(?m)^package main\b`), "java": regexp.MustCompile(`public static void main\(`), "kotlin": regexp.MustCompile(`(?m)^fun main\(`),
	"python": regexp.MustCompile(`(?m)^if __name__ == ['"]__main__['"]`), "rust": regexp.MustCompile(`(?m)^(?:async )?fn main\(`),
}

// routePatterns find routes by how the usual frameworks write them.
var routePatterns = map[string][]*regexp.Regexp{
	"go": {regexp.MustCompile(`\.(?P<method>GET|POST|PUT|PATCH|DELETE|HEAD|Get|Post|Put|Patch|Delete)\(\s*"(?P<path>/[^"\n]*)"`),
		regexp.MustCompile(`\.(?P<method>Handle|HandleFunc)\(\s*"(?P<path>(?:[A-Z]+ )?/[^"\n]*)"`)},
	"python":     {regexp.MustCompile(`(?m)^\s*@[\w.]+\.(?P<method>get|post|put|patch|delete|route|websocket)\(\s*["'](?P<path>/[^"'\n]*)`)},
	"javascript": {jsRoute}, "typescript": {jsRoute},
	"java": {jvmRoute}, "kotlin": {jvmRoute},
	"ruby": {regexp.MustCompile(`(?m)^\s*(?P<method>get|post|put|patch|delete)\s+["'](?P<path>/[^"'\n]*)`)},
	"rust": {regexp.MustCompile(`\.(?P<method>route)\(\s*"(?P<path>/[^"\n]*)"`), regexp.MustCompile(`#\[(?P<method>get|post|put|patch|delete)\(\s*"(?P<path>/[^"\n]*)"`)},
}

var (
	jsRoute      = regexp.MustCompile(`\b(?:app|router|server|api|fastify)\.(?P<method>get|post|put|patch|delete|all)\(\s*["'` + "`" + `](?P<path>/[^"'` + "`" + `\n]*)`)
	jvmRoute     = regexp.MustCompile(`@(?P<method>Get|Post|Put|Patch|Delete|Request)Mapping\(\s*(?:(?:value|path)\s*=\s*)?[{\s]*"(?P<path>/[^"\n]*)"`)
	protoLine    = regexp.MustCompile(`(?m)^\s*(service|rpc)\s+(\w+)`)
	openAPI      = regexp.MustCompile(`(?m)^\s*"?(?:openapi|swagger)"?\s*:`)
	openAPIPath  = regexp.MustCompile(`(?m)^\s{1,8}["']?(/[^\s"':]*)["']?\s*:`)
	manifestKind = regexp.MustCompile(`(?m)^kind: ["']?(?:Deployment|StatefulSet|DaemonSet|CronJob|Rollout)\b`)
	manifestName = regexp.MustCompile(`(?m)^metadata:\s*\n(?:  .*\n)*?  name: ["']?([a-z0-9][a-z0-9.-]{0,62})["']?\s*$`)
)

// testNames and testMarks say what a file of tests is called, and what begins a test in it.
var (
	testNames = map[string]*regexp.Regexp{
		"go": regexp.MustCompile(`_test\.go$`), "python": regexp.MustCompile(`(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$`),
		"javascript": regexp.MustCompile(`\.(?:test|spec)\.jsx?$`), "typescript": regexp.MustCompile(`\.(?:test|spec)\.tsx?$`),
		"java": regexp.MustCompile(`Tests?\.java$`), "kotlin": regexp.MustCompile(`Tests?\.kt$`), "ruby": regexp.MustCompile(`_(?:spec|test)\.rb$`), "rust": regexp.MustCompile(`(?:^|/)tests/[^/]*\.rs$`),
	}
	testMarks = map[string]*regexp.Regexp{
		"go": regexp.MustCompile(`(?m)^func (?:Test|Fuzz|Benchmark|Example)\w*\(`), "python": regexp.MustCompile(`(?m)^\s*(?:async )?def test\w*\(`),
		"javascript": regexp.MustCompile(`\b(?:it|test)\(`), "typescript": regexp.MustCompile(`\b(?:it|test)\(`), "java": regexp.MustCompile(`@(?:Parameterized)?Test\b`),
		"kotlin": regexp.MustCompile(`@(?:Parameterized)?Test\b`), "ruby": regexp.MustCompile(`(?m)^\s*(?:it|test) ["']`), "rust": regexp.MustCompile(`#\[(?:tokio::)?test\]`),
	}
)

// countTests counts the tests of a file that is called as one; 0 for another.
func countTests(p, lang, data string) int {
	if !testNames[lang].MatchString(p) {
		return 0
	}
	return max(1, len(testMarks[lang].FindAllStringIndex(data, -1)))
}
