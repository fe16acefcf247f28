package tools_test

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/guard/tools"
)

// brought is a source of tools that echo their arguments.
type brought struct {
	names  []string
	schema map[string]any
	text   string
	closed int
}

func (b *brought) Tools() (all []tools.Tool) {
	for _, name := range b.names {
		all = append(all, tools.Tool{Name: name, Schema: b.schema, Call: func(_ context.Context, raw json.RawMessage) (string, error) {
			return b.text + string(raw), nil
		}})
	}
	return all
}

func (b *brought) Close() error { b.closed++; return nil }

var anyObject = map[string]any{"type": "object"}

func TestSourcesBringTools(t *testing.T) {
	source := &brought{names: []string{"metrics_query"}, schema: anyObject, text: strings.Repeat("é\n", 100<<10)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{ws: t.TempDir()}
	if r.Server, err = tools.Start(l, tools.Config{Workspace: r.ws, More: []tools.Source{source}, Denied: r.denied, Logger: discard}); err != nil {
		t.Fatal(err)
	}
	if names := r.Names(); !slices.Contains(names, "metrics_query") || names[0] != "read_file" {
		t.Errorf("names %v", names)
	}
	text, failed := call(t, r.client(t), "metrics_query", map[string]any{"q": "up"})
	if failed || len(text) > 50<<10 || !strings.Contains(text, "bytes are left out here]") || !strings.HasSuffix(text, `{"q":"up"}`) {
		t.Errorf("%t, %d bytes: …%s", failed, len(text), text[max(0, len(text)-100):])
	}
	if err := r.Close(); err != nil || source.closed != 1 {
		t.Errorf("closed %d times: %v", source.closed, err)
	}
}

// Nobody takes the name of a tool of ours, nor one that a CLI would change.
func TestNamesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		source *brought
		want   string
	}{
		"ours":       {&brought{names: []string{"read_file"}, schema: anyObject}, "two tools are called read_file"},
		"twice":      {&brought{names: []string{"a", "b", "a"}, schema: anyObject}, "two tools are called a:"},
		"empty":      {&brought{names: []string{""}, schema: anyObject}, "no name"},
		"new line":   {&brought{names: []string{"a\nb"}, schema: anyObject}, "no name"},
		"dot":        {&brought{names: []string{"a.b"}, schema: anyObject}, "no name"},
		"long":       {&brought{names: []string{strings.Repeat("a", 48)}, schema: anyObject}, "no name"},
		"no object":  {&brought{names: []string{"a"}, schema: map[string]any{"type": "string"}}, "not of type object"},
		"no schema":  {&brought{names: []string{"a"}}, "not of type object"},
		"other type": {&brought{names: []string{"a"}, schema: map[string]any{"type": []string{"object"}}}, "not of type object"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			r := &run{}
			_, err = tools.Start(l, tools.Config{Workspace: t.TempDir(), More: []tools.Source{c.source}, Denied: r.denied, Logger: discard})
			if err == nil || !strings.Contains(err.Error(), c.want) || c.source.closed != 1 {
				t.Errorf("closed %d times: %v", c.source.closed, err)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	for _, n := range []int{0, 1, 48 << 10, 48<<10 + 300, 1 << 20} {
		for _, unit := range []string{"x", "é", "line\n", "\xff"} {
			whole := strings.Repeat(unit, n/len(unit))
			got := tools.Shorten(whole, "E7")
			if len(got) > 49<<10 || len(whole) <= 48<<10 && got != whole {
				t.Errorf("%d times %q: %d bytes", n/len(unit), unit, len(got))
			}
			if got != whole && (!strings.Contains(got, "evidence E7") || tools.Shorten(got, "") != got) {
				t.Errorf("%d times %q: it says nothing of the rest, or is cut again", n/len(unit), unit)
			}
		}
	}
}
