package diagnose

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every expression of the rules compiles, and none is compiled before it is needed.
func TestPatterns(t *testing.T) {
	var names []string
	for _, glob := range []string{"internal/*/*.go", "internal/rules/*/*.go"} {
		found, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	consts := constants(files)
	found := 0
	for _, file := range files {
		for _, decl := range file.Decls {
			top, isVar := decl.(*ast.GenDecl)
			if !isVar || top.Tok != token.VAR {
				continue
			}
			ast.Inspect(top, func(n ast.Node) bool {
				if _, isFunc := n.(*ast.FuncLit); isFunc {
					return false
				}
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name := calledName(call)
				if name == "MustCompile" {
					t.Errorf("%s: compiled when the process starts: use scene.NewPattern", fset.Position(call.Pos()))
				}
				if name != "NewPattern" && name != "NewWordings" {
					return true
				}
				for _, arg := range call.Args {
					found++
					text, known := textOf(arg, consts)
					if _, err := regexp.Compile(text); err != nil || !known {
						t.Errorf("%s: %q: %v", fset.Position(arg.Pos()), text, err)
					}
				}
				return true
			})
		}
	}
	if found < 100 {
		t.Errorf("only %d expressions were found", found)
	}
}

// calledName is the name of the function that is called, without its package.
func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// constants are the package's constants that are texts.
func constants(files []*ast.File) map[string]string {
	out := map[string]string{}
	for range 2 { // one may be made of another
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				for i := 0; ok && i < len(spec.Values); i++ {
					if text, known := textOf(spec.Values[i], out); known {
						out[spec.Names[i].Name] = text
					}
				}
				return true
			})
		}
	}
	return out
}

func textOf(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, known := consts[e.Name]
		return text, known
	case *ast.ParenExpr:
		return textOf(e.X, consts)
	case *ast.BinaryExpr:
		left, l := textOf(e.X, consts)
		right, r := textOf(e.Y, consts)
		return left + right, l && r && e.Op == token.ADD
	}
	return "", false
}
