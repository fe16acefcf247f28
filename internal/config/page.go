package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Page is where people look at what the server does, and who they are.
type Page struct {
	// Listen is its address, empty for none; URL where people reach it through a proxy that
	// speaks TLS, empty for on this machine only.
	Listen, URL string
	// Tokens are NAME=SHA256 each: of what a person types to log in, only the digest is known.
	Tokens []string
}

// defaultPage is where the page of a server is that was told of no address.
const defaultPage = "127.0.0.1:8090"

func pageKeys() []key {
	return []key{
		{path: "page_listen", typ: addressType(checkAddress), def: defaultPage,
			doc:   "address of the page for people; another one than a loopback address needs `page_url` and `page_tokens`. The default is for a server without listen",
			field: func(c *Config, _ *Cluster) any { return &c.Page.Listen }},
		{path: "page_url", typ: textType(checkPageURL),
			doc:   "where people reach the page through a proxy that speaks TLS, such as `https://nightcrier.example.com`; unset means on this machine only",
			field: func(c *Config, _ *Cluster) any { return &c.Page.URL }},
		{path: "page_tokens", typ: tokenList(),
			doc:   "who may log in on the page with a token of their own: `NAME=DIGEST`, with the 64 hex digits that `printf %s TOKEN | sha256sum` prints; make the token with `openssl rand -hex 24`",
			field: func(c *Config, _ *Cluster) any { return &c.Page.Tokens }},
	}
}

// tokenList is a list of who may log in.
func tokenList() valueType {
	t := listType()
	inner := t.parse
	t.parse = func(words []string) (any, error) {
		for _, w := range words {
			name, digest, ok := strings.Cut(w, "=")
			if raw, err := hex.DecodeString(digest); !ok || name == "" || err != nil || len(raw) != 32 {
				return nil, errors.New("an entry is not NAME=DIGEST, with the 64 hex digits of a SHA-256; a token itself does not belong here")
			}
		}
		return inner(words)
	}
	return t
}

func checkPageURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s is not the https address of a host, such as https://nightcrier.example.com: the page has no place below a path, and a session must not go over the network in the clear", quoteValue(s))
	}
	return nil
}

// checkPage looks at what its keys mean together, and opens no port that nobody spoke of where
// listen says what is opened.
func (l *loader) checkPage(cfg *Config) {
	_, said := cfg.origins["page_listen"]
	if at, decided := cfg.origins["listen"]; decided && !said {
		cfg.Page.Listen = ""
		cfg.origins["page_listen"] = Origin{Layer: LayerDerived, Name: "listen is set by " + at.String()}
	}
	p := cfg.Page
	host, _, _ := net.SplitHostPort(p.Listen)
	if p.Listen != "" && !isLoopback(host) && (p.URL == "" || len(p.Tokens) == 0) {
		l.problemAt(cfg, "page_listen", errors.New("is reachable from other machines: set page_url, where a proxy speaks TLS for it, and page_tokens, by which people log in; or name a loopback address, such as "+defaultPage))
	}
	for _, other := range []string{cfg.Listen, cfg.HealthListen, cfg.WebhookListen} {
		if p.Listen != "" && p.Listen == other && !strings.HasSuffix(other, ":0") {
			l.problemAt(cfg, "page_listen", errors.New("is the same address as another one: choose another port"))
		}
	}
	if p.Listen == "" && said && (p.URL != "" || len(p.Tokens) > 0) {
		l.addNeed(cfg, "page_listen", "serves no page: page_url and page_tokens do nothing")
	}
}
