package arch

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// doors are what a package uses to hear from outside of this process: whoever is at
// the other end may be hostile.
var doors = map[string][]string{
	"net": {"Listen", "ListenPacket", "ListenUnix", "ListenTCP", "ListenUDP", "ListenConfig", "FileListener", "FilePacketConn",
		"Dial", "DialTimeout", "DialUnix", "Dialer"},
	"net/http":     {"Client", "DefaultClient", "DefaultTransport", "Transport", "Get", "Post", "Server", "Serve", "ListenAndServe"},
	"crypto/tls":   {"Dialer", "Dial", "Listen"},
	"os":           {"Stdin"},
	"os/exec":      {"Command", "CommandContext"},
	"database/sql": {"Open", "OpenDB"},
	"syscall":      {"ForkExec", "Exec"},
	"github.com/modelcontextprotocol/go-sdk/mcp": {"StreamableClientTransport", "CommandTransport", "StdioTransport", "NewStreamableHTTPHandler", "IOTransport"},
}

// support are the folders whose other end is a test's own.
var support = []string{"internal/apitest", "internal/arch", "internal/assetcache", "internal/clitest", "internal/datatest", "internal/engine/enginetest",
	"internal/kubetest", "internal/mcptest", "internal/modeltest", "internal/pgtest", "internal/sandbox/sandboxtest",
	"internal/store/storetest", "internal/testproc", "tools", "bench", "e2e", "eval"}

func inSupport(folder string) bool {
	return slices.ContainsFunc(support, func(s string) bool { return folder == s || strings.HasPrefix(folder, s+"/") })
}

// TestEveryOutsideInputHasARow finds what hears from outside: a package that opens a
// connection, a process or standard input, and one with a fuzz test, which parses what
// others wrote. Each has its row in the threat model.
func TestEveryOutsideInputHasARow(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range tables(doc(t, "security.md"), "where", "what comes in", "who may have written it", "what bounds it", "shown by") {
		for folder := range strings.SplitSeq(row[0], ",") {
			rows[strings.Trim(strings.TrimSpace(folder), "`")] = true
		}
	}
	found := map[string]string{}
	for _, s := range sources(t) {
		if door := doorIn(t, s.tree); door != "" && !inSupport(s.folder) {
			found[s.folder] = s.file + " uses " + door
		}
	}
	for folder, test := range fuzzed(t) {
		if !inSupport(folder) {
			found[folder] = "it has " + test
		}
	}
	for folder, why := range found {
		if !rows[folder] {
			t.Errorf("%s hears from outside (%s): docs/security.md needs a row for it, with who may have written what comes in, what bounds it, and the test that attacks it", folder, why)
		}
		delete(rows, folder)
	}
	for folder := range rows {
		t.Errorf("docs/security.md has a row for %s, which hears nothing from outside", folder)
	}
}

// doorIn names the first door that a file uses, "" for none.
func doorIn(t *testing.T, file *ast.File) string {
	t.Helper()
	names := map[string]string{} // a package's name in this file → its path
	for _, i := range file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := doors[p]; !ok {
			continue
		}
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = p
	}
	door := ""
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || door != "" {
			return door == ""
		}
		if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(doors[names[x.Name]], sel.Sel.Name) {
			door = names[x.Name] + "." + sel.Sel.Name
		}
		return true
	})
	return door
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
