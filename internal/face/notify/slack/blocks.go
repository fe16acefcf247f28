package slack

import (
	"cmp"

	texts "nightcrier.dev/nightcrier/internal/text"
)

// payload is the body of an incoming webhook. All blocks but the title stand inside
// one attachment because only attachments carry a colour.
type payload struct {
	// Text is what notifications and screen readers show. The channel shows Blocks in
	// its place: no text object can tell Slack to leave this one as it is.
	Text        string       `json:"text"`
	Blocks      []block      `json:"blocks"`
	Attachments []attachment `json:"attachments,omitempty"`
	literal
}

// literal asks Slack to take a message's texts as they are: no markup, links or
// mentions made of plain words, and no preview of what a link leads to, which would
// also make Slack fetch it.
type literal struct {
	Mrkdwn      bool   `json:"mrkdwn"`
	Parse       string `json:"parse"`
	LinkNames   bool   `json:"link_names"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
}

// asItIs is literal in Slack's words; all else of it is off.
var asItIs = literal{Parse: "none"}

type attachment struct {
	Color    string  `json:"color"`
	Fallback string  `json:"fallback"`
	Blocks   []block `json:"blocks"`
}

type block struct {
	Type     string `json:"type"`
	Text     *text  `json:"text,omitempty"`
	Fields   []text `json:"fields,omitempty"`
	Elements []text `json:"elements,omitempty"`
}

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
	// Verbatim keeps Slack from making links and mentions out of plain words.
	Verbatim bool `json:"verbatim,omitempty"`
}

func plainText(s string) *text {
	return &text{Type: "plain_text", Text: escapeText(texts.FoldLine(s), maxHeader)}
}

// mrkdwnText takes text that is escaped already.
func mrkdwnText(s string) text { return text{Type: "mrkdwn", Text: s, Verbatim: true} }

func headerBlock(s string) block { return block{Type: "header", Text: plainText(s)} }

// sectionBlock shows a bold title over body, which may be hostile.
func sectionBlock(title, body string) block {
	lead := ""
	if title != "" {
		lead = "*" + title + "*\n"
	}
	t := mrkdwnText(lead + cmp.Or(escapeText(body, maxSection-len(lead)), "–")) // Slack refuses an empty text
	return block{Type: "section", Text: &t}
}

func dividerBlock() block { return block{Type: "divider"} }

// table is a list of label and value pairs; pairs without a value are left out.
type table [][2]string

func (t table) asBlock() block {
	b := block{Type: "section"}
	for _, row := range t {
		if row[1] != "" && len(b.Fields) < maxFields {
			b.Fields = append(b.Fields, mrkdwnText("*"+row[0]+"*\n"+escapeText(texts.FoldLine(row[1]), maxField-len(row[0])-3)))
		}
	}
	return b
}

// maxFields is Slack's limit of fields in a section.
const maxFields = 10

func footerBlock(parts ...string) block {
	b := block{Type: "context"}
	for _, p := range parts {
		if p != "" {
			b.Elements = append(b.Elements, mrkdwnText(p))
		}
	}
	return b
}
