package model

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// The most tokens that a request can have, before it is sent. A token stands for one
// byte at least, so a request's bytes are a bound, four times too high for text. But a
// conversation grows at its end, and what a provider counted of the last request is in the
// answer to it. So where a request begins with all of an answered one, it has at most what
// that one had, and a token for each byte that is new.
//
// To begin with it is to have the same in every setting and field but a few, as the prompt,
// which are new where they differ; and a history whose first messages are, as they are
// written, all of the other's. What a provider leaves out of a history, as old thoughts, it
// leaves out for what stands behind it, and all of that is still there.
const (
	overhead     = 2048   // tokens that a provider adds, for example to explain tools
	toolTokens   = 1024   // of one tool that the provider explains itself
	imageTokens  = 64_000 // of one picture, above the dearest kind
	maxAnswered  = 8      // requests that are remembered: an agent has several conversations
	bytesOfToken = 8      // no answer is believed to have fewer tokens than one in so many bytes
)

// bounds remembers what answered requests had. It is safe for concurrent use.
type bounds struct {
	seed maphash.Seed

	mu       sync.Mutex
	answered []answered // the latest last
}

// answered is a request that was answered.
type answered struct {
	alike
	apart   []uint64
	history uint64 // all of it
	pieces  int    // of the history
	tokens  int64
}

// alike is what requests have in common that are compared.
type alike struct {
	path, model, settings string
	rest                  uint64 // stands for all fields that are not apart, and not the history
}

// outline is what of a request is compared. Only hashes of it are kept.
type outline struct {
	alike
	apart   []piece // the fields that may differ
	history []piece
	// wrapBytes are what is no part of the hashes, as clients write it in one turn and not in
	// the next. They count as new wherever they stand, so it does not matter what they are.
	wrapBytes int
}

// piece is a message or an item of a history, or a field.
type piece struct {
	hash  uint64 // of a history, stands for all of it up to here
	bytes int
}

func newBounds() *bounds { return &bounds{seed: maphash.MakeSeed()} }

func (b *bounds) outlineOf(of alike, c *apiCall, d *document) outline {
	var rest, history maphash.Hash
	rest.SetSeed(b.seed)
	history.SetSeed(b.seed)
	o := outline{alike: of, apart: make([]piece, len(c.apartFields))}
	for _, m := range d.root.inner {
		name := plainName(m.name)
		if i := slices.Index(c.apartFields, name); i >= 0 {
			var h maphash.Hash
			h.SetSeed(b.seed)
			o.hashValue(&h, d.body, m)
			o.apart[i] = piece{h.Sum64(), m.size()}
			continue
		}
		if name != c.historyField {
			_, _ = rest.Write(d.body[m.named.from:m.named.to])
			o.hashValue(&rest, d.body, m)
			continue
		}
		pieces := []value{m}
		if m.kind == isList {
			pieces = m.inner
		}
		for _, p := range pieces {
			o.hashValue(&history, d.body, p)
			o.history = append(o.history, piece{history.Sum64(), p.size() + 1})
		}
	}
	o.rest = rest.Sum64()
	return o
}

// hashValue adds a value as it is written to a hash, but for the space between its parts, the
// marks of what a provider shall keep, which a client moves on with each turn, and what makes
// a list of a text that is marked. The kinds of values are bytes that stand in no JSON.
func (o *outline) hashValue(h *maphash.Hash, body []byte, v value) {
	if text, alone := v.findOnlyText(); alone && v.name == "content" {
		o.wrapBytes += v.size() - text.size()
		v = text
	}
	_ = h.WriteByte(byte(v.kind))
	if v.kind != isList && v.kind != isObject {
		_, _ = h.Write(body[v.from:v.to])
		return
	}
	for _, e := range v.inner {
		if e.name == markName {
			o.wrapBytes += e.to - e.named.from + 1
			continue
		}
		_, _ = h.Write(body[e.named.from:e.named.to])
		o.hashValue(h, body, e)
	}
	_ = h.WriteByte(byte(isAbsent)) // its end
}

// markName is the member that says that a provider shall keep what stands before it.
const markName = "cache_control"

// findOnlyText is the text that is all that a list of parts says, and whether there is one.
func (v value) findOnlyText() (text value, alone bool) {
	if v.kind != isList || len(v.inner) != 1 || v.inner[0].kind != isObject {
		return value{}, false
	}
	part := v.inner[0]
	for _, m := range part.inner {
		if m.name != "type" && m.name != "text" && m.name != markName {
			return value{}, false
		}
	}
	text = part.findMember("text")
	return text, text.kind == isText && part.findMember("type").text == "text"
}

