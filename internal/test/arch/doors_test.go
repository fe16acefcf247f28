package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// doorNames are what a package uses to hear from outside of this process, by import path:
// whoever is at the other end may be hostile. They are patterns as of path.Match.
var doorNames = map[string][]string{
	"net":                {"Dial*", "Listen", "ListenConfig", "ListenIP", "ListenMulticastUDP", "ListenPacket", "ListenTCP", "ListenUDP", "ListenUnix*", "File*", "Lookup*", "*Resolver"},
	"net/http":           {"Client", "Default*", "Transport", "Get", "Head", "Post*", "Server", "Serve*", "ListenAndServe*", "Handle", "HandleFunc", "HandlerFunc", "NewServeMux", "FileServer*", "ReadRequest", "ReadResponse", "MaxBytesReader"},
	"net/http/httputil":  {"ReverseProxy", "NewSingleHostReverseProxy", "NewClientConn", "NewServerConn"},
	"net/rpc":            {"*"},
	"net/smtp":           {"*"},
	"crypto/tls":         {"Dial*", "Listen", "NewListener", "Client", "Server"},
	"os":                 {"Stdin", "ReadFile", "ReadDir", "Open*", "DirFS", "Readlink", "NewFile", "StartProcess", "Getenv", "LookupEnv", "Environ", "Args"},
	"io/ioutil":          {"*"},
	"os/exec":            {"Command*", "Cmd"},
	"plugin":             {"*"},
	"database/sql":       {"Open*"},
	"syscall":            {"ForkExec", "Exec", "StartProcess", "Open*", "Read*", "Recv*", "Socket*", "Connect", "Accept*", "Bind", "Listen", "Mmap", "Inotify*"},
	"encoding/json":      {"NewDecoder"},
	"encoding/xml":       {"NewDecoder", "Unmarshal"},
	"encoding/gob":       {"NewDecoder"},
	"encoding/csv":       {"NewReader"},
	"compress/*":         {"NewReader*"},
	"archive/*":          {"NewReader", "OpenReader"},
	"golang.org/x/sys/*": {"ForkExec", "Exec", "Open*", "Read*", "Recv*", "Pread*", "Socket*", "Connect", "Accept*", "Bind", "Listen", "Mmap", "Inotify*"},

	"github.com/danielgtaylor/huma/v2":           {"Register", "Get", "Put", "Post", "Patch", "Delete", "AutoRegister"},
	"github.com/jackc/pgx/*":                     {"Connect*", "New", "NewWithConfig", "OpenDB*"},
	"github.com/jackc/pgx/*/*":                   {"Connect*", "New", "NewWithConfig", "OpenDB*"},
	"github.com/modelcontextprotocol/go-sdk/mcp": {"?*Transport", "NewStreamableHTTPHandler", "NewSSEHandler", "NewClient", "NewServer", "AddTool"},
	"go.yaml.in/yaml/*":                          {"NewDecoder", "NewLoader", "Load", "Unmarshal"},
	"golang.org/x/net/*":                         {"Dial*", "Listen*", "Server", "Transport", "NewServer", "Parse"},
	"google.golang.org/grpc":                     {"*"},
	"k8s.io/client-go/*":                         {"New*"},
	"k8s.io/client-go/rest":                      {"*ClientFor*", "TransportFor", "HTTPWrappersForConfig", "InClusterConfig", "TLSConfigFor"},
	"k8s.io/client-go/tools/*":                   {"New*", "Load*", "BuildConfig*", "RESTConfig*"},
	"k8s.io/client-go/transport":                 {"New*", "TLSConfigFor"},
	modulePath + "/internal/text/strictyaml":     {"ReadNode", "Unmarshal"},
}

// doorMethods are methods by which something new is served, whatever they are called on.
var doorMethods = []string{"HandleFunc", "AddTool", "AddResource", "AddResourceTemplate", "AddPrompt"}

// doorCount is how often each door is used.
type doorCount map[string]int

