package expr

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

func body(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCompileSaysWhere(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`body.a +`:         "line 1, column 9",
		"body.a +\n  nope": "line 2, column 3: undeclared reference to 'nope'",
		`[1]`:              "yields list(int): it must yield a text",
		``:                 "line 1, column 1",
		`env("HOME")`:      "undeclared reference to 'env'",
		`prod-1`:           `; a fixed text has quotes of its own, such as '"prod-1"'`,
	} {
		_, err := Payload.Compile(source, Text)
		if nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", source, err, want)
		}
	}
	if _, err := Payload.Compile(`"x"`, Bool); err == nil {
		t.Error("a text is taken for a truth value")
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	v := Vars{"body": body(t, `{"n": 12, "big": 1700000000000, "f": 1.5, "s": "x", "z": null, "b": true, "l": [1], "labels": {"pod": "cart-0"}}`)}
	for source, want := range map[string]string{
		`body.n`: "12", `body.big`: "1700000000000", `body.f`: "1.5", `body.s`: "x", `body.z`: "", `body.b`: "true",
		`body.?labels.?pod.orValue("none")`:    "cart-0",
		`body.?labels.?node.orValue("none")`:   "none",
		`body.s.upperAscii() + "y"`:            "Xy",
		`body.n > 3.0 ? "many" : "few"`:        "many",
		`"id=42;x".split(";")[0].substring(3)`: "42",
	} {
		e, err := Payload.Compile(source, Text)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := e.Text(t.Context(), v); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", source, got, err, want)
		}
	}
	for source, want := range map[string]string{`body.l`: "yields list instead of a text", `body.missing`: "no such key: missing", `item.x`: "cannot be evaluated"} {
		e, err := Payload.Compile(source, Text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Text(t.Context(), v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %q, %v; want %q", source, got, err, want)
		}
	}
}

// What a payload makes expensive ends, and says so.
func TestBounds(t *testing.T) {
	t.Parallel()
	list := "[" + strings.Repeat("1,", 2000) + "1]"
	v := Vars{"body": body(t, `{"l":`+list+`,"s":"`+strings.Repeat("a", 70_000)+`"}`)}
	for _, source := range []string{
		`body.l.all(a, body.l.all(b, body.l.all(c, a == b && b == c))) ? "x" : "y"`,
		`body.l.map(a, body.l.map(b, body.l)).size() > 0 ? "x" : "y"`,
		`body.s`,
	} {
		e, err := Payload.Compile(source, Text)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := e.Text(t.Context(), v); err == nil {
			t.Errorf("%s yields %d bytes", source, len(out))
		}
	}
	e, err := Payload.Compile(`body.l`, List)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.List(t.Context(), v); err != nil || len(got) != 2001 {
		t.Errorf("%d entries, %v", len(got), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	slow, err := Payload.Compile(`body.l.all(a, body.l.exists(b, a != b || b == a))`, Bool)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Bool(ctx, v); err == nil {
		t.Error("an evaluation goes on after its context has ended")
	}
}

// Entries of a list are as the JSON has them, whether the expression took the list
// over or made it.
func TestListEntries(t *testing.T) {
	t.Parallel()
	v := Vars{"body": body(t, `{"l":[{"a":"b"}]}`)}
	for _, source := range []string{`body.l`, `body.l.filter(x, x.a == "b")`, `[{"a": "b"}]`, `body.l.map(x, x)`} {
		e, err := Payload.Compile(source, List)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.List(t.Context(), v)
		if err != nil || len(got) != 1 {
			t.Fatalf("%s = %v, %v", source, got, err)
		}
		if text, err := json.Marshal(got); err != nil || string(text) != `[{"a":"b"}]` {
			t.Errorf("%s = %s, %v", source, text, err)
		}
		inner, err := Payload.Compile(`item.a`, Text)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := inner.Text(t.Context(), Vars{"item": got[0]}); err != nil || text != "b" {
			t.Errorf("%s: item.a = %q, %v", source, text, err)
		}
	}
}

// A list whose items share the whole payload is refused before a payload of a
// few hundred kilobytes has become all of the memory.
func TestItemsThatShareThePayload(t *testing.T) {
	t.Parallel()
	e, err := Payload.Compile(`body.l.map(a, {"a": a, "all": body})`, List)
	if err != nil {
		t.Fatal(err)
	}
	few := Vars{"body": body(t, `{"l":[1,2,3]}`)}
	if items, err := e.List(t.Context(), few); err != nil || len(items) != 3 {
		t.Errorf("%v, %v", items, err)
	}
	many := Vars{"body": body(t, `{"l":[`+strings.Repeat("1,", 4999)+`1],"pad":"`+strings.Repeat("x", 100<<10)+`"}`)}
	items, err := e.List(t.Context(), many)
	if nightcrier.CodeOf(err) != nightcrier.Exhausted { // of bytes; on a busy machine, of time
		t.Errorf("%d items, %v", len(items), err)
	}
}
