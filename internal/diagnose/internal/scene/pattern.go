package scene

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is first used. The rules
// have so many that a process which diagnoses nothing, as the worker beside an agent,
// would spend most of its start on them.
type Pattern struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// NewPattern makes the pattern of an expression; one that is none panics when it is used.
func NewPattern(text string) *Pattern { return &Pattern{text: text} }

func (p *Pattern) compiled() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.text) })
	return p.re
}

func (p *Pattern) Match(b []byte) bool { return p.compiled().Match(b) }

func (p *Pattern) MatchString(s string) bool { return p.compiled().MatchString(s) }

func (p *Pattern) FindString(s string) string { return p.compiled().FindString(s) }

func (p *Pattern) FindStringSubmatch(s string) []string { return p.compiled().FindStringSubmatch(s) }

func (p *Pattern) FindStringSubmatchIndex(s string) []int {
	return p.compiled().FindStringSubmatchIndex(s)
}

func (p *Pattern) FindAllString(s string, n int) []string {
	return p.compiled().FindAllString(s, n)
}

func (p *Pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.compiled().FindAllStringSubmatch(s, n)
}

func (p *Pattern) ReplaceAllString(s, with string) string {
	return p.compiled().ReplaceAllString(s, with)
}
