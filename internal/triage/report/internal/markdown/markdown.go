// Package markdown writes, reads and renders Markdown in which anybody may have written:
// text is escaped so that it stays text, what is read is bounded, and what is rendered
// loads nothing and leads nowhere but to web pages.
package markdown

import (
	"bytes"
	"html"
	"net/url"
	"regexp"
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

// MaxLine bounds a line, in bytes.
const MaxLine = 16 << 10

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

// Parse reads what is taken of Markdown, and returns the text that its nodes point into.
func Parse(md []byte) (doc ast.Node, src []byte) {
	src = []byte(flattenLines(Printable(string(md[:min(len(md), maxPage)]))))
	return markdown.Parser().Parse(mdtext.NewReader(src)), src
}

// RenderHTML renders a document that Parse returned.
func RenderHTML(doc ast.Node, src []byte) []byte {
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, src, doc); err != nil { // into memory
		return []byte("<pre>" + html.EscapeString(string(src)) + "</pre>")
	}
	return out.Bytes()
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
		l = texts.CutBytes(l, MaxLine)
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

// Fold says whether a block of HTML begins or ends what a browser folds.
type Fold int

// The folds. Only what our own rendering writes is one.
const (
	NoFold Fold = iota
	BeginsFold
	EndsFold
)

// ReadFold returns the text of a block of HTML, of one that begins a fold the summary.
func ReadFold(n *ast.HTMLBlock, src []byte) (said string, fold Fold) {
	said = string(n.Lines().Value(src))
	if n.HasClosure() {
		said += string(n.ClosureLine.Value(src))
	}
	if m := detailsRE.FindStringSubmatch(said); m != nil {
		return m[1], BeginsFold
	}
	if closesRE.MatchString(said) {
		return said, EndsFold
	}
	return said, NoFold
}

// htmlBlock lets through what our own rendering folds, and shows the rest as text.
func (*safely) htmlBlock(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkSkipChildren, nil
	}
	switch said, fold := ReadFold(n.(*ast.HTMLBlock), src); fold {
	case BeginsFold:
		writeParts(w, "<details><summary>", html.EscapeString(html.UnescapeString(said)), "</summary>\n")
	case EndsFold:
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
	case !IsWeb(to):
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
	case IsWeb(to):
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

// IsWeb reports whether a link leads to a web page.
func IsWeb(to string) bool {
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
