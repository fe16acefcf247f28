// Package mcp lets agents use the tools of MCP servers that are not ours, behind
// the run's own endpoint.
//
// Such a server is a stranger: what it says of its tools, what they return and what
// it asks of us is hostile until it was bounded. So an operator names each tool that
// may be used, and a tool that says that it changes things is not used even then.
// What a tool is called, what it says of itself and what arguments it takes is fixed
// when the run begins; one that changes later is refused. Arguments are held against
// its schema before they leave, results are masked, kept whole as evidence and
// shortened for the model. Nothing that a server asks of its client is granted: no
// sampling, no questions to people, no directories.
//
// Agents reach our endpoint alone. The servers' addresses and tokens stay here.
package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
	"nightcrier.dev/nightcrier/internal/text"
)

// Options are what one run gives its servers.
type Options struct {
	// Variables are the values of the environment variables that servers name.
	Variables map[string]string
	// SandboxName begins the names of the commands' sandboxes, which belong to SandboxOwner.
	SandboxName, SandboxOwner string
	// Dir is where commands get their homes, for as long as they run.
	Dir string
	// Unconfined starts commands without confinement: a choice that is said aloud.
	Unconfined bool
	// Mask hides secrets; JSON stays JSON.
	Mask func([]byte) []byte
	// MaskLog hides them in lines that may be a part of a log, as results often are; nil is
	// Mask.
	MaskLog func([]byte) []byte
	// Record keeps a result as evidence and returns its id.
	Record func(kind, source string, body []byte) (id string, err error)
	// Journal is told of every call, before it is made and after. When the first is
	// an error, the call is not made; when the second is, its result is not shown.
	Journal func(Call) error
	// Note is told what people should know: that a server failed, that a tool changed.
	Note func(text string)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Pins says of the tools of a server which are not what was accepted, and how; nil takes
	// them as they are.
	Pins func(server string, offered map[string]toolserver.Pin) (map[string]string, error)
	// Take is how servers are asked what they have and what their tools answer; nil is
	// tape.Live.
	Take tape.Take
}

func (o Options) complete() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Take == nil {
		o.Take = tape.Live
	}
	if o.MaskLog == nil {
		o.MaskLog = o.Mask
	}
	return o
}

// Call is one call of a tool of a server: what was decided and, once Done, what came
// of it.
type Call struct {
	// Tool is what the model called it, Command that with its arguments, on one line.
	Tool, Command string
	// Denied is why it was refused, "" when it was not.
	Denied string
	Done   bool
	// Evidence, Bytes and SHA256 are those of the result that was kept.
	Evidence string
	Bytes    int
	SHA256   string
}

// Servers are the sessions of one run. It is a tools.Source.
type Servers struct {
	all   []*session
	tools []tools.Tool
}

// Open begins a session with every server, all at once, and fixes what they offer.
// One that fails is told of and left out: the run goes on without its tools.
func Open(ctx context.Context, servers []toolserver.Server, o Options) *Servers {
	o = o.complete()
	s := &Servers{all: make([]*session, len(servers))}
	var wait sync.WaitGroup
	for i, server := range servers {
		wait.Go(func() { s.all[i] = beginSession(ctx, server, o) })
	}
	wait.Wait()
	for _, one := range s.all {
		s.tools = append(s.tools, one.offeredTools()...)
	}
	return s
}

// Absent lists the servers that failed at the start, and why.
func (s *Servers) Absent() []nightcrier.NotChecked {
	var all []nightcrier.NotChecked
	for _, one := range s.all {
		if one.absent != "" {
			all = append(all, nightcrier.NotChecked{What: "what the tool server " + one.server.Name + " tells", Why: one.absent})
		}
	}
	return all
}

// Tools implements tools.Source.
func (s *Servers) Tools() []tools.Tool { return s.tools }

// Close implements tools.Source: the sessions end, and the commands with all that
// they started.
func (s *Servers) Close() error {
	var wait sync.WaitGroup
	for _, one := range s.all {
		wait.Go(one.close)
	}
	wait.Wait()
	return nil
}

// session is one server in one run.
type session struct {
	server toolserver.Server
	o      Options
	client *sdk.ClientSession // nil when it failed
	way    *way
	offers []Offer
	absent string // why it failed; "" when it did not

	changed atomic.Bool // the server says that its tools are others now
	asked   sync.Once   // it asked for what it is not granted
	mu      sync.Mutex
	looked  time.Time         // when its tools were last looked at
	refused map[string]string // tools that changed, and how
}