// mostTokens is the most tokens that a request has.
func (b *bounds) mostTokens(a *admittedCall) int64 {
	most := int64(len(a.body))
	b.mu.Lock()
	for _, last := range b.answered {
		if tokens, goesOn := a.tokensAfter(last); goesOn {
			most = min(most, tokens)
		}
	}
	b.mu.Unlock()
	return most + overhead + imageTokens*int64(a.pictures) + toolTokens*int64(a.explained) + int64(a.references)*int64(a.largestTool) + int64(a.grown)
}

// tokensAfter is the most tokens that a request has which goes on from an answered one, and
// whether it does.
func (a *admittedCall) tokensAfter(last answered) (tokens int64, goesOn bool) {
	if a.standsAlone() || a.alike != last.alike || last.pieces > len(a.history) || a.history[last.pieces-1].hash != last.history {
		return 0, false
	}
	tokens = last.tokens + int64(a.wrapBytes)
	for i, p := range a.apart {
		if p.hash != last.apart[i] {
			tokens += int64(p.bytes)
		}
	}
	for _, p := range a.history[last.pieces:] {
		tokens += int64(p.bytes)
	}
	return tokens, true
}

// rememberAnswer remembers what a request had. It had no less than what it goes on from: an
// answer that says so counts in another way, for example without what was cached. An answered
// one that it proves to have had more than was said is forgotten.
func (b *bounds) rememberAnswer(a *admittedCall, said price.Tokens) {
	pieces := len(a.history)
	if pieces == 0 || said.Request() <= 0 || a.standsAlone() || a.leavesOut {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	tokens := max(said.Request(), int64(len(a.body)/bytesOfToken))
	b.answered = slices.DeleteFunc(b.answered, func(last answered) bool {
		most, goesOn := a.tokensAfter(last)
		if goesOn {
			tokens = max(tokens, last.tokens)
		}
		return goesOn && most < said.Request()
	})
	last := answered{alike: a.alike, history: a.history[pieces-1].hash, pieces: pieces, tokens: tokens}
	for _, p := range a.apart {
		last.apart = append(last.apart, p.hash)
	}
	b.answered = append(b.answered, last)
	b.answered = b.answered[max(0, len(b.answered)-maxAnswered):]
}

// weight is what a request costs that its length does not tell. It is read from what values
// say: in the bytes a word can be spelled in many ways.
type weight struct {
	pictures  int
	explained int // tools that the provider explains to the model by itself
	// references are what may stand for a tool, each for all of the largest; deferred says that
	// a tool is told of only when something refers to it.
	references, largestTool int
	deferred                bool
	hour                    bool // something may stay in the provider's cache for an hour, which costs more
	// leavesOut says that the provider leaves out of the history what it likes, so that its
	// count is not of all that was sent.
	leavesOut bool
	grown     int // bytes that texts have more as some providers read them
}

// standsAlone reports that a request is compared with none: of what is in it the bytes tell nothing.
func (w *weight) standsAlone() bool { return w.pictures > 0 || w.references > 0 || w.deferred }

func (g *Guard) weighRequest(request value) weight {
	w := weight{leavesOut: g.dialect.leavesOut(request)}
	w.addValue(&g.facts, request, "")
	return w
}

func (w *weight) addValue(f *facts, v value, within string) {
	if v.name == "definition" || within == "tools" {
		w.largestTool = max(w.largestTool, v.size())
	}
	switch strings.ToLower(v.name) {
	case "ttl":
		w.hour = w.hour || v.text != "5m"
	case "defer_loading":
		w.deferred = w.deferred || v.kind > isNull && v.kind != isFalse
	}
	w.grown += countGrowth(v.name, v.named.size())
	if v.kind == isText {
		w.addText(f, v)
	}
	for _, e := range v.inner {
		w.addValue(f, e, v.name)
	}
}

func (w *weight) addText(f *facts, v value) {
	w.grown += countGrowth(v.text, v.size())
	switch start := strings.ToLower(v.text[:min(len(v.text), len("data:image/"))]); {
	case strings.HasPrefix(start, "image/"), start == "data:image/": // each API says so of a picture, in one of these ways
		w.pictures++
	case v.name == "type" && slices.Contains(f.references, v.text):
		w.references++
	case v.name == "type" && f.isExplained(v.text):
		w.explained++
	}
}

// isExplained reports whether a type is of tools that the provider explains by itself.
func (f *facts) isExplained(kind string) bool {
	return slices.ContainsFunc(f.explained, func(t string) bool {
		return kind == t || strings.HasSuffix(t, "_") && strings.HasPrefix(kind, t)
	})
}

// countGrowth is how many bytes a text has more than where it stands, as those providers read it
// who write compatible letters alike: one of three bytes can become eighteen letters.
func countGrowth(text string, bytes int) int {
	if norm.NFKC.IsNormalString(text) {
		return 0
	}
	return max(0, len(norm.NFKC.String(text))-bytes)
}
