package model

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// leastKey is the length in bytes from which on a key is looked for in answers. Shorter
// ones are words for servers that ask for no key, and an answer may have such a word.
const leastKey = 16

// hideKey keeps an answer from repeating the key to the agent, as gateways do that refuse
// it. As many stars take its place as it has bytes.
func (g *Guard) hideKey(resp *http.Response) {
	if len(g.cfg.Key) < leastKey {
		return
	}
	stars := strings.Repeat("*", len(g.cfg.Key))
	for _, values := range resp.Header {
		for i, v := range values {
			values[i] = strings.ReplaceAll(v, g.cfg.Key, stars)
		}
	}
	resp.Body = &withoutKey{ReadCloser: resp.Body, key: []byte(g.cfg.Key), stars: []byte(stars)}
}

// withoutKey is a body without the key. Bytes that may be its beginning are held until
// more has come; all others are handed on at once.
type withoutKey struct {
	io.ReadCloser
	key, stars []byte
	held       []byte // was read, and not handed on
	ready      int    // so many bytes of held may go
	err        error  // of the last read
}

// Read implements io.Reader.
func (b *withoutKey) Read(p []byte) (int, error) {
	for b.ready == 0 && b.err == nil && len(p) > 0 {
		n, err := b.ReadCloser.Read(p)
		b.held, b.err = bytes.ReplaceAll(append(b.held, p[:n]...), b.key, b.stars), err
		b.ready = len(b.held)
		if err == nil {
			b.ready -= keyBytesAtEnd(b.held, b.key)
		}
	}
	if b.ready == 0 {
		return 0, b.err
	}
	n := copy(p, b.held[:b.ready])
	b.held, b.ready = b.held[n:], b.ready-n
	return n, nil
}

// keyBytesAtEnd is how many bytes at the end of text are the beginning of key.
func keyBytesAtEnd(text, key []byte) int {
	for n := min(len(text), len(key)-1); n > 0; n-- {
		if bytes.HasSuffix(text, key[:n]) {
			return n
		}
	}
	return 0
}
