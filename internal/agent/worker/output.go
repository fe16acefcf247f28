package worker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/worker/internal/stdio"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

const (
	// maxLine bounds one line of output; what is over it is dropped.
	maxLine = 8 << 20
	// hardFactor times the output limit ends the agent: between the two its
	// output is read for its last word, but not kept.
	hardFactor = 8
	// drainTime is how long output may still come when the tree is gone: it
	// then only stands in the pipe.
	drainTime = 2 * time.Second
	// entryCost is what an entry takes beside its text; it keeps empty lines from
	// filling the disk.
	entryCost = 256
	// maxLate is how many entries are kept beyond the limit, of the kinds that say
	// why an agent ends; maxLateSize is the longest line that they come from.
	maxLate     = 100
	maxLateSize = 64 << 10
	// maxPlain bounds how many bytes of plain lines become one entry.
	maxPlain = 16 << 10
	// complaintSize is how much of stderr's end is kept for a reason.
	complaintSize = 1 << 10
)

// output reads what the agent prints.
type output struct {
	worker         *worker
	parser         agent.Parser
	stdout, stderr *stdio.Stream
	// metered says that a guard counts what the agent uses, and that its count is
	// journaled at the end in place of the agent's.
	metered bool
	onFirst func() // called with the first line of either stream
	first   sync.Once
	readers sync.WaitGroup

	mu   sync.Mutex // guards the parser and what is below
	seen int64      // bytes
	kept int64      // bytes, with what an entry costs
	cut  bool
	late int // entries kept beyond the limit
	tail []byte
	// plain is an entry of plain lines that is still added to.
	plain *journal.Log
}

func newOutput(w *worker, p agent.Parser) (*output, error) {
	o := &output{worker: w, parser: p}
	var err error
	if o.stdout, err = stdio.NewStream("stdout"); err != nil {
		return nil, err
	}
	if o.stderr, err = stdio.NewStream("stderr"); err != nil {
		o.stdout.Close()
		return nil, err
	}
	return o, nil
}

// closeTheirs closes the ends that belong to the agent.
func (o *output) closeTheirs() { o.stdout.Theirs.Close(); o.stderr.Theirs.Close() }

// pumpStreams reads both streams in the background.
func (o *output) pumpStreams() {
	o.readers.Go(func() { o.readStream(o.stdout) })
	o.readers.Go(func() { o.readStream(o.stderr) })
}

// drainStreams waits for the rest. A process that is not of the tree any more and
// still holds a pipe does not hold us up.
func (o *output) drainStreams() {
	deadline := time.Now().Add(drainTime)
	_ = o.stdout.Ours.SetReadDeadline(deadline)
	_ = o.stderr.Ours.SetReadDeadline(deadline)
	o.readers.Wait()
	if p, ok := o.parser.(agent.Ender); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.keepItems(p.End(), 0)
		o.flushPlain()
	}
}

func (o *output) close() {
	o.stdout.Close()
	o.stderr.Close()
	o.readers.Wait()
}

func (o *output) readStream(s *stdio.Stream) {
	r := bufio.NewReaderSize(s, 64<<10)
	for {
		line, cut, err := readLine(r, maxLine)
		if len(line) > 0 || err == nil {
			o.handleLine(s, line, cut, lineWaits(r))
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				o.worker.log.Warn("the agent's output ended early", "stream", s.Name, "error", err)
			}
			return
		}
	}
}

// lineWaits reports whether another whole line has been read already.
func lineWaits(r *bufio.Reader) bool {
	b, err := r.Peek(r.Buffered())
	return err == nil && bytes.IndexByte(b, '\n') >= 0
}

// readLine reads a line without its newline, at most max bytes of it; the rest
// of a longer one is read and dropped.
func readLine(r *bufio.Reader, max int) (line []byte, cut bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if room := max - len(line); len(part) > room {
			// The newline itself may be over.
			cut = cut || len(part)-room > 1 || part[len(part)-1] != '\n'
			part = part[:room]
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		return line, cut, err
	}
}

// handleLine takes one line of either stream; the parser sees one at a time. more
// says that the stream's next line is here already.
func (o *output) handleLine(s *stdio.Stream, line []byte, cut, more bool) {
	o.first.Do(o.onFirst)
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() {
		if !more {
			o.flushPlain()
		}
	}()
	o.seen += int64(len(line)) + 1
	o.kept += int64(len(line))
	if s == o.stdout {
		o.keepItems(o.parser.Stdout(line, cut), len(line))
		if o.parser.Abort() {
			o.worker.requestStop(gaveUp(o.parser.Verdict()))
		}
		return
	}
	o.tail = append(append(o.tail, line[max(0, len(line)-complaintSize):]...), '\n')
	o.tail = o.tail[max(0, len(o.tail)-complaintSize):]
	o.keepItems([]journal.Item{agent.PlainLine(s.Name, line, cut)}, len(line))
	if p, ok := o.parser.(agent.Complaining); ok {
		o.keepItems(p.Stderr(line), len(line))
	}
}

// keepItems journals the items of a line of that size, while the output is within its
// limit. One line can be many items, so each of them costs.
func (o *output) keepItems(items []journal.Item, size int) {
	limit := o.worker.spec.MaxOutputBytes
	for _, i := range items {
		if o.kept += entryCost; o.kept <= limit {
			o.journalItem(i)
			continue
		}
		o.overLimit(limit)
		if isTelling(i.Type) && size <= maxLateSize && o.late < maxLate {
			o.late++
			o.worker.recordItems(i)
		}
	}
	if o.seen > limit*hardFactor {
		o.worker.requestStop(abortCause(nightcrier.FailAgent, fmt.Sprintf("the agent printed more than %d bytes", limit*hardFactor)))
	}
}

// overLimit says once that something is not kept.
func (o *output) overLimit(limit int64) {
	if !o.cut {
		o.cut = true
		o.flushPlain()
		o.worker.appendNote("warn", fmt.Sprintf("the output is over its limit of %d bytes; what follows is not kept", limit))
	}
}

// isTelling reports whether entries of that type say why an agent ends.
func isTelling(t nightcrier.EntryType) bool {
	return t == nightcrier.EntryUsage || t == nightcrier.EntryError || t == nightcrier.EntryDenial
}

// journalItem records an item. Plain lines that come together become one entry.
func (o *output) journalItem(i journal.Item) {
	if i.Type == nightcrier.EntryUsage && o.metered {
		return
	}
	l, plain := i.Data.(journal.Log)
	if p := o.plain; p != nil {
		if plain && p.Stream == l.Stream && !l.Truncated && len(p.Text)+len(l.Text) < maxPlain {
			p.Text += "\n" + l.Text
			return
		}
		o.flushPlain()
	}
	if plain && !l.Truncated && len(l.Text) < maxPlain {
		o.plain = &l
		return
	}
	o.worker.recordItems(i)
}

// flushPlain records the plain lines that were held back.
func (o *output) flushPlain() {
	if o.plain != nil {
		o.worker.recordItems(journal.OfLog(*o.plain))
		o.plain = nil
	}
}

// complaintText is the end of stderr.
func (o *output) complaintText() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(o.tail), ""))
}

func (o *output) isTruncated() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cut
}
