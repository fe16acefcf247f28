package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/text"
)

// maxOffered bounds the tools that a server offers.
const maxOffered = 500

// Offer is one tool of a server, and what became of it.
type Offer struct {
	// Tool is what the server calls it, ShownAs what models call it.
	Tool    string `json:"tool"`
	ShownAs string `json:"shownAs,omitempty"`
	About   string `json:"about,omitempty"`
	// Hints are what the server says of it: read-only, writes, destructive; none when
	// it says nothing.
	Hints []string `json:"hints"`
	// Offered says that agents get it. Why says why they do not.
	Offered bool   `json:"offered"`
	Why     string `json:"why,omitempty"`

	schema *schema
	digest string
}

// listTools asks a server for all that it has. Names that are no names are left out.
func listTools(ctx context.Context, session *sdk.ClientSession) ([]*sdk.Tool, error) {
	var all []*sdk.Tool
	for cursor := ""; ; {
		page, err := session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			if t != nil {
				all = append(all, t)
			}
		}
		if len(all) > maxOffered || page.NextCursor == cursor && cursor != "" || page.NextCursor != "" && len(page.Tools) == 0 {
			return nil, nightcrier.Errorf(nightcrier.Exhausted, "its list of tools does not end, or has more than %d", maxOffered)
		}
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
}

// maxKept bounds, in bytes, what is read of a record for one question: more than any
// server is let say.
const maxKept = 4 * maxAnswer

// toolList is what a server has, which may come from a record that anybody wrote: a packed
// one of a few kilobytes holds more tools than there is memory for.
type toolList []*sdk.Tool

