package report

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	mdtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// Screen is the terminal of a reader.
type Screen struct {
	// Width is how many columns it has; 0 breaks no line.
	Width int
	// Colour allows escape sequences, all of which are ours.
	Colour bool
}

// widest is how long a line of text gets on a wide terminal: longer ones are hard to read.
const widest = 110

// room is how long a line of text may be, 0 without end.
func (s Screen) room() int { return min(s.Width, widest) }

// The ways in which text stands out on a terminal.
const (
	plainly = ""
	boldly  = "1"
	dimly   = "2"
	inRed   = "31"
	inGreen = "32"
	yellow  = "33"
	inCyan  = "36"
)

func (s Screen) paint(text, style string) string {
	if !s.Colour || style == plainly || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// span is text in one style.
type span struct{ text, style string }

// indent is what stands before the first line of a block, and before the others.
type indent struct{ first, rest string }

// deeper is the indent of a block within another: mark stands before its first line.
func (in indent) deeper(mark string) indent {
	return indent{in.first + mark, in.rest + strings.Repeat(" ", utf8.RuneCountInString(mark))}
}

// next is the indent of a block that follows in the same place.
func (in indent) next() indent { return indent{in.rest, in.rest} }

// wrap writes spans in lines that end with the screen. Words are kept whole.
func (s Screen) wrap(in indent, spans ...span) string {
	var b strings.Builder
	lead, used, begun := in.first, 0, false
	for _, w := range words(spans) {
		n := w.width()
		switch {
		case !begun:
		case s.room() > 0 && utf8.RuneCountInString(lead)+used+1+n > s.room():
			b.WriteByte('\n')
			lead, used, begun = in.rest, 0, false
		default:
			b.WriteByte(' ')
			used++
		}
		if !begun {
			b.WriteString(lead)
			begun = true
		}
		for _, piece := range w {
			b.WriteString(s.paint(piece.text, piece.style))
		}
		used += n
	}
	if b.Len() == 0 {
		return strings.TrimRight(in.first, " ") + "\n"
	}
	return b.String() + "\n"
}

// word is what stands between two spaces; it may change its style within.
type word []span

func (w word) width() (n int) {
	for _, piece := range w {
		n += utf8.RuneCountInString(piece.text)
	}
	return n
}

func words(spans []span) (all []word) {
	var open word
	for _, s := range spans {
		rest := s.text
		for rest != "" {
			cut := strings.IndexAny(rest, " \t\n")
			if cut < 0 {
				open = append(open, span{rest, s.style})
				break
			}
			if cut > 0 {
				open = append(open, span{rest[:cut], s.style})
			}
			if len(open) > 0 {
				all, open = append(all, open), nil
			}
			rest = rest[cut+1:]
		}
	}
	if len(open) > 0 {
		all = append(all, open)
	}
	return all
}

// Report makes text for a terminal out of a report's Markdown: none of its marks are
// left, its sections stand out, and nothing in it steers the terminal.
func (s Screen) Report(md []byte) string {
	src := []byte(flatten(printable(string(md[:min(len(md), maxPage)]))))
	w := screenWriter{Screen: s, src: src}
	w.blocks(markdown.Parser().Parse(mdtext.NewReader(src)), indent{"  ", "  "})
	return strings.TrimLeft(w.b.String(), "\n")
}

// screenWriter writes the blocks of one page.
type screenWriter struct {
	Screen
	src []byte
	b   strings.Builder
}

func (w *screenWriter) blocks(parent ast.Node, in indent) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.block(n, in)
		in = in.next()
	}
}

func (w *screenWriter) block(n ast.Node, in indent) {
	switch n := n.(type) {
	case *ast.Heading:
		w.heading(n)
	case *ast.List:
		w.list(n, in)
	case *extast.Table:
		w.table(n, in)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		w.verbatim(string(n.Lines().Value(w.src)), in.deeper("  "))
	case *ast.HTMLBlock:
		w.folded(n, in)
	case *ast.Blockquote:
		w.blocks(n, indent{in.first + "│ ", in.rest + "│ "})
	case *ast.ThematicBreak:
		w.gap()
	default:
		if _, tight := n.(*ast.TextBlock); !tight && in.first == in.rest {
			w.gap()
		}
		w.b.WriteString(w.wrap(in, w.inline(n, plainly)...))
	}
}

// gap leaves a line empty, one at most.
func (w *screenWriter) gap() {
	if s := w.b.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		w.b.WriteByte('\n')
	}
}

