package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// The most tokens that a request can have, before it is sent. A token stands for one
// byte at least, so its length is a bound, with something for what the provider puts in
// front (a prompt that explains tools), for tools that it explains itself, and for
// pictures, which cost by their size in points.
//
// It is a bound four times too high for text. So what a request says anew is counted by
// its bytes, and what an answered one began with as what that answer said of its whole
// request. That is right only for what counts the same in both:
//
//   - everything but the prompt and the history is the same, the tools, the choice among
//     them, headers and all fields that are no text for the model;
//   - the prompts, and the histories, begin with the same pieces, compared one by one;
//   - of histories that part before the answered one's end, only what people and tools
//     said: of the model's own words providers leave out thoughts, by what comes behind;
//   - neither holds anything of which the bytes tell nothing, as pictures, or anything of
//     a kind that is not known. Those requests are never compared.
const (
	overhead    = 2048   // tokens that a provider adds
	toolTokens  = 1024   // of one tool that the provider explains itself
	imageTokens = 64_000 // of one picture, above the dearest kind
	maxAnswered = 8      // requests that are compared with
)

// bounds remembers what answered requests were, as hashes of their pieces, and what
// they had. It is safe for concurrent use.
type bounds struct {
	seed maphash.Seed

	mu       sync.Mutex
	answered []answered // the latest last
}

// answered is a request that was answered.
type answered struct {
	kind   kind
	shape  shape
	tokens int64
}

// kind is what requests have in common that are compared.
type kind struct {
	path, model string
	// rest is what decides how a request is counted, beside its prompt and history.
	rest string
	// alone is set for a request that is compared with none.
	alone bool
	// references is how often it refers to one of its tools, each time as if it stood
	// there.
	references int
}

