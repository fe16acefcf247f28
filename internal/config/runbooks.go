package config

import (
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/triage/runbook"
)

// Runbooks says where what people wrote for certain cases is found.
type Runbooks struct {
	// Dir holds Markdown files that say what they are for; empty means none.
	Dir string
	// AllowedHosts are where pages that alerts name may be fetched from.
	AllowedHosts []string
	// Timeout bounds the fetching of one.
	Timeout time.Duration
}

func runbookKeys() []key {
	return []key{
		{path: "runbooks.dir", typ: filePath(),
			doc:   "directory of runbooks: Markdown files whose front matter says which cases they are for",
			field: func(c *Config, _ *Cluster) any { return &c.Runbooks.Dir }},
		{path: "runbooks.allowed_hosts", typ: hostsType(),
			doc:   "hosts from which the page at an alert's `runbook_url` may be fetched: names, `*.domain`, addresses, each with `:port` or without, and networks that the names may resolve into",
			field: func(c *Config, _ *Cluster) any { return &c.Runbooks.AllowedHosts }},
		{path: "runbooks.timeout", typ: durationType(100*time.Millisecond, time.Minute), def: "5s",
			doc:   "how long fetching the page of a `runbook_url` may take",
			field: func(c *Config, _ *Cluster) any { return &c.Runbooks.Timeout }},
	}
}

// hostsType is a list of what runbooks may be fetched from.
func hostsType() valueType {
	t := listType()
	inner := t.parse
	t.parse = func(words []string) (any, error) {
		for _, w := range words {
			if err := runbook.CheckHost(w); err != nil {
				return nil, err
			}
		}
		return inner(words)
	}
	return t
}

// checkRunbooks tells of files that are never joined to a report.
func (l *loader) checkRunbooks(cfg *Config) {
	const at = "runbooks.dir"
	dir := cfg.Runbooks.Dir
	switch {
	case dir == "":
		return
	case !isDirectory(dir):
		l.addNeed(cfg, at, dir+" is not a directory: no runbooks are found")
		return
	}
	_, problems := runbook.Load(dir)
	for _, err := range problems[:min(len(problems), maxProblems)] {
		l.addNeed(cfg, at, strings.TrimSpace(err.Error()))
	}
}
