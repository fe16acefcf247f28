package kube

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/kube/internal/strip"
)

// A caller says from which line on a log is told, to which byte, and whether the moment
// of each line stands before it. All of that decides what masking sees of a secret that
// stands on several lines. So the guard reads more than was asked for, masks it as one
// text, without anything in front of its lines, and then cuts it to what was asked for.

// logMargins are how many lines before those that were asked for are read as well: the
// first with which no more than maxMargin bytes come in addition.
var logMargins = []int{500, 50, 5}

const (
	maxMargin = 1 << 20
	// headBytes is how much of the beginning of a log is not told where nothing of what
	// stands before it can be read.
	headBytes = 64 << 10
	// pieceBytes is from where on a runtime writes a line in pieces, at the least.
	pieceBytes = 8 << 10
	// maxLines is more lines than any log has.
	maxLines = 1 << 40
)

// logLine is a line of a log. Stamp is its moment, as the cluster writes it, "" where it
// was not asked for.
type logLine struct{ stamp, text string }

// logWindow is what was asked of a log, from lines[from] on, and lines before it.
type logWindow struct {
	lines []logLine
	from  int
	// cut says that the log goes on, nothingBefore that nothing before what was asked for could
	// be read, so that it begins later, and torn that its last line is not whole yet.
	cut, nothingBefore, torn bool
}

// readLog answers with a log.
func (c *call) readLog(ctx context.Context) answer {
	within, cancel := context.WithTimeout(ctx, c.g.cfg.Limits.CallTime)
	defer cancel()
	w, failed := c.readWindow(within)
	switch {
	case failed != nil:
		return c.finishAnswer(*failed)
	case c.parts.isFollowing():
		return c.followLog(ctx, w)
	}
	lines, _, err := c.maskLines(w.lines, w.from)
	if err != nil {
		return c.finishAnswer(refusalAnswer(err))
	}
	log := c.writeLines(lines)
	if most := c.g.cfg.Limits.LogBytes; int64(len(log)) > most {
		log, w.cut = log[:bytes.LastIndexByte(log[:most], '\n')+1], true
	}
	a := answer{status: http.StatusOK, contentType: typeText, body: c.cutLog(log), warnings: w.missingWarnings()}
	if w.cut && (c.wants == 0 || c.wants > int64(len(a.body))) {
		a.warnings = append(a.warnings, fmt.Sprintf("the log goes on behind these %d bytes: use --tail or --since", len(a.body)))
	}
	return c.finishAnswer(a)
}

// missingWarnings says what is not shown of what was asked for.
func (w *logWindow) missingWarnings() (warnings []string) {
	if w.nothingBefore {
		warnings = append(warnings, fmt.Sprintf("the first %d lines are not shown, as it is not known what stands before them: use a smaller --tail, or a shorter --since", w.from))
	}
	if w.torn {
		warnings = append(warnings, "the last line is not shown, as it is still being written")
	}
	return warnings
}

// readWindow reads what is asked of the log, with a margin.
func (c *call) readWindow(ctx context.Context) (logWindow, *answer) {
	most := c.g.cfg.Limits.LogBytes
	tail := c.parts.optionValue("tailLines")
	switch {
	case c.g.cfg.Upstream.Recorded:
		return c.readStretch(ctx, c.parts, most)
	case c.parts.optionValue("sinceSeconds") != "" || c.parts.optionValue("sinceTime") != "":
		asked, failed := c.readStretch(ctx, c.parts, most)
		switch {
		case failed != nil || asked.cut:
			return asked.withHeadAsMargin(), failed
		case len(asked.lines) == 0 && !c.parts.isFollowing():
			return asked, nil
		}
		return c.addTimeMargin(ctx, asked, lineCount(tail))
	case tail == "":
		return c.readStretch(ctx, c.parts, most)
	}
	n := lineCount(tail)
	w, _, failed := c.withMargin(ctx, n)
	if failed != nil || w.cut { // the margin alone is more than is read
		if w, failed = c.readStretch(ctx, c.parts, most); failed == nil {
			w = w.withHeadAsMargin()
		}
		return w, failed
	}
	w.from = max(0, len(w.lines)-int(n))
	return w, nil
}

