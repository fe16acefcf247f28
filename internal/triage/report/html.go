package report

import (
	"bytes"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	mdtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	texts "nightcrier.dev/nightcrier/internal/text"
)

// maxPage and maxPageLines bound the Markdown of a page, in bytes and lines,
// maxNests how deep its lists and quotes may lie in each other, maxColumns how wide
// its tables are: a row of one cell is filled up to the width of the table.
const (
	maxPage      = 1 << 20
	maxPageLines = 20_000
	maxNests     = 32
	maxColumns   = 50
)

// markdown knows tables and check lists, and passes no HTML on. It knows no
// definitions of links: a page of them would be searched line by line.
var markdown = goldmark.New(
	goldmark.WithParser(parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...), parser.WithInlineParsers(inlineParsers()...))),
	goldmark.WithExtensions(extension.Table, extension.TaskList),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(&safely{}, 100))),
)

// renderBody renders what a page takes of Markdown, and whether that is all of it: of what
// Final writes, the record of what was read (sections 5 and 6), as the page itself
// says the rest.
func renderBody(md []byte) (page []byte, whole bool) {
	src := []byte(flattenLines(printable(string(md[:min(len(md), maxPage)]))))
	doc := markdown.Parser().Parse(mdtext.NewReader(src))
	if whole = !isFinal(doc, src); whole {
		lowerHeadings(doc)
	} else {
		dropEmpty(doc)
		keepProof(doc, src)
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, src, doc); err != nil { // into memory
		return []byte("<pre>" + html.EscapeString(string(src)) + "</pre>"), whole
	}
	return out.Bytes(), whole
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

var nestRE = regexp.MustCompile(`^(?:[ \t]*(?:>|[-+*][ \t]|\d{1,9}[.)][ \t]))+`)

// columnsRE finds the line below the head of a table, which makes it one.
var columnsRE = regexp.MustCompile(`^[ \t>|:-]+$`)

// flattenLines cuts lines that open more lists and quotes in each other than anybody
// reads, each of which is a step of recursion for the renderer, tables wider than
// anybody reads, and lines beyond the bound.
func flattenLines(md string) string {
	lines := strings.Split(md, "\n")
	if len(lines) > maxPageLines {
		lines = append(lines[:maxPageLines], "", "_The rest is not shown here._")
	}
	for i, l := range lines {
		l = texts.CutBytes(l, maxLine)
		if open := nestRE.FindString(l); strings.Count(open, ">")+len(strings.Fields(open)) > maxNests {
			l = strings.TrimLeft(l[len(open):], " \t>")
		}
		if indent := len(l) - len(strings.TrimLeft(l, " \t")); indent > 4*maxNests {
			l = l[indent:]
		}
		if strings.Count(l, "|") > maxColumns && columnsRE.MatchString(l) {
			l = l[:maxColumns]
		}
		lines[i] = l
	}
	return strings.Join(lines, "\n")
}

// safely renders what could be more than text: HTML, links, images.
type safely struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (s *safely) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindHTMLBlock, s.htmlBlock)
	reg.Register(ast.KindRawHTML, s.rawHTML)
	reg.Register(ast.KindLink, s.renderLink)
	reg.Register(ast.KindAutoLink, s.autoLink)
	reg.Register(ast.KindImage, s.renderImage)
}

var (
	detailsRE = regexp.MustCompile(`^<details><summary>([^<]*)</summary>\s*$`)
	closesRE  = regexp.MustCompile(`^</details>\s*$`)
)

// htmlBlock lets through what our own rendering folds, and shows the rest as text.
func (*safely) htmlBlock(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkSkipChildren, nil
	}
	block := n.(*ast.HTMLBlock)
	said := string(block.Lines().Value(src))
	if block.HasClosure() {
		said += string(block.ClosureLine.Value(src))
	}
	switch m := detailsRE.FindStringSubmatch(said); {
	case m != nil:
		writeParts(w, "<details><summary>", html.EscapeString(html.UnescapeString(m[1])), "</summary>\n")
	case closesRE.MatchString(said):
		writeParts(w, "</details>\n")
	default:
		writeParts(w, "<pre>", html.EscapeString(said), "</pre>\n")
	}
	return ast.WalkSkipChildren, nil
}

func (*safely) rawHTML(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		writeParts(w, html.EscapeString(string(n.(*ast.RawHTML).Segments.Value(src))))
	}
	return ast.WalkSkipChildren, nil
}

// renderLink writes a link that can go nowhere but to a web page, else its text alone.
func (*safely) renderLink(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	to := string(n.(*ast.Link).Destination)
	switch {
	case !isWeb(to):
	case entering:
		openLink(w, to)
	default:
		writeParts(w, "</a>")
	}
	return ast.WalkContinue, nil
}

func (*safely) autoLink(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	link := n.(*ast.AutoLink)
	to, label := string(link.URL(src)), html.EscapeString(string(link.Label(src)))
	switch {
	case !entering:
	case isWeb(to):
		openLink(w, to)
		writeParts(w, label, "</a>")
	default:
		writeParts(w, label)
	}
	return ast.WalkContinue, nil
}

// renderImage shows what an image would say; nothing is loaded.
func (*safely) renderImage(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		writeParts(w, "[image: ")
	} else {
		writeParts(w, "]")
	}
	return ast.WalkContinue, nil
}

func isWeb(to string) bool {
	u, err := url.Parse(to)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

func openLink(w util.BufWriter, to string) {
	writeParts(w, `<a rel="noopener noreferrer nofollow" href="`, html.EscapeString(to), `">`)
}

// writeParts writes into memory, which does not fail.
func writeParts(w util.BufWriter, parts ...string) {
	for _, p := range parts {
		_, _ = w.WriteString(p)
	}
}