// String is what stands on the page.
func (c doorCount) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if c[name] > 1 {
			name += " ×" + strconv.Itoa(c[name])
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// doorsOf counts the doors of each folder whose other end is not a test's own.
func doorsOf(t *testing.T) map[string]doorCount {
	t.Helper()
	all := map[string]doorCount{}
	for _, s := range sources(t) {
		if inSupport(s.folder) {
			continue
		}
		found, err := doorsIn(s.tree)
		if err != nil {
			t.Errorf("%s: %v", s.file, err)
		}
		for name, n := range found {
			if all[s.folder] == nil {
				all[s.folder] = doorCount{}
			}
			all[s.folder][name] += n
		}
	}
	return all
}

var versionSuffix = regexp.MustCompile(`^v[0-9]+$`)

// doorsIn counts the doors that a file uses. A pointer to a type opens nothing.
func doorsIn(file *ast.File) (doorCount, error) {
	paths := map[string]string{} // a package's name in this file → its path
	for _, i := range file.Imports {
		p := unquote(i.Path.Value)
		if len(patternsFor(p)) == 0 {
			continue
		}
		name := shortName(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		if name == "." {
			return nil, fmt.Errorf("%s is imported without a name: what is used of it cannot be seen", p)
		}
		paths[name] = p
	}
	found := doorCount{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StarExpr:
			sel, ok := n.X.(*ast.SelectorExpr)
			return !ok || strings.HasPrefix(sel.Sel.Name, "Default")
		case *ast.SelectorExpr:
			x, named := n.X.(*ast.Ident)
			switch {
			case named && paths[x.Name] != "":
				if isDoor(paths[x.Name], n.Sel.Name) {
					found[shortName(paths[x.Name])+"."+n.Sel.Name]++
				}
			case slices.Contains(doorMethods, n.Sel.Name):
				found["."+n.Sel.Name]++
			}
		case *ast.FuncDecl:
			if n.Body != nil && serves(n.Type) {
				found["handler"]++
			}
			if n.Name.Name == "RoundTrip" {
				found["RoundTrip"]++
			}
		case *ast.FuncLit:
			if serves(n.Type) {
				found["handler"]++
			}
		}
		return true
	})
	return found, nil
}

// shortName is what a package is called where nothing else is said.
func shortName(pkg string) string {
	name := path.Base(pkg)
	if versionSuffix.MatchString(name) {
		name = path.Base(path.Dir(pkg))
	}
	return strings.TrimPrefix(name, "go-")
}

// serves reports whether a function answers HTTP requests.
func serves(f *ast.FuncType) bool {
	has := map[string]bool{}
	for _, p := range f.Params.List {
		of := p.Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if sel, ok := of.(*ast.SelectorExpr); ok {
			has[sel.Sel.Name] = true
		}
	}
	return has["ResponseWriter"] && has["Request"]
}

// patternsFor are the names of doors in a package.
func patternsFor(pkg string) (all []string) {
	for pattern, names := range doorNames {
		if ok, _ := path.Match(pattern, pkg); ok {
			all = append(all, names...)
		}
	}
	return all
}