// restOf stands for all fields of a request but its prompt and history.
func restOf(request map[string]any) string {
	rest := map[string]any{}
	for name, v := range request {
		if !slices.Contains(compared[:], plainName(name)) {
			rest[name] = v
		}
	}
	text, err := json.Marshal(rest)
	if err != nil { // what was read from JSON can be written
		return ""
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// compared are the names of the fields of a shape, in plain names: three APIs' histories,
// and their prompts.
var compared = [...]string{"messages", "input", "contents", "system", "instructions", "systeminstruction"}

const histories = 3 // how many of them are histories

func newBounds() *bounds { return &bounds{seed: maphash.MakeSeed()} }

// mostTokens is the most tokens that a request has.
func (b *bounds) mostTokens(k kind, body []byte) int64 {
	s := b.shapeOf(body)
	most := int64(len(body)) + int64(k.references)*int64(s.tool)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.answered {
		if a.kind == k && !k.alone {
			most = min(most, a.tokens+int64(s.bytesApart(a.shape)))
		}
	}
	return most + overhead
}

// rememberAnswer remembers what a request had.
func (b *bounds) rememberAnswer(k kind, body []byte, tokens int64) {
	if tokens <= 0 || k.alone {
		return
	}
	s := b.shapeOf(body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = append(b.answered, answered{k, s, tokens})
	b.answered = b.answered[max(0, len(b.answered)-maxAnswered):]
}

// shape is a request in pieces.
type shape struct {
	fields [len(compared)][]piece
	tool   int // bytes of the largest
}

// piece is a message, an item or a block of a prompt.
type piece struct {
	hash uint64
	size int  // in bytes
	said bool // by people or tools, in plain text
}

// bytesApart is how many bytes of a request are to be counted beside what another one of its
// kind had: all other fields are the same.
func (s shape) bytesApart(o shape) (bytes int) {
	for i, pieces := range s.fields {
		same := 0
		for same < min(len(pieces), len(o.fields[i])) && pieces[same].hash == o.fields[i][same].hash {
			same++
		}
		whole := i >= histories || same == len(o.fields[i])
		for n, p := range pieces {
			if n >= same || !whole && !p.said {
				bytes += p.size + 1
			}
		}
	}
	return bytes
}

func (b *bounds) shapeOf(body []byte) (s shape) {
	eachItem(body, func(name, value []byte) {
		if plain := plainName(string(name)); plain == "tools" && value[0] == '[' {
			eachItem(value, func(_, tool []byte) { s.tool = max(s.tool, len(tool)) })
		} else if i := slices.Index(compared[:], plain); i >= 0 && value[0] == '[' {
			eachItem(value, func(_, v []byte) { s.fields[i] = append(s.fields[i], b.pieceOf(v)) })
		} else if i >= 0 {
			s.fields[i] = append(s.fields[i], b.pieceOf(value))
		}
	})
	return s
}

// What a piece may hold for it to be known that it is text of somebody else than the
// model.
var (
	saidNames = []string{"role", "type", "content", "parts", "output", "id", "name", "tool_call_id", "call_id", "status"}
	partNames = []string{"type", "text", "tool_use_id", "content", "is_error", "functionResponse"}
	sayers    = []string{`"user"`, `"tool"`, `"system"`, `"developer"`}
	outputs   = []string{`"function_call_output"`, `"custom_tool_call_output"`}
	partTypes = []string{`"text"`, `"input_text"`, `"tool_result"`}
)

// pieceOf reads a message, an item or a block, but for the marks of what a provider shall
// keep: a client moves them on with each turn.
func (b *bounds) pieceOf(text []byte) piece {
	var h maphash.Hash
	h.SetSeed(b.seed)
	if text[0] != '{' {
		_, _ = h.Write(text)
		return piece{hash: h.Sum64(), size: len(text)}
	}
	said, plain := false, true
	eachItem(text, func(name, value []byte) {
		if isCacheMark(name, value) {
			return
		}
		plain = plain && slices.Contains(saidNames, string(name))
		switch string(name) {
		case "role":
			said = said || slices.Contains(sayers, string(value))
			plain = plain && slices.Contains(sayers, string(value))
		case "type":
			said = said || slices.Contains(outputs, string(value))
			plain = plain && (string(value) == `"message"` || slices.Contains(outputs, string(value)))
		}
		writeToHash(&h, name, '=')
		if value[0] != '[' {
			writeToHash(&h, value, 0)
			return
		}
		eachItem(value, func(_, part []byte) { plain = writePart(&h, part) && plain })
		writeToHash(&h, nil, 1)
	})
	return piece{hash: h.Sum64(), size: len(text), said: said && plain}
}

// writePart adds a part to a hash, and reports whether it is plain text.
func writePart(h *maphash.Hash, part []byte) bool {
	if part[0] != '{' {
		writeToHash(h, part, 2)
		return false
	}
	plain := true
	eachItem(part, func(name, value []byte) {
		if isCacheMark(name, value) {
			return
		}
		plain = plain && slices.Contains(partNames, string(name)) && (string(name) != "type" || slices.Contains(partTypes, string(value)))
		writeToHash(h, name, '=')
		writeToHash(h, value, 0)
	})
	writeToHash(h, nil, 3)
	return plain
}

// writeToHash adds a text to a hash, and behind it a byte that stands in no JSON.
func writeToHash(h *maphash.Hash, text []byte, end byte) {
	_, _ = h.Write(text)
	_ = h.WriteByte(end)
}

// isCacheMark reports whether a member says that the provider shall keep what stands before it.
// It is never text for the model; one that is longer than any is taken for what it may be.
func isCacheMark(name, value []byte) bool {
	return string(name) == "cache_control" && len(value) <= 64
}

// eachItem calls f for each member of an object, or each element of a list, as they are
// written. Only names are decoded. The text is known to be JSON.
func eachItem(text []byte, f func(name, value []byte)) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return
	}
	for at := 1; ; {
		at = skipSeparators(text, at)
		if at >= len(text)-1 {
			return
		}
		var name []byte
		if text[0] == '{' {
			end := stringEnd(text, at)
			name = nameOf(text[at:end])
			if at = skipSeparators(text, end); at >= len(text) {
				return
			}
		}
		end := valueEnd(text, at)
		if end <= at {
			return
		}
		f(name, text[at:end])
		at = end
	}
}

// skipSeparators skips what stands between values.
func skipSeparators(text []byte, at int) int {
	for at < len(text) && strings.IndexByte(" \t\r\n,:", text[at]) >= 0 {
		at++
	}
	return at
}

func nameOf(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 && len(quoted) >= 2 {
		return quoted[1 : len(quoted)-1]
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // it was read before
	return []byte(name)
}

func stringEnd(text []byte, at int) int {
	for at++; at < len(text) && text[at] != '"'; at++ {
		if text[at] == '\\' {
			at++
		}
	}
	return min(at+1, len(text))
}

// valueEnd is the end of the value that begins at text[at].
func valueEnd(text []byte, at int) int {
	for depth := 0; at < len(text); {
		switch c := text[at]; c {
		case '"':
			at = stringEnd(text, at)
			if depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return at
			}
			if depth == 0 {
				return at + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return at
}