func beginSession(ctx context.Context, server toolserver.Server, o Options) *session {
	s := &session{server: server, o: o, refused: map[string]string{}}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var all toolList
	err := o.Take(fmt.Sprintf("%q %q", "tools", server.Name), &all, func() (err error) {
		if all, err = s.connectServer(ctx); err != nil {
			err = plainError(server, err)
		}
		return err
	})
	if err != nil {
		return s.leaveOut(err)
	}
	all = slices.DeleteFunc(all, func(t *sdk.Tool) bool { return t == nil })
	var differs map[string]string
	if o.Pins != nil && server.Reachable() {
		if differs, err = o.Pins(server.Name, pinsOf(all)); err != nil {
			return s.leaveOut(err)
		}
	}
	s.offerTools(all, differs)
	return s
}

// leaveOut ends a session that cannot be used.
func (s *session) leaveOut(err error) *session {
	s.close()
	s.client = nil
	s.absent = string(s.o.Mask([]byte(err.Error())))
	s.o.Note(s.absent + "; the agent works without its tools")
	return s
}

// connectServer begins the session, and returns what the server has.
func (s *session) connectServer(ctx context.Context) (all []*sdk.Tool, err error) {
	s.client, s.way, err = dialServer(ctx, s.server, s.o, s.noteServerRequest, func() { s.changed.Store(true) })
	if err != nil {
		return nil, err
	}
	all, err = listTools(ctx, s.client)
	s.looked = s.o.Now()
	return all, err
}

// offerTools fixes what agents get of it.
func (s *session) offerTools(all []*sdk.Tool, differs map[string]string) {
	s.offers = judgeTools(s.server, all[:min(len(all), 2*maxOffered)])
	refuseUnpinned(s.offers, s.server.Name, differs)
	named := false
	for _, o := range s.offers {
		allowed, _ := s.server.Allows(o.Tool)
		if named = named || allowed; allowed && !o.Offered {
			s.o.Note(fmt.Sprintf("tool %s of server %s is not offered: %s", o.Tool, s.server.Name, o.Why))
		}
	}
	if !named {
		s.o.Note(fmt.Sprintf("server %s has none of the tools that tool_servers[].tools names", s.server.Name))
	}
}

// noteServerRequest tells of a server that asks for what belongs to its client.
func (s *session) noteServerRequest(method string) {
	s.asked.Do(func() {
		s.o.Note(fmt.Sprintf("tool server %s asks for %s, which is refused; no more of it is recorded", s.server.Name, method))
	})
}

func (s *session) close() {
	if s.client == nil {
		return
	}
	s.way.endSession(s.client, s.server, s.o.Note)
}

func (s *session) offeredTools() (all []tools.Tool) {
	for _, o := range s.offers {
		if !o.Offered {
			continue
		}
		text := fmt.Sprintf("Asks the server %q, which is not Nightcrier's: look for what it tells in the cluster too, a fact that cites this alone counts as not seen. What it says of this tool: %s", s.server.Name, o.About)
		if s.server.Writes {
			text = fmt.Sprintf("Asks the server %q, which may change something. What it says of this tool: %s", s.server.Name, o.About)
		}
		all = append(all, tools.Tool{Name: o.ShownAs, Title: s.server.Name + ": " + o.Tool, About: text, Schema: o.schema.shown, Open: true, Writes: s.server.Writes && !slices.Contains(o.Hints, "read-only"),
			Call: func(ctx context.Context, raw json.RawMessage) (string, error) { return s.callTool(ctx, o, raw) }})
	}
	return all
}

// callTool makes one call, on record before and after.
func (s *session) callTool(ctx context.Context, o Offer, raw json.RawMessage) (string, error) {
	c := Call{Tool: o.ShownAs, Command: s.commandLine(o, raw)}
	args, err := o.schema.readArguments(s.o.Mask(raw))
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s: %w", o.ShownAs, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	asked, err := json.Marshal(args)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s: %w", o.ShownAs, err)
	}
	journal := sync.OnceValue(func() error { return s.o.Journal(c) })
	var got answer
	err = s.o.Take(fmt.Sprintf("%q %q", o.ShownAs, asked), &got, func() (err error) {
		if err = s.checkUnchanged(ctx, o); err == nil {
			err = journal()
		}
		if err == nil {
			got = s.askServer(ctx, o, args)
		}
		return err
	})
	if nightcrier.CodeOf(err) == nightcrier.Refused {
		c.Denied = err.Error()
		_ = s.o.Journal(c) // it is refused in any case
	}
	if err != nil {
		return "", err
	}
	if len(got.Text) > maxKept {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s: what was kept of its answer is longer than any answer", o.ShownAs)
	}
	if err := journal(); err != nil { // where the answer is a recorded one, and askServer was not called
		return "", err
	}
	return s.recordAnswer(c, got)
}