// heading writes a section with a rule behind it, and what is below a section in bold.
func (w *screenWriter) heading(n *ast.Heading) {
	w.gap()
	said := textOf(w.inline(n, plainly))
	if n.Level > 2 {
		w.b.WriteString(w.wrap(indent{}, span{said, boldly}))
		return
	}
	rule := ""
	if room := w.room() - utf8.RuneCountInString(said) - 1; n.Level == 2 && room > 0 {
		rule = " " + strings.Repeat("─", room)
	}
	w.b.WriteString(w.paint(said, boldly) + w.paint(rule, dimly) + "\n")
}

func (w *screenWriter) list(n *ast.List, in indent) {
	if _, nested := n.Parent().(*ast.ListItem); !nested {
		w.gap()
	}
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "• "
		if n.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		w.blocks(item, in.deeper(mark))
		in = in.next()
	}
}

// table writes a row as an item: a terminal is rarely as wide as a row. What the first
// column counts or names stands before the second, and the others are named by theirs.
func (w *screenWriter) table(n *extast.Table, in indent) {
	w.gap()
	var names []string
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells [][]span
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			cells = append(cells, w.inline(c, plainly))
		}
		if row.Kind() == extast.KindTableHeader {
			for _, c := range cells {
				names = append(names, textOf(c))
			}
			continue
		}
		w.row(names, cells, in)
		in = in.next()
	}
}

func (w *screenWriter) row(names []string, cells [][]span, in indent) {
	inner := in
	for i, c := range cells {
		switch {
		case i == 0 && len(cells) > 1:
			inner = in.deeper(textOf(c) + ". ")
		case i < 2:
			w.b.WriteString(w.wrap(inner, c...))
			inner = inner.next()
		case textOf(c) != "" && i < len(names):
			w.b.WriteString(w.wrap(inner, append([]span{{names[i] + ": ", dimly}}, c...)...))
		}
	}
}

// verbatim writes lines as they are, however long: they are read by their columns.
func (w *screenWriter) verbatim(s string, in indent) {
	w.gap()
	for line := range strings.Lines(s) {
		w.b.WriteString(strings.TrimRight(in.rest+strings.TrimSuffix(line, "\n"), " ") + "\n")
	}
}

// folded writes what a browser folds, and other HTML as the text that it is.
func (w *screenWriter) folded(n *ast.HTMLBlock, in indent) {
	said := string(n.Lines().Value(w.src))
	if n.HasClosure() {
		said += string(n.ClosureLine.Value(w.src))
	}
	switch m := detailsRE.FindStringSubmatch(said); {
	case m != nil:
		w.gap()
		w.b.WriteString(w.wrap(in, span{clean(m[1]), boldly}))
	case !closesRE.MatchString(said):
		w.verbatim(said, in)
	}
}

// inline reads what stands in a block.
func (w *screenWriter) inline(parent ast.Node, style string) (all []span) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			said := clean(string(util.UnescapePunctuations(n.Segment.Value(w.src))))
			if n.SoftLineBreak() || n.HardLineBreak() {
				said += " "
			}
			all = append(all, span{said, style})
		case *ast.String:
			all = append(all, span{clean(string(n.Value)), style})
		case *ast.CodeSpan:
			all = append(all, w.codeSpan(n, style)...)
		case *ast.Emphasis:
			all = append(all, w.inline(n, emphasis(n.Level, style))...)
		case *ast.AutoLink:
			all = append(all, span{clean(string(n.Label(w.src))), style})
		case *ast.RawHTML:
			all = append(all, span{string(n.Segments.Value(w.src)), style})
		case *extast.TaskCheckBox:
			all = append(all, span{map[bool]string{true: "[x] ", false: "[ ] "}[n.IsChecked], style})
		case *ast.Link:
			all = append(all, w.inline(n, style)...)
			if to := string(n.Destination); isWeb(to) {
				all = append(all, span{" (" + printable(to) + ")", style})
			}
		default:
			all = append(all, w.inline(n, style)...)
		}
	}
	return all
}

// codeSpan is text that Markdown leaves as it is.
func (w *screenWriter) codeSpan(n *ast.CodeSpan, style string) (all []span) {
	if style == plainly {
		style = inCyan
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			all = append(all, span{string(t.Segment.Value(w.src)), style})
		}
	}
	return all
}

func emphasis(level int, style string) string {
	switch {
	case style != plainly:
		return style
	case level > 1:
		return boldly
	}
	return dimly
}

// clean turns entities into the characters that they stand for, none of which steers
// a terminal.
func clean(s string) string { return printable(html.UnescapeString(s)) }

// textOf is what spans say.
func textOf(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.text)
	}
	return strings.TrimSpace(b.String())
}

// labelWidth is how wide the labels of a card are.
const labelWidth = 13

// Beside is what a face adds to a card: Reported is what a source told, Rest says
// where the rest of the report is, Look how to have a cluster looked at.
type Beside struct{ Reported, Rest, Look string }

