package mcp

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// FuzzResults: whatever a server answers to a call, and whatever a record says that it
// answered, is kept and shown as clean text without secrets, and what a model is shown is
// bounded.
func FuzzResults(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"text","text":"a \u001b[2J hunter2\u202e"}]}`,
		`{"isError":true,"content":[{"type":"text","text":"hunter2 is wrong"}]}`,
		`{"content":[],"structuredContent":{"a":["hunter2",1e300]}}`,
		`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"audio","data":"aGk=","mimeType":"audio/wav"}]}`,
		`{"content":[{"type":"resource","resource":{"uri":"file:///etc/passwd","text":"x"}},{"type":"resource_link","uri":"x","name":"y"}]}`,
		`{"content":[null]}`, `{"content":[{"type":"text","text":"` + strings.Repeat("line\\n", 4000) + `"}]}`,
		`{"content":[{"type":"tool_use","id":"x"}]}`, `{"resultType":"input_required","inputRequests":{}}`,
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, said string, failed bool) {
		var res sdk.CallToolResult
		if json.Unmarshal([]byte(said), &res) != nil {
			return
		}
		r := newRecord()
		s := &session{server: toolserver.Server{Name: "peer", Timeout: time.Second}, o: r.options()}
		text := renderResult(&res)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, dirty) || len(text) > 8*len(said)+300*maxParts {
			t.Errorf("%q is rendered as %q", said, text)
		}
		failed = failed || res.IsError
		shown, err := s.recordAnswer(Call{Tool: "peer_x"}, answer{Text: text, Failed: failed})
		if failed {
			if err == nil || shown != "" {
				t.Fatalf("a failure is shown as %q, %v", shown, err)
			}
			shown = err.Error()
		} else if err != nil {
			t.Fatal(err)
		}
		kept := r.evidence["E1"]
		if strings.Contains(shown+kept, "hunter2") || strings.ContainsFunc(shown+kept, dirty) || len(shown) > 64<<10 {
			t.Errorf("%q is shown as %q and kept as %q", said, shown, kept)
		}
		if len(r.calls) != 1 || r.calls[0].Evidence != "E1" || r.calls[0].SHA256 != texts.DigestOf([]byte(kept)) {
			t.Errorf("on record: %+v", r.calls)
		}
	})
}

// dirty reports characters that a terminal obeys.
func dirty(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// FuzzTools: of whatever a server says that it has, agents get what is named and says that
// it reads, once under each name, with a schema that can be shown; the same list is the same.
func FuzzTools(f *testing.F) {
	for _, s := range []string{
		`[{"name":"get","description":"x","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`,
		`[{"name":"get","inputSchema":{}},{"name":"get","inputSchema":{}}]`,
		`[{"name":"get.a","inputSchema":{},"annotations":{"readOnlyHint":true}},{"name":"get_a","inputSchema":{},"annotations":{"readOnlyHint":true}}]`,
		`[{"name":"get\u0000","description":"\u001b]0;x\u0007","inputSchema":{"$ref":"http://x"},"annotations":{"readOnlyHint":true,"destructiveHint":true}}]`,
		`[null,{"name":"","inputSchema":null}]`, `[{"name":"kubernetes_get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`,
	} {
		f.Add(s)
	}
	server := toolserver.Server{Name: "peer", Tools: []string{"get*", "kubernetes_*", "vouched"}, Timeout: time.Second}
	f.Fuzz(func(t *testing.T, list string) {
		var all toolList
		if json.Unmarshal([]byte(list), &all) != nil {
			return
		}
		r := newRecord()
		s := &session{server: server, o: r.options(), refused: map[string]string{}}
		var there []*sdk.Tool
		for _, tool := range all {
			if tool != nil {
				there = append(there, tool)
			}
		}
		s.offerTools(there, nil)
		shown := map[string]bool{}
		for _, o := range s.offers {
			if strings.ContainsFunc(o.Tool+o.About+o.Why, dirty) || len(o.Tool) > toolserver.MaxToolName {
				t.Errorf("%q becomes %+v", list, o)
			}
			if !o.Offered {
				continue
			}
			named, inFull := server.Allows(o.Tool)
			if !named || shown[o.ShownAs] || o.schema == nil || o.schema.shown["type"] != "object" || !strings.HasPrefix(o.ShownAs, "peer") || len(o.Hints) == 0 && !inFull {
				t.Errorf("%q offers %+v", list, o)
			}
			shown[o.ShownAs] = true
		}
		if n := len(s.offeredTools()); n != len(shown) {
			t.Errorf("%q gives %d tools for %d", list, n, len(shown))
		}
		if s.compareTools(there); len(s.refused) > 0 {
			t.Errorf("%q is not what it was: %v", list, s.refused)
		}
	})
}

// FuzzMessages: whatever a command prints, what is passed on are whole lines of it that the
// client takes for messages, and nothing is lost without being counted.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{chatter, `{"jsonrpc":"2.0","id":1,"result":{}}`, "x\n" + `[{"jsonrpc":"2.0","method":"a"}]` + "\r\n", "\xff\n{\"jsonrpc\":\"2.0\",\"id\":1}\x00\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, said string) {
		m := newMessages(io.NopCloser(strings.NewReader(said)))
		passed, err := io.ReadAll(m)
		if err != nil {
			t.Skip() // a line that is too long
		}
		lines, of := 0, map[string]bool{}
		for line := range strings.Lines(said) {
			if line = strings.TrimSpace(line); line != "" {
				lines++
				of[line] = true
			}
		}
		for line := range strings.Lines(string(passed)) {
			line = strings.TrimSuffix(line, "\n")
			if lines--; !of[line] || !isMessage([]byte(line)) {
				t.Errorf("%q is passed on of %q", line, said)
			}
		}
		if lines != m.skipped {
			t.Errorf("%d lines are missing of %q, and %d counted", lines, said, m.skipped)
		}
	})
}