// UnmarshalJSON implements json.Unmarshaler.
func (l *toolList) UnmarshalJSON(b []byte) error {
	var each []json.RawMessage
	if len(b) > maxKept {
		return nightcrier.Errorf(nightcrier.Exhausted, "a list of tools of %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &each); err != nil {
		return err
	}
	if len(each) > maxOffered {
		return nightcrier.Errorf(nightcrier.Exhausted, "a list of more than %d tools", maxOffered)
	}
	*l = make(toolList, len(each))
	for i, raw := range each {
		if err := json.Unmarshal(raw, &(*l)[i]); err != nil {
			return err
		}
	}
	return nil
}

// judgeTools says which tools of a server agents get, and why not the others.
func judgeTools(s toolserver.Server, all []*sdk.Tool) []Offer {
	offers := make([]Offer, len(all))
	names, shown := map[string]int{}, map[string]int{}
	for i, t := range all {
		offers[i] = judgeTool(s, t)
		names[t.Name]++
		shown[offers[i].ShownAs]++
	}
	for i := range offers {
		o := &offers[i]
		switch {
		case names[all[i].Name] > 1:
			o.refuse("the server has two tools of this name")
		case shown[o.ShownAs] > 1:
			o.refuse("another tool of the server would be called " + o.ShownAs + " as well")
		}
	}
	slices.SortStableFunc(offers, func(a, b Offer) int { return strings.Compare(a.Tool, b.Tool) })
	return offers
}

func (o *Offer) refuse(why string) {
	if o.Offered {
		o.Offered, o.Why = false, why
	}
}

func judgeTool(s toolserver.Server, t *sdk.Tool) Offer {
	o := Offer{Tool: text.CutLine(text.MarkHidden(t.Name), toolserver.MaxToolName), ShownAs: shownName(s.Name, t.Name),
		About: cleanDescription(t.Description), Hints: hintsOf(t.Annotations), digest: definitionDigest(t), Offered: true}
	allowed, inFull := s.Allows(t.Name)
	switch {
	case o.Tool != t.Name || t.Name == "":
		o.refuse("its name is too long or holds characters that names do not have")
	case !allowed:
		o.refuse("tool_servers[].tools does not name it")
	case s.Writes: // the operator has named each in full, for skills
	case t.Annotations != nil && (!t.Annotations.ReadOnlyHint || t.Annotations.DestructiveHint != nil && *t.Annotations.DestructiveHint):
		o.refuse("it does not say of itself that it only reads, and investigations only read")
	case t.Annotations == nil && !inFull:
		o.refuse("it says nothing of whether it only reads: name it in full, not by a pattern, to vouch for it")
	}
	if !o.Offered {
		return o
	}
	var err error
	if o.schema, err = readSchema(t.InputSchema); err != nil {
		o.refuse(text.CutLine(err.Error(), 300))
	}
	return o
}

func hintsOf(a *sdk.ToolAnnotations) []string {
	said := []string{}
	if a == nil {
		return said
	}
	if said = append(said, "writes"); a.ReadOnlyHint {
		said[0] = "read-only"
	}
	if a.DestructiveHint != nil && *a.DestructiveHint {
		said = append(said, "destructive")
	}
	if a.OpenWorldHint != nil && *a.OpenWorldHint {
		said = append(said, "open-world")
	}
	return said
}

// definitionDigest is the digest of all that a model or we go by.
func definitionDigest(t *sdk.Tool) string { return pinOf(t).Digest }

// pinOf is a tool as it is now.
func pinOf(t *sdk.Tool) toolserver.Pin {
	b, err := json.Marshal(map[string]any{"name": t.Name, "title": t.Title, "description": t.Description, "inputSchema": t.InputSchema, "annotations": t.Annotations})
	if err != nil {
		return toolserver.Pin{}
	}
	return toolserver.Pin{Digest: text.DigestOf(b), Definition: b}
}

// pinsOf are all tools of a server as they are now. Of two with one name, none is pinned.
func pinsOf(all []*sdk.Tool) map[string]toolserver.Pin {
	pins, twice := map[string]toolserver.Pin{}, map[string]bool{}
	for _, t := range all {
		_, is := pins[t.Name]
		twice[t.Name] = is
		pins[t.Name] = pinOf(t)
	}
	for name, is := range twice {
		if is {
			delete(pins, name)
		}
	}
	return pins
}

// refuseUnpinned refuses the tools that are not what was accepted.
func refuseUnpinned(offers []Offer, server string, differs map[string]string) {
	for i := range offers {
		if how := differs[offers[i].Tool]; how != "" {
			offers[i].refuse("it " + how + " since the server was accepted: nightcrier tools diff " + server + " shows it, nightcrier tools accept " + server + " takes it")
		}
	}
}

// lookName is the name of the sandboxes of commands that are only asked what they offer.
const lookName = "look"

// Look asks a server what it offers, and says what of it agents would get. No run stands
// behind it: of the Options it takes Variables, Dir, Unconfined, Mask, MaskLog, Note and Pins.
func Look(ctx context.Context, s toolserver.Server, o Options) ([]Offer, error) {
	o = o.complete()
	o.SandboxName, o.SandboxOwner = lookName, process.OwnerOf(o.Dir)
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	session, way, err := dialServer(ctx, s, o, func(string) {}, func() {})
	if err != nil {
		err = plainError(s, err)
		return nil, nightcrier.Errorf(nightcrier.CodeOf(err), "%s", o.Mask([]byte(err.Error()))) // a command may repeat what it was given
	}
	defer way.endSession(session, s, o.Note)
	all, err := listTools(ctx, session)
	if err != nil {
		return nil, plainError(s, err)
	}
	offers := judgeTools(s, all)
	if o.Pins != nil {
		differs, err := o.Pins(s.Name, pinsOf(all))
		if err != nil {
			return nil, err
		}
		refuseUnpinned(offers, s.Name, differs)
	}
	return offers, nil
}

// plainError is an error of a server in few words: what it said is its own text.
func plainError(s toolserver.Server, err error) error {
	code := nightcrier.CodeOf(err)
	if code == "" || code == nightcrier.Internal {
		code = nightcrier.Unreachable
	}
	return nightcrier.Errorf(code, "tool server %s: %s", s.Name, text.CutLine(err.Error(), 600))
}

// Offered is what a configured MCP server has, and what of it agents get.
type Offered struct {
	Server string  `json:"server"`
	Tools  []Offer `json:"tools"`
	// Notes are what an investigation would note of how it is started.
	Notes []string `json:"notes,omitempty"`
	// Error says why it could not be asked.
	Error string `json:"error,omitempty"`
}
