package kube

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	// contextBytes is how much of what was told of a log goes into the masking of what
	// comes next.
	contextBytes = 128 << 10
	// maxHeld is how much waits for lines that say whether it is a secret.
	maxHeld = 64 << 10
)

// follower tells a log as it grows: first what is there, then, from the stream, each line
// once it is settled.
type follower struct {
	call  *call
	in    *bufio.Reader
	begun bool      // the stream is read
	lines []logLine // some that were told, and all that were not
	told  int       // how many of the lines were told, or are none of what was asked for
	// last is the last line that was read before the stream, which repeats it, and seen
	// how often more it will come; 0 for no more.
	last logLine
	seen int
}

// followLog goes on behind what was read of a log.
func (c *call) followLog(ctx context.Context, w logWindow) answer {
	f := &follower{call: c, lines: w.lines, told: w.from}
	ctx, cancel := context.WithTimeout(ctx, c.g.cfg.Limits.StreamTime+5*time.Second)
	body := io.ReadCloser(http.NoBody)
	if p, more := f.restRequest(w); more {
		resp, err := c.sendRequest(ctx, &p)
		if err != nil {
			cancel()
			return c.finishAnswer(refusalAnswer(c.unreachableError(err)))
		}
		if !isLog(resp) {
			defer cancel()
			defer resp.Body.Close()
			return c.answerPlain(resp)
		}
		body = resp.Body
	}
	f.in = bufio.NewReaderSize(body, 32<<10)
	a := c.answerStream(body, typeText, cancel, f.nextLines)
	a.warnings = append(a.warnings, w.missingWarnings()...)
	return a
}

// restRequest is the request for what comes behind what was read: all since the second of its
// last line, as the API knows no shorter time. A log that does not say when its lines were
// written is no container's that could still write some.
func (f *follower) restRequest(w logWindow) (p parts, more bool) {
	p = f.call.parts
	p.query = slices.Clone(p.query)
	if f.call.g.cfg.Upstream.Recorded {
		return p, false // it has been told
	}
	for _, option := range []string{"tailLines", "sinceSeconds", "sinceTime", "limitBytes"} {
		p.dropOption(option)
	}
	p.setOption("timestamps", "true")
	if len(w.lines) == 0 {
		return p, !w.cut
	}
	f.last = w.lines[len(w.lines)-1]
	at, ok := parseMoment(f.last.stamp)
	for _, l := range w.lines {
		if l == f.last {
			f.seen++
		}
	}
	p.setOption("sinceTime", at.UTC().Truncate(time.Second).Format(time.RFC3339))
	return p, ok && !w.cut
}

// nextLines returns the next lines that are settled, and why there will be no more.
func (f *follower) nextLines() ([]byte, error) {
	for {
		var err error
		if f.begun {
			err = f.readLines()
		}
		f.begun = true
		lines, settled, failed := f.call.maskLines(f.lines, f.told)
		if failed != nil {
			return nil, io.EOF
		}
		if err != nil || bytesOf(f.lines[f.told+settled:]) > maxHeld {
			settled = len(lines)
		}
		f.told += settled
		f.forgetTold()
		if settled > 0 || err != nil {
			return f.call.writeLines(lines[:settled]), err
		}
	}
}

func bytesOf(lines []logLine) (size int) {
	for _, l := range lines {
		size += len(l.text)
	}
	return size
}

// forgetTold drops what was told too long ago to matter.
func (f *follower) forgetTold() {
	from, size := f.told, 0
	for from > 0 && f.told-from < logMargins[0] && size < contextBytes {
		from--
		size += len(f.lines[from].text)
	}
	f.lines, f.told = slices.Clone(f.lines[from:]), f.told-from
}

// readLines takes the lines that are there, at least one.
func (f *follower) readLines() error {
	for {
		line, err := readLine(f.in)
		if err != nil && !errors.Is(err, io.EOF) || len(line) >= pieceBytes && line[len(line)-1] != '\n' {
			return io.EOF // what is not whole may hold half a secret
		}
		if len(line) > 0 {
			f.addLine(unstampLine(string(line)))
		}
		if err != nil || len(f.lines) > f.told && !f.hasAnotherLine() {
			return err
		}
	}
}

// hasAnotherLine reports whether a whole line can be read without waiting for it.
func (f *follower) hasAnotherLine() bool {
	waiting, _ := f.in.Peek(f.in.Buffered())
	return slices.Contains(waiting, '\n') && bytesOf(f.lines[f.told:]) < maxHeld
}

// addLine adds a line, unless the stream repeats it.
func (f *follower) addLine(l logLine) {
	if f.seen == 0 {
		f.lines = append(f.lines, l)
		return
	}
	if l == f.last {
		f.seen--
		return
	}
	// A log whose last line is gone has been rotated away.
	last, _ := parseMoment(f.last.stamp)
	if at, ok := parseMoment(l.stamp); ok && at.After(last.Add(time.Second)) {
		f.seen = 0
		f.lines = append(f.lines, l)
	}
}
