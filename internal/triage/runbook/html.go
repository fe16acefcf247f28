package runbook

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// silent are elements whose content nobody reads on a page.
var silent = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true, atom.Svg: true, atom.Iframe: true, atom.Nav: true}

// block are elements that begin on a line of their own.
var block = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Br: true, atom.Tr: true, atom.Table: true, atom.Pre: true, atom.Section: true, atom.Article: true,
	atom.Ul: true, atom.Ol: true, atom.Blockquote: true, atom.Hr: true, atom.Dt: true, atom.Dd: true,
}

// headings are shown as Markdown shows them.
var headings = map[atom.Atom]string{atom.H1: "# ", atom.H2: "## ", atom.H3: "### ", atom.H4: "#### ", atom.H5: "##### ", atom.H6: "###### "}

// textOfPage returns the title and the text of a page, and nothing else of it: no
// links, no images, no markup.
func textOfPage(page string) (name, text string) {
	p := pageText{tokens: html.NewTokenizer(strings.NewReader(page))}
	for p.readToken() {
	}
	return p.title.String(), p.text.String()
}

type pageText struct {
	tokens      *html.Tokenizer
	title, text strings.Builder
	// muted is the element whose end is awaited.
	muted         atom.Atom
	inTitle, verb bool // verb: within pre, where white space counts
	// blank: a line begins here. apart: white space stood before what comes.
	blank, apart bool
}

// readToken reads one token; false at the end.
func (p *pageText) readToken() bool {
	kind := p.tokens.Next()
	if kind == html.ErrorToken {
		return false
	}
	t := p.tokens.Token()
	switch {
	case p.muted != 0:
		if kind == html.EndTagToken && t.DataAtom == p.muted {
			p.muted = 0
		}
	case kind == html.TextToken:
		p.writeText(t.Data)
	case kind == html.StartTagToken && silent[t.DataAtom]:
		p.muted = t.DataAtom
	case kind == html.StartTagToken || kind == html.EndTagToken || kind == html.SelfClosingTagToken:
		p.handleTag(t.DataAtom, kind != html.EndTagToken)
	}
	return true
}

func (p *pageText) handleTag(a atom.Atom, opens bool) {
	switch {
	case a == atom.Title:
		p.inTitle = opens
	case a == atom.Li && opens:
		p.beginLine("- ")
	case headings[a] != "":
		p.beginLine("")
		if opens {
			p.beginLine(headings[a])
		}
	case block[a]:
		p.verb = a == atom.Pre && opens || a != atom.Pre && p.verb
		p.beginLine("")
	}
}

// beginLine begins a new line, after at most one empty one.
func (p *pageText) beginLine(with string) {
	s := p.text.String()
	if s != "" && !strings.HasSuffix(s, "\n\n") {
		p.text.WriteByte('\n')
	}
	p.text.WriteString(with)
	p.blank, p.apart = true, false
}

func (p *pageText) writeText(s string) {
	switch {
	case p.inTitle:
		p.title.WriteString(s)
	case p.verb:
		p.text.WriteString(s)
	default:
		words := strings.Join(strings.Fields(s), " ")
		apart := p.apart || s != strings.TrimLeftFunc(s, unicode.IsSpace)
		p.apart = s != strings.TrimRightFunc(s, unicode.IsSpace) || words == "" && apart
		if words == "" {
			return
		}
		if apart && !p.blank {
			p.text.WriteByte(' ')
		}
		p.text.WriteString(words)
	}
	p.blank = false
}
