package report

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
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

// lineRoom is how long a line of text may be, 0 without end.
func (s Screen) lineRoom() int { return min(s.Width, widest) }

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

func (s Screen) paintText(text, style string) string {
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

// wrapSpans writes spans in lines that end with the screen. Words are kept whole.
func (s Screen) wrapSpans(in indent, spans ...span) string {
	var b strings.Builder
	lead, used, begun := in.first, 0, false
	for _, w := range splitWords(spans) {
		n := w.width()
		switch {
		case !begun:
		case s.lineRoom() > 0 && utf8.RuneCountInString(lead)+used+1+n > s.lineRoom():
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
			b.WriteString(s.paintText(piece.text, piece.style))
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

func splitWords(spans []span) (all []word) {
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
	doc, src := markdown.Parse(md)
	w := screenWriter{Screen: s, src: src}
	w.writeBlocks(doc, indent{"  ", "  "})
	return strings.TrimLeft(w.b.String(), "\n")
}

// screenWriter writes the blocks of one page.
type screenWriter struct {
	Screen
	src []byte
	b   strings.Builder
}

func (w *screenWriter) writeBlocks(parent ast.Node, in indent) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.writeBlock(n, in)
		in = in.next()
	}
}

func (w *screenWriter) writeBlock(n ast.Node, in indent) {
	switch n := n.(type) {
	case *ast.Heading:
		w.writeHeading(n)
	case *ast.List:
		w.writeList(n, in)
	case *extast.Table:
		w.writeTable(n, in)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		w.writeVerbatim(string(n.Lines().Value(w.src)), in.deeper("  "))
	case *ast.HTMLBlock:
		w.writeFolded(n, in)
	case *ast.Blockquote:
		w.writeBlocks(n, indent{in.first + "│ ", in.rest + "│ "})
	case *ast.ThematicBreak:
		w.writeGap()
	default:
		if _, tight := n.(*ast.TextBlock); !tight && in.first == in.rest {
			w.writeGap()
		}
		w.b.WriteString(w.wrapSpans(in, w.readInline(n, plainly)...))
	}
}

// writeGap leaves a line empty, one at most.
func (w *screenWriter) writeGap() {
	if s := w.b.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		w.b.WriteByte('\n')
	}
}

// writeHeading writes a section with a rule behind it, and what is below a section in bold.
func (w *screenWriter) writeHeading(n *ast.Heading) {
	w.writeGap()
	said := textOf(w.readInline(n, plainly))
	if n.Level > 2 {
		w.b.WriteString(w.wrapSpans(indent{}, span{said, boldly}))
		return
	}
	rule := ""
	if room := w.lineRoom() - utf8.RuneCountInString(said) - 1; n.Level == 2 && room > 0 {
		rule = " " + strings.Repeat("─", room)
	}
	w.b.WriteString(w.paintText(said, boldly) + w.paintText(rule, dimly) + "\n")
}

func (w *screenWriter) writeList(n *ast.List, in indent) {
	if _, nested := n.Parent().(*ast.ListItem); !nested {
		w.writeGap()
	}
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "• "
		if n.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		w.writeBlocks(item, in.deeper(mark))
		in = in.next()
	}
}

// writeTable writes a row as an item: a terminal is rarely as wide as a row. What the first
// column counts or names stands before the second, and the others are named by theirs.
func (w *screenWriter) writeTable(n *extast.Table, in indent) {
	w.writeGap()
	var names []string
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells [][]span
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			cells = append(cells, w.readInline(c, plainly))
		}
		if row.Kind() == extast.KindTableHeader {
			for _, c := range cells {
				names = append(names, textOf(c))
			}
			continue
		}
		w.writeRow(names, cells, in)
		in = in.next()
	}
}