// addTimeMargin puts a margin before lines that were asked for by their time.
func (c *call) addTimeMargin(ctx context.Context, asked logWindow, most int64) (logWindow, *answer) {
	w, margin, failed := c.withMargin(ctx, int64(len(asked.lines)))
	if failed != nil || w.cut {
		return asked.withHeadAsMargin(), failed
	}
	if len(asked.lines) == 0 { // some may have come in the meantime
		if asked, failed = c.readStretch(ctx, c.parts, c.g.cfg.Limits.LogBytes); failed != nil {
			return w, failed
		}
	}
	w.from = max(w.indexOfFirst(asked.lines), len(w.lines)-int(most))
	if all := len(w.lines) < len(asked.lines)+margin; !all && w.from < margin/2 {
		return asked.withHeadAsMargin(), nil // so much has come that the margin has gone
	}
	return w, nil
}

// withMargin reads the last n lines, and some before them; not cut unless even few of
// those are too much.
func (c *call) withMargin(ctx context.Context, n int64) (w logWindow, margin int, failed *answer) {
	for _, margin = range logMargins {
		w, failed = c.readStretch(ctx, c.parts.forLastLines(n+int64(margin)), c.g.cfg.Limits.LogBytes+maxMargin)
		if failed != nil || !w.cut {
			break
		}
	}
	return w, margin, failed
}

// lineCount is how many lines are wanted at most.
func lineCount(tail string) int64 {
	if tail == "" {
		return maxLines
	}
	return min(parseNumber(tail), maxLines)
}

// indexOfFirst is where the first of the asked lines stands, by its moment, or by how many they
// are.
func (w *logWindow) indexOfFirst(asked []logLine) int {
	if len(asked) == 0 {
		return len(w.lines)
	}
	first, ok := parseMoment(asked[0].stamp)
	if !ok {
		return max(0, len(w.lines)-len(asked))
	}
	for i, l := range w.lines {
		if at, ok := parseMoment(l.stamp); ok && !at.Before(first) {
			return i
		}
	}
	return len(w.lines)
}

// withHeadAsMargin is the log where it is not known what stands before it: its first lines serve as
// the margin.
func (w logWindow) withHeadAsMargin() logWindow {
	w.from, w.nothingBefore = 0, len(w.lines) > 0
	for size := 0; w.from < len(w.lines) && w.from < logMargins[0] && size < headBytes; w.from++ {
		size += len(w.lines[w.from].text)
	}
	return w
}

// forLastLines are the parts of the same request for the last n lines.
func (p parts) forLastLines(n int64) parts {
	p.query = slices.Clone(p.query)
	p.dropOption("sinceSeconds")
	p.dropOption("sinceTime")
	p.setOption("tailLines", strconv.FormatInt(n, 10))
	return p
}

// readStretch reads a log, at most limit bytes of it. What is no log is an answer by itself.
func (c *call) readStretch(ctx context.Context, p parts, limit int64) (w logWindow, failed *answer) {
	if !c.g.cfg.Upstream.Recorded {
		p.query = slices.Clone(p.query)
		p.dropOption("follow")
		p.setOption("limitBytes", strconv.FormatInt(limit, 10))
		if c.needsStamps() {
			p.setOption("timestamps", "true")
		}
	}
	resp, err := c.sendRequest(ctx, &p)
	if err != nil {
		return w, c.failedAnswer(c.unreachableError(err))
	}
	defer resp.Body.Close()
	body, err := readBounded(resp.Body, limit+64<<10) // a server may end its cut at a line
	if err != nil {
		return w, c.failedAnswer(c.unreachableError(err))
	}
	if !isLog(resp) {
		a, err := c.cleanAnswer(resp, body)
		if err != nil {
			return w, c.failedAnswer(err)
		}
		return w, &a
	}
	w.splitLines(body, limit)
	if c.needsStamps() {
		w.unstampLines()
	}
	return w, nil
}

func (c *call) failedAnswer(err error) *answer {
	a := refusalAnswer(err)
	return &a
}

