package main

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"

	"nightcrier.dev/nightcrier/internal/oneshot/triage"

	"nightcrier.dev/nightcrier/internal/text"
)

const (
	// quietTime is how long nothing is shown: most investigations are over by then.
	quietTime = 300 * time.Millisecond
	// progressTick is how often the line is written anew.
	progressTick = 150 * time.Millisecond
)

// progressLine is the last line of a terminal while something takes time: how long it
// has taken, how many reads were answered, and what is being read. What else is written
// to it goes above the line. The nil line shows nothing.
type progressLine struct {
	out   io.Writer
	width int
	begun time.Time
	stop  chan struct{}
	ended sync.WaitGroup

	mu    sync.Mutex
	now   triage.Progress
	shown bool
}

// beginProgress shows progress on stderr where that is a terminal, and has the
// program's messages go through it until endLine.
func (p *program) beginProgress() *progressLine {
	if p.messageWidth == 0 {
		return nil
	}
	l := &progressLine{out: p.stderr, width: p.messageWidth, begun: p.now(), stop: make(chan struct{})}
	p.stderr = l
	l.ended.Go(func() { l.keepDrawing(p.now) })
	return l
}

// keepDrawing writes the line until it ends.
func (l *progressLine) keepDrawing(now func() time.Time) {
	tick := time.NewTicker(progressTick)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			if took := now().Sub(l.begun); took > quietTime {
				l.draw(took)
			}
		}
	}
}

// showProgress takes what goes on now.
func (l *progressLine) showProgress(p triage.Progress) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = p
}

func (l *progressLine) draw(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprint(l.out, eraseLine+l.lineText(took))
	l.shown = true
}

// lineText is the line, which fits the terminal.
func (l *progressLine) lineText(took time.Duration) string {
	s := fmt.Sprintf("%ds", int(took.Seconds()))
	if l.now.Reads > 0 {
		s += fmt.Sprintf("  %d reads", l.now.Reads)
	}
	for _, part := range []string{l.now.About, cmp.Or(l.now.Doing, "connecting")} {
		if part != "" {
			s += "  " + part
		}
	}
	s = text.DropHidden(s)
	if room := l.width - 1; room > 0 {
		s = text.CutRunes(s, room)
	}
	return s
}

// eraseLine returns to the beginning of a line and empties it.
const eraseLine = "\r\x1b[K"

// Write implements io.Writer for what is not progress.
func (l *progressLine) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	return l.out.Write(text)
}

func (l *progressLine) erase() {
	if l.shown {
		fmt.Fprint(l.out, eraseLine)
		l.shown = false
	}
}

// endLine takes the line away; it may be called more than once.
func (l *progressLine) endLine() {
	if l == nil {
		return
	}
	select {
	case <-l.stop:
		return
	default:
	}
	close(l.stop)
	l.ended.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
}
