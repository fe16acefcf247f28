package oneshot

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nightcrier.dev/nightcrier"
)

func TestServedContexts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	three := write("three", `{"apiVersion":"v1","kind":"Config","current-context":"prod","contexts":[{"name":"local","context":{"cluster":"a"}},{"name":"prod","context":{"cluster":"a"}},{"name":"dev","context":{"cluster":"a"}}],"clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}]}`)
	cases := []struct {
		name, file, only string
		want             []servedContext
		code             nightcrier.Code
	}{
		{"all, the current one first", three, "", []servedContext{{"prod", "prod"}, {"dev", "dev"}, {"local", "local"}}, ""},
		{"only one", three, "dev", []servedContext{{"dev", "dev"}}, ""},
		{"none: in a Pod", write("empty", `{"apiVersion":"v1","kind":"Config"}`), "", []servedContext{{"local", ""}}, ""},
		{"a cluster without a context", write("bare", `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}]}`), "", nil, nightcrier.Invalid},
		{"garbage", write("garbage", `{`), "", nil, nightcrier.Invalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := servedContexts(c.file, c.only)
			if !slices.Equal(got, c.want) || nightcrier.CodeOf(err) != c.code {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// A context that cannot be used is left out; when none is left that is an error.
func TestBrokenContextStopsNoOther(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"broken","users":[{"name":"u","user":{"client-certificate":"/nonexistent/c","client-key":"/nonexistent/k"}}],"contexts":[{"name":"good","context":{"cluster":"a"}},{"name":"broken","context":{"cluster":"a","user":"u"}}],"clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := MCPOptions{Kubeconfig: file, Logger: slog.New(slog.DiscardHandler)}
	s, err := o.newServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	o.Context = "broken"
	if _, err := o.newServer(nil); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("%v", err)
	}
}
