package model

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier"
)

// meter adds up what the answers say they cost.
type meter struct {
	mu    sync.Mutex
	usage nightcrier.Usage
}

func (m *meter) total() nightcrier.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage
}

func (m *meter) add(t tokens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage.APIRequests++
	m.usage.InputTokens += t.input()
	m.usage.OutputTokens += t.Output
}

// tokens is the usage object of the Messages API.
type tokens struct {
	Input         int64 `json:"input_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
	Output        int64 `json:"output_tokens"`
}

func (t tokens) input() int64 { return t.Input + t.CacheCreation + t.CacheRead }

// watch returns a body that is counted as it is read.
func (m *meter) watch(body io.ReadCloser, contentType string) io.ReadCloser {
	return &metered{ReadCloser: body, meter: m, stream: strings.HasPrefix(contentType, "text/event-stream")}
}

// maxHeld bounds what is kept of an answer to find its usage in.
const maxHeld = 1 << 20

// metered keeps one line of a stream at a time, or the whole of a plain answer.
type metered struct {
	io.ReadCloser
	meter  *meter
	stream bool
	held   []byte
	seen   tokens
	once   sync.Once
}

func (b *metered) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.take(p[:n])
	return n, err
}

func (b *metered) Close() error {
	b.once.Do(func() {
		b.look(b.held)
		b.meter.add(b.seen)
	})
	return b.ReadCloser.Close()
}

func (b *metered) take(p []byte) {
	for b.stream {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		if !found {
			break
		}
		b.hold(line)
		b.look(b.held)
		b.held, p = b.held[:0], rest
	}
	b.hold(p)
}

func (b *metered) hold(p []byte) {
	b.held = append(b.held, p[:min(len(p), maxHeld-len(b.held))]...)
}

// look reads the usage of one event or of a whole answer. The first event of a
// stream has the input, later ones the output so far: each value only grows.
func (b *metered) look(text []byte) {
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("data:")))
	if !bytes.Contains(text, []byte(`"usage"`)) {
		return
	}
	var v struct {
		Usage   tokens `json:"usage"`
		Message struct {
			Usage tokens `json:"usage"`
		} `json:"message"`
	}
	if json.Unmarshal(text, &v) != nil {
		return
	}
	for _, t := range []tokens{v.Usage, v.Message.Usage} {
		b.seen.Input = max(b.seen.Input, t.Input)
		b.seen.CacheCreation = max(b.seen.CacheCreation, t.CacheCreation)
		b.seen.CacheRead = max(b.seen.CacheRead, t.CacheRead)
		b.seen.Output = max(b.seen.Output, t.Output)
	}
}