// answer is what came of a call, as it stands on a tape: what the tool says, also where
// it says that it failed, or why it says nothing. An error of ours is none.
type answer struct {
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// askServer makes the call. What comes back is masked.
func (s *session) askServer(ctx context.Context, o Offer, args map[string]any) answer {
	res, err := s.client.CallTool(ctx, &sdk.CallToolParams{Name: o.Tool, Arguments: args})
	if err != nil {
		res = &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: s.failureText(ctx, err)}}}
	}
	return answer{Text: s.masked(renderResult(res)), Failed: res.IsError || res.NeedsInput()}
}

// masked is a result without secrets: JSON stays JSON, and what else has several lines may
// be a part of a log.
func (s *session) masked(result string) string {
	if !json.Valid([]byte(result)) && strings.Contains(strings.TrimSpace(result), "\n") {
		return string(s.o.MaskLog([]byte(result)))
	}
	return string(s.o.Mask([]byte(result)))
}

// ofText is a mask of bytes as one of texts.
func ofText(mask func([]byte) []byte) func(string) string {
	return func(s string) string { return string(mask([]byte(s))) }
}

// commandLine is a call on one line, as people read it.
func (s *session) commandLine(o Offer, raw json.RawMessage) string {
	return text.CutLine(text.MaskClean(o.ShownAs+" "+string(raw), ofText(s.o.Mask), text.MarkHidden), 512)
}

// failureText says why there was no answer.
func (s *session) failureText(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return fmt.Sprintf("tool server %s did not answer within %s", s.server.Name, s.server.Timeout)
	}
	return plainError(s.server, err).Error()
}

// recordAnswer records an answer whole, and returns what the model is shown of it, as an error
// where the tool failed.
func (s *session) recordAnswer(c Call, got answer) (string, error) {
	whole := text.MaskClean(got.Text, ofText(s.o.Mask), text.MarkHidden) // again: it may come from a record
	id, err := s.o.Record(toolserver.Kind, c.Command, []byte(whole))
	if err != nil {
		return "", err
	}
	c.Done, c.Evidence, c.Bytes, c.SHA256 = true, id, len(whole), text.DigestOf([]byte(whole))
	if err := s.o.Journal(c); err != nil {
		return "", err
	}
	shown := fmt.Sprintf("%s\n[evidence %s]\n", strings.TrimRight(tools.Shorten(whole, id), "\n"), id)
	if got.Failed {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s", shown)
	}
	return shown, nil
}

// again is how long what a server offers is believed to be what it was.
const again = 10 * time.Second

// checkUnchanged refuses a tool that is not what it was when the run began.
func (s *session) checkUnchanged(ctx context.Context, o Offer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed.Swap(false) || s.o.Now().Sub(s.looked) >= again {
		all, err := listTools(ctx, s.client)
		if err != nil {
			s.changed.Store(true) // it was not seen
			return nightcrier.Errorf(nightcrier.Unreachable, "%s", s.failureText(ctx, err))
		}
		s.looked = s.o.Now()
		s.compareTools(all)
	}
	if how := s.refused[o.Tool]; how != "" {
		return nightcrier.Errorf(nightcrier.Refused, "%s %s since this run began, so it is not used any more", o.ShownAs, how)
	}
	return nil
}

// compareTools finds the tools that are not what they were. They stay refused.
func (s *session) compareTools(all []*sdk.Tool) {
	now := map[string]string{}
	for _, t := range all {
		if now[t.Name] != "" {
			now[t.Name] = "two"
			continue
		}
		now[t.Name] = definitionDigest(t)
	}
	for _, o := range s.offers {
		if !o.Offered || s.refused[o.Tool] != "" || now[o.Tool] == o.digest {
			continue
		}
		how := "was changed by its server"
		if now[o.Tool] == "" {
			how = "was taken away by its server"
		}
		s.refused[o.Tool] = how
		s.o.Note(fmt.Sprintf("tool %s of server %s %s in the middle of the run; it is refused from now on", o.Tool, s.server.Name, how))
	}
}