// Card is the card for a terminal, of about a dozen lines. Its commands stand alone
// and whole, to be copied.
func (s Screen) Card(c Card, beside Beside) string {
	w := cardWriter{Screen: s}
	if c.Unseen != "" {
		w.b.WriteString(s.wrap(indent{}, span{"No cluster was looked at: ", yellow + ";1"}, span{printable(parts("; ", strings.TrimSuffix(c.Unseen, "."), beside.Look)), yellow}))
	}
	w.row("Status", span{"● " + c.Status.Words, toneColours[c.Status.Tone]}, span{gravity(c), plainly})
	w.row("Reported", span{beside.Reported, plainly})
	w.row("Asked about", span{asked(c), plainly})
	w.row("To mend", span{c.Mend.String(), boldly})
	w.row("Cause", span{c.Cause, plainly})
	w.row("", span{parts("; ", c.CauseID, follow(c.Follows)), dimly})
	w.row("First step", span{c.First.Action, boldly})
	w.command(c.First.Command)
	w.row("", span{expected(c.First), dimly})
	w.row(confidenceLabel(c), span{parts("; ", string(c.Confidence), c.FactsChecked(), testSays(c.Test)), confidenceColour(c)})
	w.command(c.Test.Command)
	w.row("Not checked", span{notCheckedSays(c), plainly})
	if beside.Rest != "" { // a command or a path, which is copied as well
		w.b.WriteString(s.paint(fmt.Sprintf("%-*s", labelWidth, "The rest")+texts.FoldLine(beside.Rest), dimly) + "\n")
	}
	return w.b.String()
}

// cardWriter writes the rows of one card.
type cardWriter struct {
	Screen
	b strings.Builder
}

// row writes what a label stands for; nothing when there is nothing to say.
func (w *cardWriter) row(label string, said ...span) {
	for i := range said {
		said[i].text = printable(said[i].text)
	}
	if textOf(said) == "" {
		return
	}
	margin := strings.Repeat(" ", labelWidth)
	body := w.wrap(indent{margin, margin}, said...)
	w.b.WriteString(w.paint(fmt.Sprintf("%-*s", labelWidth, label), dimly) + body[labelWidth:])
}

// command writes a command in one line, which a terminal may break and a copy does not.
func (w *cardWriter) command(s string) {
	if s != "" {
		w.b.WriteString(strings.Repeat(" ", labelWidth) + w.paint(texts.FoldLine(s), inCyan) + "\n")
	}
}

var toneColours = map[Tone]string{Alarm: inRed + ";1", Warn: yellow + ";1", Calm: inGreen + ";1"}

// parts joins what is not empty.
func parts(by string, all ...string) string {
	var kept []string
	for _, s := range all {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, by)
}

// gravity is how bad it is, nothing where it is well.
func gravity(c Card) string {
	if c.Status.Tone == Calm {
		return ""
	}
	reach := ""
	if c.Impact != "" {
		reach = "impact: " + c.Impact
	}
	return strings.TrimSuffix(", "+parts(", ", c.Severity, reach), ", ")
}

// asked names what it was about, once: not again what is to be mended.
func asked(c Card) string {
	on := ""
	if c.Cluster != "" {
		on = "cluster " + c.Cluster
	}
	if c.Target.Kind == "Cluster" && on != "" {
		return on
	}
	return parts(" on ", c.Target.String(), on)
}

func follow(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "one symptom follows from it"
	}
	return fmt.Sprintf("%d symptoms follow from it", n)
}

func expected(s Step) string {
	if s.Outcome == "" {
		return ""
	}
	return "→ " + s.Outcome
}

func confidenceLabel(c Card) string {
	if c.Confidence == "" {
		return "Checked"
	}
	return "Confidence"
}

func confidenceColour(c Card) string {
	if c.Test.Refuted || c.Confidence == nightcrier.Low {
		return yellow
	}
	return plainly
}

func testSays(t Test) string {
	if t.Command == "" {
		return ""
	}
	return "its test " + t.Says + ":"
}

// maxWorst is how much of what was not checked stands in a card, in bytes.
const maxWorst = 160

func notCheckedSays(c Card) string {
	worst := texts.CutBytes(c.Worst.What, maxWorst)
	if c.Worst.Why != "" {
		worst += " (" + texts.CutBytes(c.Worst.Why, maxWorst) + ")"
	}
	switch {
	case c.NotChecked == 0:
		return "nothing that was needed is missing"
	case c.Unseen != "":
		return "anything but the event"
	case c.NotChecked == 1:
		return worst
	}
	return fmt.Sprintf("%d things, above all: %s", c.NotChecked, worst)
}
