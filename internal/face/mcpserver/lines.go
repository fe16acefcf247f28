package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lines is what a client of stdio says, one message a line. The protocol's library ends
// the session at the first line that it cannot read, so those do not reach it: they are
// answered here, as JSON-RPC has it, and what comes next is read.
type lines struct {
	in    *bufio.Reader
	close io.Closer
	out   io.Writer // which takes whole messages
	rest  []byte    // of what was read and not passed on
}

func newLines(in io.ReadCloser, out io.Writer) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), close: in, out: out}
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.next()
		if len(line) > 0 {
			l.rest = l.splitMessages(line)
		}
		if errors.Is(err, errTooLong) {
			l.answerError(nil, jsonrpc.CodeParseError, err.Error())
		} else if err != nil && len(l.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *lines) Close() error { return l.close.Close() }

var errTooLong = fmt.Errorf("the line is longer than %d bytes", maxMessage)

// next returns the next line without white space around it. One that is too long is
// read to its end and forgotten.
func (l *lines) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxMessage; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long:
			return nil, errTooLong
		default:
			return bytes.TrimSpace(line), err
		}
	}
}

// splitMessages returns the messages in a line, each with an end of its own, and answers what
// is none. Older protocols put several in one line.
func (l *lines) splitMessages(line []byte) (all []byte) {
	if !json.Valid(line) {
		l.answerError(nil, jsonrpc.CodeParseError, "the line is no JSON: write each message on one line")
		return nil
	}
	batch := []json.RawMessage{line}
	if line[0] == '[' {
		_ = json.Unmarshal(line, &batch) // it is valid
	}
	if len(batch) == 0 {
		l.answerError(nil, jsonrpc.CodeInvalidRequest, "a batch without a message")
	}
	for _, one := range batch {
		if _, err := jsonrpc.DecodeMessage(one); err != nil {
			l.refuseMessage(one, err)
			continue
		}
		all = append(append(all, one...), '\n')
	}
	return all
}

// refuseMessage answers what is JSON and no message. An answer is not answered: two sides that
// did would never end.
func (l *lines) refuseMessage(one []byte, why error) {
	var said struct {
		ID            any
		Method        json.RawMessage
		Result, Error json.RawMessage
	}
	_ = json.Unmarshal(one, &said) // what is no object has none of these
	if said.Method == nil && (said.Result != nil || said.Error != nil) {
		return
	}
	switch said.ID.(type) {
	case string, float64:
	default:
		said.ID = nil
	}
	l.answerError(said.ID, jsonrpc.CodeInvalidRequest, "this is no JSON-RPC message: "+why.Error())
}

func (l *lines) answerError(id any, code int64, text string) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
	if err == nil {
		_, _ = l.out.Write(append(body, '\n')) // a client that is gone is noticed by its end of the pipe
	}
}

// wholly writes each message by itself: answers of lines come between those of the
// protocol.
type wholly struct {
	mu sync.Mutex
	io.WriteCloser
}

// Write implements io.Writer.
func (w *wholly) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(p)
}
