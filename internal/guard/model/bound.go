package model

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
)

// A budget needs to know the most tokens that a request can have before it is sent. A
// token is at least one byte, so the length of the request is such a bound, with
// something added for what the provider puts in front (a prompt that explains tools) and
// for pictures, whose tokens depend on their pixels. For text that is four times too
// much. So what a request shares with one that was answered before, at its beginning and
// at its end, counts as all the tokens that the answer reported: the history of an agent
// grows in the middle of the body, between the prompt and the tools. Where a shared part
// ends, a word may be cut that was whole before, so a little of it counts by bytes.
const (
	overhead    = 2048   // tokens that a provider adds
	imageTokens = 64_000 // of one picture, above the dearest kind
	seam        = 512    // bytes
	block       = 1024   // bytes; what two requests share is found in whole ones
	maxAnswered = 8      // requests that are compared with
)

// bounds remembers what answered requests were, as hashes of their blocks, and what
// they had. It is safe for concurrent use.
type bounds struct {
	seed maphash.Seed

	mu       sync.Mutex
	answered []answered // the latest last
}

// answered is a request that was answered.
type answered struct {
	kind   kind
	prints prints
	tokens int64
}

// kind is what two requests must have in common to be compared.
type kind struct{ path, model, uncounted string }

// prints are the hashes of a body's beginnings and ends, each a block longer than the
// one before.
type prints struct {
	size         int
	heads, tails []uint64
}

func newBounds() *bounds { return &bounds{seed: maphash.MakeSeed()} }

// of is the most tokens that a request has.
func (b *bounds) of(k kind, body []byte) int64 {
	most := int64(len(body))
	p := b.prints(body)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.answered {
		if a.kind == k {
			most = min(most, a.tokens+int64(p.apart(a.prints)))
		}
	}
	return most + overhead
}

// answer remembers what a request had.
func (b *bounds) answer(k kind, body []byte, tokens int64) {
	if tokens <= 0 {
		return
	}
	p := b.prints(body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = append(b.answered, answered{k, p, tokens})
	b.answered = b.answered[max(0, len(b.answered)-maxAnswered):]
}

func (b *bounds) prints(body []byte) prints {
	p := prints{size: len(body)}
	var head, tail maphash.Hash
	head.SetSeed(b.seed)
	tail.SetSeed(b.seed)
	for n := block; n <= len(body); n += block {
		_, _ = head.Write(body[n-block : n])
		_, _ = tail.Write(body[len(body)-n : len(body)-n+block])
		p.heads, p.tails = append(p.heads, head.Sum64()), append(p.tails, tail.Sum64())
	}
	return p
}

// apart is how many bytes of a body are not shared with another, and count by themselves.
func (p prints) apart(o prints) int {
	head, tail := block*alike(p.heads, o.heads), block*alike(p.tails, o.tails)
	shared := min(max(0, head-seam)+max(0, tail-seam), min(p.size, o.size))
	return p.size - shared
}

// alike is how many hashes two lists have in common from their beginning.
func alike(a, b []uint64) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// uncounted describes what a provider leaves out when it counts a request: tools that it
// loads later, thoughts that come before the last thing that somebody said, and all
// thoughts where thinking is off. Only requests of the same description are compared.
func uncounted(request map[string]any) string {
	var out strings.Builder
	tools, _ := request["tools"].([]any)
	for _, t := range tools {
		if tool, _ := t.(map[string]any); tool["defer_loading"] == true {
			fmt.Fprintf(&out, "%q ", tool["name"])
		}
	}
	thinking, _ := request["thinking"].(map[string]any)
	fmt.Fprintf(&out, "%d %q", lastSaid(request), thinking["type"])
	return out.String()
}

// lastSaid is the place of the last message in which somebody said something behind a
// thought of the model's, 0 for none.
func lastSaid(request map[string]any) int {
	last, thought := 0, false
	for _, field := range []string{"messages", "input", "contents"} {
		history, _ := request[field].([]any)
		for i, m := range history {
			message, _ := m.(map[string]any)
			has := kindsIn(message)
			thought = thought || has["thinking"] || has["redacted_thinking"] || has["reasoning"] || has["thoughtSignature"]
			if thought && message["role"] == "user" && !has["tool_result"] && !has["functionResponse"] {
				last = i
			}
		}
	}
	return last
}

// kindsIn are the types of a message and of its parts, and the names of those.
func kindsIn(message map[string]any) map[string]bool {
	kinds := map[string]bool{}
	add := func(v any) {
		if kind, ok := v.(string); ok {
			kinds[kind] = true
		}
	}
	add(message["type"])
	for _, field := range []string{"content", "parts"} {
		parts, _ := message[field].([]any)
		for _, p := range parts {
			part, _ := p.(map[string]any)
			add(part["type"])
			for name := range part {
				kinds[name] = true
			}
		}
	}
	return kinds
}
