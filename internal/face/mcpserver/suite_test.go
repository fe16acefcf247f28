package mcpserver_test

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/face/mcpserver"
	"nightcrier.dev/nightcrier/internal/test/mcpsuite"
)

// feature is something of the protocol that we do not have.
type feature struct {
	// capability is what a server that has it says of itself, and call what its code
	// would have: either would show that it is no longer absent.
	capability, call string
	why              string
	scenarios        []string
}

var absent = []feature{
	{"completions", "CompletionHandler", "arguments are named, not completed", []string{"completion-complete"}},
	{"resources", ".AddResource", "what is in a cluster is read by tools, which bound and mask it", []string{
		"resources-read-text", "resources-read-binary", "resources-templates-read", "resources-subscribe", "resources-unsubscribe"}},
	{"prompts", ".AddPrompt", "there are no prompts: the instructions say how to begin", []string{
		"prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image"}},
	{"", "sdk.ImageContent", "tools answer with text and data", []string{"tools-call-image", "tools-call-mixed-content"}},
	{"", "sdk.AudioContent", "tools answer with text and data", []string{"tools-call-audio"}},
	{"", "sdk.EmbeddedResource", "tools answer with text and data", []string{"tools-call-embedded-resource"}},
	{"", ".CloseSSEStream", "no tool ends its stream and has its client come back for the answer", []string{"server-sse-polling"}},
	{"", ".CreateMessage", "a client's model is never asked", []string{"tools-call-sampling"}},
	{"", ".Elicit", "nobody is asked anything in the middle of a call", []string{
		"tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"}},
}

// The server does what the protocol wants of a server, as far as it has what a scenario
// is about.
func TestConformanceSuite(t *testing.T) {
	f, sent := newFake(), make(chan string, 10000)
	f.listed = []string{crashing("a"), crashing("b"), crashing("c")}
	await := func(method string) {
		timeout := time.After(patience)
		for n := 0; n < 3; {
			select {
			case m := <-sent:
				if m == method {
					n++
				}
			case <-timeout:
				t.Errorf("%d of 3 %s were sent", n, method)
				return
			}
		}
	}
	d := &desk{work: func(context.Context) error { await("notifications/progress"); return nil }}
	cfg := quick(f)
	cfg.Investigator, cfg.Records, cfg.Limits.Progress = d, d, 10*time.Millisecond
	s, err := mcpserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	web := httptest.NewServer(s.WithFixtures(sent, func() { await("notifications/message") }))
	defer func() {
		web.CloseClientConnections() // its clients leave streams open
		web.Close()
	}()
	url := web.URL + mcpserver.Path
	mcpsuite.Server(t, url, notThere(t, connect(t, url, nil)))
}

// notThere are the scenarios of what is absent, each looked for: in what the server says
// of itself, and in its code.
func notThere(t *testing.T, c *client) mcpsuite.Absent {
	t.Helper()
	var code strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			code.Write(text)
		}
	}
	has := c.InitializeResult().Capabilities
	said := map[string]bool{"completions": has.Completions != nil, "resources": has.Resources != nil, "prompts": has.Prompts != nil}
	all := mcpsuite.Absent{}
	for _, f := range absent {
		if said[f.capability] || strings.Contains(code.String(), f.call) {
			t.Errorf("we have %s%s: its scenarios are to pass", f.capability, f.call)
		}
		for _, name := range f.scenarios {
			all[name] = f.why
		}
	}
	return all
}