func (w *screenWriter) writeRow(names []string, cells [][]span, in indent) {
	inner := in
	for i, c := range cells {
		switch {
		case i == 0 && len(cells) > 1:
			inner = in.deeper(textOf(c) + ". ")
		case i < 2:
			w.b.WriteString(w.wrapSpans(inner, c...))
			inner = inner.next()
		case textOf(c) != "" && i < len(names):
			w.b.WriteString(w.wrapSpans(inner, append([]span{{names[i] + ": ", dimly}}, c...)...))
		}
	}
}

// writeVerbatim writes lines as they are, however long: they are read by their columns.
func (w *screenWriter) writeVerbatim(s string, in indent) {
	w.writeGap()
	for line := range strings.Lines(s) {
		w.b.WriteString(strings.TrimRight(in.rest+strings.TrimSuffix(line, "\n"), " ") + "\n")
	}
}

// writeFolded writes what a browser folds, and other HTML as the text that it is.
func (w *screenWriter) writeFolded(n *ast.HTMLBlock, in indent) {
	switch said, fold := markdown.ReadFold(n, w.src); fold {
	case markdown.BeginsFold:
		w.writeGap()
		w.b.WriteString(w.wrapSpans(in, span{cleanEntities(said), boldly}))
	case markdown.NoFold:
		w.writeVerbatim(said, in)
	}
}

// readInline reads what stands in a block.
func (w *screenWriter) readInline(parent ast.Node, style string) (all []span) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			said := cleanEntities(string(util.UnescapePunctuations(n.Segment.Value(w.src))))
			if n.SoftLineBreak() || n.HardLineBreak() {
				said += " "
			}
			all = append(all, span{said, style})
		case *ast.String:
			all = append(all, span{cleanEntities(string(n.Value)), style})
		case *ast.CodeSpan:
			all = append(all, w.codeSpan(n, style)...)
		case *ast.Emphasis:
			all = append(all, w.readInline(n, emphasisStyle(n.Level, style))...)
		case *ast.AutoLink:
			all = append(all, span{cleanEntities(string(n.Label(w.src))), style})
		case *ast.RawHTML:
			all = append(all, span{string(n.Segments.Value(w.src)), style})
		case *extast.TaskCheckBox:
			all = append(all, span{map[bool]string{true: "[x] ", false: "[ ] "}[n.IsChecked], style})
		case *ast.Link:
			all = append(all, w.readInline(n, style)...)
			if to := string(n.Destination); markdown.IsWeb(to) {
				all = append(all, span{" (" + markdown.Printable(to) + ")", style})
			}
		default:
			all = append(all, w.readInline(n, style)...)
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

func emphasisStyle(level int, style string) string {
	switch {
	case style != plainly:
		return style
	case level > 1:
		return boldly
	}
	return dimly
}

// cleanEntities turns entities into the characters that they stand for, none of which steers
// a terminal.
func cleanEntities(s string) string { return markdown.Printable(html.UnescapeString(s)) }

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
// where the rest of the report is, Look how to have a cluster looked at, and Flags what
// commands of kubectl need more, such as a kubeconfig. Grounds are facts to show with it, and
// Unanswered is what of a question is open.
type Beside struct {
	Reported, Rest, Look, Flags, Unanswered string
	Grounds                                 []string
}

