package report

import (
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"

	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
)

// renderBody renders what a page takes of Markdown, and whether that is all of it: of what
// Final writes, the record of what was read (sections 5 and 6), as the page itself
// says the rest.
func renderBody(md []byte) (page []byte, whole bool) {
	doc, src := markdown.Parse(md)
	if whole = !isFinal(doc, src); whole {
		lowerHeadings(doc)
	} else {
		dropEmpty(doc)
		keepProof(doc, src)
	}
	return markdown.RenderHTML(doc, src), whole
}

// proofSection is the first section of a report that its page takes as it stands.
const proofSection = 5

// said are the parts of the record that the page says elsewhere.
var said = []string{inputsTitle, notCheckedTitle}

// isFinal reports whether a document is what Final writes, with a record to take.
func isFinal(doc ast.Node, src []byte) bool {
	if first := doc.FirstChild(); first == nil || headingText(first, src) != strings.TrimPrefix(Title, "# ") {
		return false
	}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if sectionOf(n, src) == proofSection {
			return true
		}
	}
	return false
}

// keepProof removes all but the record of what was read, whose last section becomes a
// part of it.
func keepProof(doc ast.Node, src []byte) {
	keep, skip := false, false
	for n := doc.FirstChild(); n != nil; {
		next := n.NextSibling()
		if h, ok := n.(*ast.Heading); ok && h.Level <= 3 {
			skip = slices.Contains(said, headingText(n, src))
		}
		switch section := sectionOf(n, src); {
		case section == len(headings)-1:
			excerpts := ast.NewHeading(3)
			excerpts.AppendChild(excerpts, ast.NewString([]byte("Excerpts")))
			doc.ReplaceChild(doc, n, excerpts)
		case section >= 0:
			keep = section == proofSection
			doc.RemoveChild(doc, n)
		case !keep || skip:
			doc.RemoveChild(doc, n)
		}
		n = next
	}
}

// dropEmpty removes headings with nothing below them but an excuse, which Final sets in
// italics.
func dropEmpty(doc ast.Node) {
	for n := doc.FirstChild(); n != nil; {
		next := n.NextSibling()
		if _, ok := n.(*ast.Heading); ok && next != nil && isExcuse(next) {
			excuse := next
			next = excuse.NextSibling()
			if _, ends := next.(*ast.Heading); ends || next == nil {
				doc.RemoveChild(doc, n)
				doc.RemoveChild(doc, excuse)
			}
		}
		n = next
	}
}

// lowerHeadings puts the headings of a document below those of the page.
func lowerHeadings(doc ast.Node) {
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			h.Level = min(h.Level+1, 6)
		}
	}
}

// isExcuse reports whether a node is one paragraph in italics.
func isExcuse(n ast.Node) bool {
	p, ok := n.(*ast.Paragraph)
	if !ok || p.ChildCount() != 1 {
		return false
	}
	e, ok := p.FirstChild().(*ast.Emphasis)
	return ok && e.Level == 1
}

// headingText is the text of a heading, "" of any other node.
func headingText(n ast.Node, src []byte) string {
	h, ok := n.(*ast.Heading)
	if !ok {
		return ""
	}
	return strings.TrimSpace(string(h.Lines().Value(src)))
}

// sectionOf is which of the seven sections a node begins, -1 for none.
func sectionOf(n ast.Node, src []byte) int {
	h, ok := n.(*ast.Heading)
	if !ok {
		return -1
	}
	return sectionNumber(line{text: headingText(n, src), level: h.Level})
}
