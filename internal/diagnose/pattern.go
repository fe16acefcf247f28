package diagnose

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first used. The rules
// have so many that a process which diagnoses nothing, as the worker beside an agent,
// would spend most of its start on them.
type pattern struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// newPattern makes the pattern of an expression; one that is none panics when it is used.
func newPattern(text string) *pattern { return &pattern{text: text} }

func (p *pattern) compiled() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.text) })
	return p.re
}

func (p *pattern) Match(b []byte) bool                  { return p.compiled().Match(b) }
func (p *pattern) MatchString(s string) bool            { return p.compiled().MatchString(s) }
func (p *pattern) FindString(s string) string           { return p.compiled().FindString(s) }
func (p *pattern) FindStringSubmatch(s string) []string { return p.compiled().FindStringSubmatch(s) }

func (p *pattern) FindStringSubmatchIndex(s string) []int {
	return p.compiled().FindStringSubmatchIndex(s)
}

func (p *pattern) FindAllString(s string, n int) []string {
	return p.compiled().FindAllString(s, n)
}

func (p *pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.compiled().FindAllStringSubmatch(s, n)
}

func (p *pattern) ReplaceAllString(s, with string) string {
	return p.compiled().ReplaceAllString(s, with)
}
