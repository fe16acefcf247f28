package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html"
	"html/template"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	mdtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"nightcrier.dev/nightcrier"
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

//go:embed page.css
var pageCSS string

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"clean": Printable}).Parse(pageText))

// ContentSecurityPolicy is what a page of HTML may do in a browser: show itself in
// its own style. It holds for the page as a file and as an answer.
var ContentSecurityPolicy = "default-src 'none'; style-src 'sha256-" + digest(pageCSS) + "'; base-uri 'none'; form-action 'none'"

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// pageData is what the page shows beside the Markdown.
type pageData struct {
	Title, Policy, Tone, Status string
	CSS                         template.CSS
	Report                      *nightcrier.Report
	Cause, Confidence           string
	Checked, Facts              int
	Sections                    []section
	Body                        template.HTML
}

// section is an entry of the page's contents.
type section struct{ ID, Name string }

// HTML makes one page of a report: r in short on top, below it md, which is what
// Final or an agent wrote. The page holds no script, loads nothing, and takes no
// HTML from md.
func HTML(r *nightcrier.Report, md []byte) []byte {
	d := pageData{
		Title: or(r.Target.String(), "Incident "+r.IncidentID), Policy: ContentSecurityPolicy, CSS: template.CSS(pageCSS), Report: r,
		Status: status(r), Tone: tone(r), Facts: len(r.Facts), Checked: checked(r), Sections: contents(),
		Body: template.HTML(body(md)), // body escapes all that is not Markdown
	}
	if rc := r.RootCause; rc != nil {
		d.Cause, d.Confidence = rc.Summary, string(rc.Confidence)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, d); err != nil { // into memory: the template is wrong
		return []byte("<!doctype html><title>report</title><p>The report could not be shown.")
	}
	return out.Bytes()
}

// tone is the colour of a report.
func tone(r *nightcrier.Report) string {
	switch status(r) {
	case statusResolved:
		return "calm"
	case statusActive:
		return "alarm"
	}
	return "warn"
}

func contents() []section {
	var out []section
	for i, h := range headings {
		_, name, _ := strings.Cut(h, ". ")
		out = append(out, section{sectionID(i), name})
	}
	return out
}

func sectionID(n int) string { return "section-" + strconv.Itoa(n) }

// markdown knows tables and check lists, and passes no HTML on. It knows no
// definitions of links: a page of them would be searched line by line.
var markdown = goldmark.New(
	goldmark.WithParser(parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...), parser.WithInlineParsers(inlineParsers()...))),
	goldmark.WithExtensions(extension.Table, extension.TaskList),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(&safely{}, 100))),
)

// body renders Markdown, without its title: the page has one.
func body(md []byte) []byte {
	src := []byte(flatten(Printable(string(md[:min(len(md), maxPage)]))))
	doc := markdown.Parser().Parse(mdtext.NewReader(src))
	for n := doc.FirstChild(); n != nil; {
		next := n.NextSibling()
		if h, ok := n.(*ast.Heading); ok {
			said := strings.TrimSpace(string(h.Lines().Value(src)))
			if h.Level == 1 && sameHeading(said, strings.TrimPrefix(Title, "# ")) {
				doc.RemoveChild(doc, h)
			}
			if i := sectionNumber(line{text: said, level: h.Level}); i >= 0 {
				h.SetAttributeString("id", []byte(sectionID(i)))
			}
		}
		n = next
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, src, doc); err != nil { // into memory
		return []byte("<pre>" + html.EscapeString(string(src)) + "</pre>")
	}
	return out.Bytes()
}

var nestRE = regexp.MustCompile(`^(?:[ \t]*(?:>|[-+*][ \t]|\d{1,9}[.)][ \t]))+`)

// columnsRE finds the line below the head of a table, which makes it one.
var columnsRE = regexp.MustCompile(`^[ \t>|:-]+$`)

// flatten cuts lines that open more lists and quotes in each other than anybody
// reads, each of which is a step of recursion for the renderer, tables wider than
// anybody reads, and lines beyond the bound.
func flatten(md string) string {
	lines := strings.Split(md, "\n")
	if len(lines) > maxPageLines {
		lines = append(lines[:maxPageLines], "", "_The rest is not shown here._")
	}
	for i, l := range lines {
		l = clip(l, maxLine)
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
	reg.Register(ast.KindLink, s.link)
	reg.Register(ast.KindAutoLink, s.autoLink)
	reg.Register(ast.KindImage, s.image)
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
		put(w, "<details><summary>", html.EscapeString(html.UnescapeString(m[1])), "</summary>\n")
	case closesRE.MatchString(said):
		put(w, "</details>\n")
	default:
		put(w, "<pre>", html.EscapeString(said), "</pre>\n")
	}
	return ast.WalkSkipChildren, nil
}

func (*safely) rawHTML(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		put(w, html.EscapeString(string(n.(*ast.RawHTML).Segments.Value(src))))
	}
	return ast.WalkSkipChildren, nil
}

// link writes a link that can go nowhere but to a web page, else its text alone.
func (*safely) link(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	to := string(n.(*ast.Link).Destination)
	switch {
	case !isWeb(to):
	case entering:
		openLink(w, to)
	default:
		put(w, "</a>")
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
		put(w, label, "</a>")
	default:
		put(w, label)
	}
	return ast.WalkContinue, nil
}

// image shows what an image would say; nothing is loaded.
func (*safely) image(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		put(w, "[image: ")
	} else {
		put(w, "]")
	}
	return ast.WalkContinue, nil
}

func isWeb(to string) bool {
	u, err := url.Parse(to)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

func openLink(w util.BufWriter, to string) {
	put(w, `<a rel="noopener noreferrer nofollow" href="`, html.EscapeString(to), `">`)
}

// put writes into memory, which does not fail.
func put(w util.BufWriter, parts ...string) {
	for _, p := range parts {
		_, _ = w.WriteString(p)
	}
}
