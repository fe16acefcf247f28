package mcp

import (
	"bufio"
	"bytes"
	"io"

	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

// maxFrame bounds, in bytes, one server-sent event: the largest payload that
// is read, and room for what is around it.
const maxFrame = dialect.Limit + 4<<10

// keepBuffer is the capacity in bytes above which a buffer is not kept: idle
// streams should be small.
const keepBuffer = 16 << 10

// readBuffer is small in bytes, for there is one for each quiet stream.
const readBuffer = 1 << 10

// frameReader passes a stream of server-sent events on, without those that are
// taken out and those that are too large. It holds at most one event.
type frameReader struct {
	src  *bufio.Reader
	body io.Closer
	// take sees the data of each event and reports whether it took the event out.
	take func(data []byte) bool
	// tooLarge is told of each event over maxFrame: how it began and its size.
	tooLarge func(head []byte, size int64)

	event []byte // the event being read
	size  int64  // its size, also of what was not kept
	rest  []byte // what of a passed event is not read yet; part of event
}

func newFrameReader(body io.ReadCloser) *frameReader {
	return &frameReader{src: bufio.NewReaderSize(body, readBuffer), body: body}
}

// Close closes the stream.
func (f *frameReader) Close() error { return f.body.Close() }

// Read implements io.Reader.
func (f *frameReader) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if err := f.readFrame(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// readFrame reads one event. An event that the end of the stream cuts off is
// dropped, as the format demands.
func (f *frameReader) readFrame() error {
	if f.event = f.event[:0]; cap(f.event) > keepBuffer {
		f.event = nil
	}
	f.size = 0
	for {
		blank, err := f.readLine()
		if err != nil {
			return err
		}
		if blank {
			f.finishFrame()
			return nil
		}
	}
}

// readLine reads one line into the event and reports whether it is blank.
func (f *frameReader) readLine() (blank bool, err error) {
	start := f.size
	for {
		chunk, err := f.src.ReadSlice('\n')
		f.size += int64(len(chunk))
		if room := maxFrame - len(f.event); room > 0 {
			f.event = append(f.event, chunk[:min(room, len(chunk))]...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil:
			return false, err
		}
		return f.size-start <= 2 && len(bytes.TrimRight(chunk, "\r\n")) == 0, nil
	}
}

// finishFrame decides about the event that was read.
func (f *frameReader) finishFrame() {
	if f.size > maxFrame {
		f.tooLarge(f.event[:dialect.HeadSize], f.size)
		return
	}
	data, passed := splitEvent(f.event)
	if len(data) > 0 && f.take(data) {
		return
	}
	f.rest = passed
}

// splitEvent returns the event's data, and the event without the lines that mean
// nothing. Both may share memory with the event.
func splitEvent(event []byte) (data, passed []byte) {
	passed = event[:0]
	for line := range bytes.Lines(event) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch string(name) {
		case "data":
			data = joinLines(data, bytes.TrimSpace(value))
		case "id", "event", "retry":
		default:
			continue // a comment, or what the library takes for corruption
		}
		passed = append(passed, line...)
	}
	return data, append(passed, '\n')
}

func joinLines(data, line []byte) []byte {
	if data != nil {
		data = append(data, '\n')
	}
	return append(data, line...)
}