// needsStamps reports whether the moment of each line has to be known.
func (c *call) needsStamps() bool {
	p := &c.parts
	return !c.g.cfg.Upstream.Recorded && (p.isFollowing() || isTrue(p.optionValue("timestamps")) || p.optionValue("sinceSeconds") != "" || p.optionValue("sinceTime") != "")
}

// isLog reports whether an answer is a log.
func isLog(resp *http.Response) bool {
	media, _ := mediaOf(resp.Header)
	return resp.StatusCode == http.StatusOK && media == mediaText && resp.Header.Get("Content-Encoding") == ""
}

// splitLines takes a log apart into its lines, without one that is not whole as the log was cut
// there, or as the rest of it is still being written: it may hold half a secret.
func (w *logWindow) splitLines(log []byte, limit int64) {
	w.cut = int64(len(log)) >= limit
	for line := range bytes.Lines(log) {
		if w.torn = line[len(line)-1] != '\n' && (w.cut || len(line) >= pieceBytes); !w.torn {
			w.lines = append(w.lines, logLine{text: string(line)})
		}
	}
	w.torn = w.torn && !w.cut
}

// unstampLines takes the moments from before the lines, if they stand there.
func (w *logWindow) unstampLines() {
	for i, l := range w.lines {
		w.lines[i] = unstampLine(l.text)
	}
}

func unstampLine(line string) logLine {
	stamp, text, ok := strings.Cut(line, " ")
	if _, isMoment := parseMoment(stamp); !ok || !isMoment {
		return logLine{text: line}
	}
	return logLine{stamp, text}
}

// parseMoment reads what the cluster puts before a line: a moment with all its nine digits.
func parseMoment(stamp string) (time.Time, bool) {
	if len(stamp) < len("2006-01-02T15:04:05.000000000Z") || stamp[19] != '.' || !hasOnlyBytes(stamp[20:29], func(c byte) bool { return c >= '0' && c <= '9' }) {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, stamp)
	return t, err == nil
}

// maskLines masks lines as one text and returns those from one on, of which the first
// settled stay so whatever follows.
func (c *call) maskLines(lines []logLine, from int) (_ []logLine, settled int, err error) {
	if from == len(lines) {
		return nil, 0, nil
	}
	var text bytes.Buffer
	for _, l := range lines {
		text.WriteString(l.text)
	}
	if text.Len() > 1<<20 {
		c.g.large.Lock()
		defer c.g.large.Unlock()
	}
	masked, settled := c.maskLogText(text.Bytes(), len(lines))
	out := make([]logLine, 0, len(lines)-from)
	for i, l := range lines {
		n := bytes.IndexByte(masked, '\n') + 1
		if n == 0 || i == len(lines)-1 {
			n = len(masked)
		}
		if n == 0 && l.text != "" {
			return nil, 0, newFailuref(http.StatusInternalServerError, "mask", "the log cannot be masked line by line")
		}
		if i >= from {
			c.audit.Masked += max(0, bytes.Count(masked[:n], []byte(strip.TagOpen))-strings.Count(l.text, strip.TagOpen))
			out = append(out, logLine{l.stamp, string(masked[:n])})
		}
		masked = masked[n:]
	}
	return out, max(0, settled-from), nil
}

// maskLogText masks some lines of a log. What was recorded was masked as a log then.
func (c *call) maskLogText(log []byte, lines int) ([]byte, int) {
	if c.g.cfg.Upstream.Recorded {
		return c.g.cfg.Mask(log), lines
	}
	return c.g.cfg.MaskLog(log)
}

// writeLines writes what a caller reads of lines.
func (c *call) writeLines(lines []logLine) []byte {
	var out bytes.Buffer
	for _, l := range lines {
		if l.stamp != "" && isTrue(c.parts.optionValue("timestamps")) {
			out.WriteString(l.stamp + " ")
		}
		out.WriteString(l.text)
	}
	return out.Bytes()
}

// cutLog ends a log where the caller wants it to end.
func (c *call) cutLog(log []byte) []byte {
	if c.wants <= 0 || c.wants >= int64(len(log)) {
		return log
	}
	return bytes.ToValidUTF8(log[:c.wants], nil)
}
