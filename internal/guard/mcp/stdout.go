package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

const (
	// maxSkipped bounds what a command may print among its messages in a run, in bytes.
	maxSkipped = 8 << 20
	// maxShown bounds what is shown of a line that was skipped; so much more is masked, that
	// no secret is cut in two before it was seen whole.
	maxShown = 200
)

// messages is the standard output of a command without what is no message of MCP. The
// protocol forbids anything else there, and many servers print their log there all the
// same. A message is a whole line or nothing: none is looked for inside of other text, so
// that what is quoted in a log is not taken for the server's word.
type messages struct {
	*io.PipeReader
	ended chan struct{} // closed when nothing more comes

	mu      sync.Mutex
	skipped int // lines
	bytes   int
	first   string // the beginning of the first of them
}

// newMessages reads out to its end, and closes it: also when its messages are not read any
// more, what is printed is counted.
func newMessages(out io.ReadCloser) *messages {
	r, w := io.Pipe()
	m := &messages{PipeReader: r, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		_ = w.CloseWithError(m.copyMessages(out, w)) // never an error
		out.Close()                                  // whoever prints for ever is told
	}()
	return m
}

// copyMessages copies the messages.
func (m *messages) copyMessages(out io.Reader, to io.Writer) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if isMessage(line) {
			_, _ = to.Write(append(slices.Clip(line), '\n')) // to whom, if nobody reads?
		} else if err := m.skipLine(line); err != nil {
			return err
		}
	}
	if err := lines.Err(); !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return errTooMuch
}

// isMessage says whether a line is one message, or a list of them, as the client that
// reads it next will say: it ends the session at anything else.
func isMessage(line []byte) bool {
	if !json.Valid(line) {
		return false
	}
	var each []json.RawMessage
	if json.Unmarshal(line, &each) != nil {
		each = []json.RawMessage{line}
	}
	for _, one := range each {
		if _, err := jsonrpc.DecodeMessage(one); err != nil {
			return false
		}
	}
	return len(each) > 0
}

// skipLine counts a line that is no message.
func (m *messages) skipLine(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.skipped == 0 {
		m.first = string(line[:min(len(line), maxTail)])
	}
	m.skipped++
	if m.bytes += len(line); m.bytes > maxSkipped {
		return nightcrier.Errorf(nightcrier.Exhausted, "it prints more than %d MiB on its standard output that are no messages of MCP", maxSkipped>>20)
	}
	return nil
}

// describeSkipped says what was skipped, "" where nothing was.
func (m *messages) describeSkipped(mask func([]byte) []byte) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.skipped == 0 {
		return ""
	}
	first := text.CutLine(text.MaskClean(m.first, ofText(mask), text.MarkHidden), maxShown)
	return fmt.Sprintf("%s on its standard output (%d bytes) that are no messages of MCP, first %q", text.CountNoun(m.skipped, "line"), m.bytes, first)
}