// Card is the card for a terminal, of about a dozen lines. Its commands stand alone
// and whole, to be copied.
func (s Screen) Card(c Card, beside Beside) string {
	w := cardWriter{Screen: s}
	if c.Unseen != "" {
		w.b.WriteString(s.wrapSpans(indent{}, span{"No cluster was looked at: ", yellow + ";1"}, span{markdown.Printable(joinNonEmpty("; ", strings.TrimSuffix(c.Unseen, "."), beside.Look)), yellow}))
	}
	w.writeRow("Status", span{"● " + c.Status.Words, toneColours[c.Status.Tone]}, span{describeGravity(c), plainly})
	w.writeRow("Reported", span{beside.Reported, plainly})
	w.writeRow("Not answered", span{beside.Unanswered, yellow})
	w.writeRow("Asked about", span{describeTarget(c), plainly})
	w.writeRow("To mend", span{c.Mend.String(), boldly})
	w.writeRow("Cause", span{c.Cause, plainly})
	w.writeRow("", span{joinNonEmpty("; ", c.CauseID, describeFollowing(c.Follows)), dimly})
	for i, fact := range beside.Grounds {
		w.writeRow([]string{"Shown by", ""}[min(i, 1)], span{fact, plainly})
	}
	w.writeRow("First step", span{c.First.Action, boldly})
	w.writeCommand(c.First.Command, beside.Flags)
	w.writeRow("", effect(c.First))
	w.writeRow("", span{expectedOutcome(c.First), dimly})
	w.writeRow(confidenceLabel(c), span{joinNonEmpty("; ", string(c.Confidence), c.FactsChecked(), testSays(c)), confidenceColour(c)})
	if c.Test.Command != c.First.Command {
		w.writeCommand(c.Test.Command, beside.Flags)
	}
	w.writeRow("Not checked", span{notCheckedSays(c), plainly})
	if beside.Rest != "" { // a command or a path, which is copied as well
		w.b.WriteString(s.paintText(fmt.Sprintf("%-*s", labelWidth, "The rest")+texts.FoldLine(beside.Rest), dimly) + "\n")
	}
	return w.b.String()
}

// cardWriter writes the rows of one card.
type cardWriter struct {
	Screen
	b strings.Builder
}

// writeRow writes what a label stands for; nothing when there is nothing to say.
func (w *cardWriter) writeRow(label string, said ...span) {
	for i := range said {
		said[i].text = markdown.Printable(said[i].text)
	}
	if textOf(said) == "" {
		return
	}
	margin := strings.Repeat(" ", labelWidth)
	body := w.wrapSpans(indent{margin, margin}, said...)
	w.b.WriteString(w.paintText(fmt.Sprintf("%-*s", labelWidth, label), dimly) + body[labelWidth:])
}

// writeCommand writes a command in one line, which a terminal may break and a copy does not.
func (w *cardWriter) writeCommand(s, flags string) {
	if s != "" {
		w.b.WriteString(strings.Repeat(" ", labelWidth) + w.paintText(texts.FoldLine(s+" "+flags), inCyan) + "\n")
	}
}

var toneColours = map[Tone]string{Alarm: inRed + ";1", Warn: yellow + ";1", Calm: inGreen + ";1"}

// joinNonEmpty joins what is not empty.
func joinNonEmpty(by string, all ...string) string {
	var kept []string
	for _, s := range all {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, by)
}

// describeGravity says how bad it is, nothing where it is well.
func describeGravity(c Card) string {
	if c.Status.Tone == Calm {
		return ""
	}
	reach := ""
	if c.Impact != "" {
		reach = "impact: " + c.Impact
	}
	return strings.TrimSuffix(", "+joinNonEmpty(", ", c.Severity, reach), ", ")
}

// describeTarget names what it was about, once: not again what is to be mended.
func describeTarget(c Card) string {
	on := ""
	if c.Cluster != "" {
		on = "cluster " + c.Cluster
	}
	if c.Target.Kind == "Cluster" && on != "" {
		return on
	}
	return joinNonEmpty(" on ", c.Target.String(), on)
}

func describeFollowing(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "one symptom follows from it"
	}
	return fmt.Sprintf("%d symptoms follow from it", n)
}

func expectedOutcome(s Step) string {
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

func testSays(c Card) string {
	switch c.Test.Command {
	case "":
		return ""
	case c.First.Command:
		return "its test, the command above, " + c.Test.Says
	}
	return "its test " + c.Test.Says + ":"
}

// effect warns of a command that changes the cluster, with its risk.
func effect(s Step) span {
	if s.Effect == Reads {
		return span{}
	}
	said := joinNonEmpty("; risk: ", "it "+string(s.Effect), s.Risk)
	if s.Effect == Destroys {
		return span{said, inRed + ";1"}
	}
	return span{said, yellow}
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