func isDoor(pkg, name string) bool {
	return slices.ContainsFunc(patternsFor(pkg), func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// compareDoors tells what the page says wrongly of the doors, and what it should say.
func compareDoors(page []string, doors map[string]doorCount) (wrong []string) {
	said := map[string][]string{}
	for _, row := range tables(page, "package", "doors", "needs no row above, because") {
		folder := strings.Trim(row[0], "`")
		if said[folder] != nil {
			wrong = append(wrong, fmt.Sprintf("docs/security.md has two lines for the doors of %s: take one out", folder))
		}
		said[folder] = row
	}
	for _, folder := range slices.Sorted(maps.Keys(doors)) {
		row, is := said[folder], doors[folder].String()
		switch {
		case row == nil:
			wrong = append(wrong, fmt.Sprintf("%s hears from outside. Look whether a row of the threat model covers it (who may have written what comes in, what bounds it, which test attacks it), and add to the table of doors in docs/security.md:\n| `%s` | %s |  |\nwith a reason in the last cell where nobody else can have written what comes in", folder, folder, is))
		case row[1] != is:
			wrong = append(wrong, fmt.Sprintf("%s has other doors than docs/security.md says. Look whether its row of the threat model covers the new ones (who may have written what comes in, what bounds it, which test attacks it), and write in the table of doors:\n| `%s` | %s | %s |\ninstead of\n| `%s` | %s | %s |", folder, folder, is, row[2], folder, row[1], row[2]))
		}
		delete(said, folder)
	}
	for _, folder := range slices.Sorted(maps.Keys(said)) {
		wrong = append(wrong, fmt.Sprintf("docs/security.md has a line for the doors of %s, which has none: take it out", folder))
	}
	return wrong
}

// TestNewDoorsAreSeen opens each kind of door in a package, a new one and one that the page
// has already, and looks whether that is noticed.
func TestNewDoorsAreSeen(t *testing.T) {
	const page = "| package | doors | needs no row above, because |\n|---|---|---|\n| `internal/old` | json.NewDecoder, net.Dial |  |"
	old := doorCount{"net.Dial": 1, "json.NewDecoder": 1}
	lines := strings.Split(page, "\n")
	if wrong := compareDoors(lines, map[string]doorCount{"internal/old": old}); len(wrong) > 0 {
		t.Fatalf("nothing is new, and it says %q", wrong)
	}
	for _, c := range []struct{ imports, body, door string }{
		{`"net/http"`, `func h(w http.ResponseWriter, r *http.Request) { _ = r.Body }`, "handler"},
		{`"net/http"`, `var h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {})`, "handler, http.HandlerFunc"},
		{`"net/http"`, `func h(m interface{ HandleFunc(string, func()) }) { m.HandleFunc("/x", nil) }; var _ http.Header`, ".HandleFunc"},
		{`"net/http"`, `type rt struct{}; func (rt) RoundTrip(r *http.Request) (*http.Response, error) { return nil, nil }`, "RoundTrip"},
		{`web "net/http"`, `func h(w web.ResponseWriter, r *web.Request) { _ = web.Client{} }`, "handler, http.Client"},
		{`"encoding/json"`, `func h(in io.Reader) { json.NewDecoder(in) }`, "json.NewDecoder"},
		{`"net"`, `func h() { net.DialTCP("tcp", nil, nil) }`, "net.DialTCP"},
		{`"net"`, `func h() { net.ListenIP("ip", nil); net.FileConn(nil); net.LookupTXT("x") }`, "net.FileConn, net.ListenIP, net.LookupTXT"},
		{`"os"`, `func h() { os.ReadFile("x"); os.ReadFile("y") }`, "os.ReadFile ×2"},
		{`"os"`, `func h() { os.StartProcess("x", nil, nil); _ = os.Getenv("A") }`, "os.Getenv, os.StartProcess"},
		{`"os/exec"`, `func h() { exec.Command("x") }`, "exec.Command"},
		{`"os/exec"`, `func h() { (&exec.Cmd{Path: "x"}).Run() }`, "exec.Cmd"},
		{`"golang.org/x/sys/unix"`, `func h() { unix.Socket(1, 2, 3) }`, "unix.Socket"},
		{`"syscall"`, `func h() { syscall.Recvfrom(1, nil, 0) }`, "syscall.Recvfrom"},
		{`"k8s.io/client-go/rest"`, `func h() { rest.HTTPClientFor(nil); rest.InClusterConfig() }`, "rest.HTTPClientFor, rest.InClusterConfig"},
		{`"k8s.io/client-go/dynamic"`, `func h() { dynamic.NewForConfig(nil) }`, "dynamic.NewForConfig"},
		{`"k8s.io/client-go/tools/clientcmd"`, `func h() { clientcmd.LoadFromFile("x") }`, "clientcmd.LoadFromFile"},
		{`"compress/gzip"`, `func h() { gzip.NewReader(nil) }`, "gzip.NewReader"},
		{`"archive/tar"`, `func h() { tar.NewReader(nil) }`, "tar.NewReader"},
		{`"github.com/jackc/pgx/v5"`, `func h() { pgx.Connect(nil, "") }`, "pgx.Connect"},
		{`"github.com/modelcontextprotocol/go-sdk/mcp"`, `func h() { mcp.AddTool(nil, nil, nil) }`, "mcp.AddTool"},
		{`"github.com/danielgtaylor/huma/v2"`, `func h() { huma.Register(nil, nil, nil) }`, "huma.Register"},
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nimport "+c.imports+"\n"+c.body, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		found, err := doorsIn(tree)
		if err != nil || found.String() != c.door {
			t.Errorf("%s: found %q, %v; want %q", c.body, found, err, c.door)
			continue
		}
		line := "| `internal/new` | " + c.door + " |  |"
		if wrong := compareDoors(lines, map[string]doorCount{"internal/old": old, "internal/new": found}); len(wrong) != 1 || !strings.Contains(wrong[0], "\n"+line+"\n") {
			t.Errorf("%s, in a new package: it says %q", c.body, wrong)
		}
		more := maps.Clone(old)
		for name, n := range found {
			more[name] += n
		}
		line = "| `internal/old` | " + more.String() + " |  |"
		wrong := compareDoors(lines, map[string]doorCount{"internal/old": more})
		if len(wrong) != 1 || !strings.Contains(wrong[0], "\n"+line+"\n") {
			t.Errorf("%s, in a package that has a row: it says %q", c.body, wrong)
		}
		if wrong := compareDoors(append(lines[:2:2], line), map[string]doorCount{"internal/old": more}); len(wrong) > 0 {
			t.Errorf("%s: with the line that it wanted it says %q", c.body, wrong)
		}
	}
	for body, why := range map[string]string{
		`import "net/http"; type c struct { c *http.Client; r *http.Request }; const m = http.MethodGet`: "a pointer opens nothing",
		`import "net/http"; type h interface { Serve(http.ResponseWriter, *http.Request) }`:              "an interface serves nothing",
		`import "os"; func h() { os.WriteFile("x", nil, 0); os.Remove("x") }`:                            "nothing comes in",
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+body, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if found, err := doorsIn(tree); err != nil || len(found) > 0 {
			t.Errorf("%s: found %q, %v: %s", body, found, err, why)
		}
	}
	tree, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nimport . \"net\"\nfunc h() { Dial(\"\", \"\") }", parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := doorsIn(tree); err == nil {
		t.Error("a package that is imported without a name is passed over")
	}
	if wrong := compareDoors(lines, nil); len(wrong) != 1 || !strings.Contains(wrong[0], "take it out") {
		t.Errorf("a line of doors that are gone: %q", wrong)
	}
}
