package scene

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// screen tells of most texts that an expression cannot match, for a hundredth of what the
// expression takes to say so. Rules ask hundreds of expressions about every line of a log.
type screen struct {
	// parts are texts, in lower case, of which every match has one, unless it begins the
	// text as atStart does. None and no atStart: anything may match.
	parts   []part
	atStart *regexp.Regexp
}

// part is a text, and the marks that a line must have in which it stands.
type part struct {
	text  string
	marks []uint16
}

const (
	// tooShort is the length of parts that nearly every text has, telling the length from
	// which one tells as much as another.
	tooShort, telling = 2, 4
	// maxParts is how many parts one piece of an expression is written out as.
	maxParts = 64
	// longS is the one letter that an expression takes for another, s, and that lower case
	// does not make the same.
	longS = "\u017f"
)

func newScreen(pattern string) screen {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(err)
	}
	branches := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpAlternate {
		branches = tree.Sub
	}
	var s screen
	var begins []string
	for _, b := range branches {
		parts := partsOf(b)
		switch {
		case shortestLength(parts) < tooShort && len(branches) > 1 && b.Op == syntax.OpConcat && b.Sub[0].Op == syntax.OpBeginText:
			begins = append(begins, b.String())
		case shortestLength(parts) == 0:
			return screen{}
		default:
			for _, p := range parts {
				s.parts = append(s.parts, part{p, marksOf(p)})
			}
		}
	}
	if len(begins) > 0 {
		s.atStart = regexp.MustCompile(strings.Join(begins, "|"))
	}
	return s
}

// Line is a text of which many patterns are asked whether they match.
type Line struct {
	text, lower string
	marks       [64]uint64 // of all that it has
}

// NewLine makes a line of a text.
func NewLine(text string) *Line {
	l := &Line{text: text, lower: strings.ToLower(text)}
	for i := range max(0, len(l.lower)-2) {
		m := markOf(l.lower[i:])
		l.marks[m>>6] |= 1 << (m & 63)
	}
	return l
}

// markOf is a number below 4096 for the first three bytes of s.
func markOf(s string) uint16 {
	return uint16((uint32(s[0])*0x9e5 ^ uint32(s[1])*0x1b3 ^ uint32(s[2])*0x35) & 4095)
}

// marksOf are the first marks of a text: more tell hardly more.
func marksOf(s string) (marks []uint16) {
	for i := range min(4, max(0, len(s)-2)) {
		marks = append(marks, markOf(s[i:]))
	}
	return marks
}

// has reports whether the part stands in the line.
func (l *Line) has(p part) bool {
	for _, m := range p.marks {
		if l.marks[m>>6]&(1<<(m&63)) == 0 {
			return false
		}
	}
	return strings.Contains(l.lower, p.text)
}

// mayMatchLine reports whether the expression may match a line.
func (s screen) mayMatchLine(l *Line) bool {
	return s.mayMatch(l.text, l.has)
}

// mayMatchText is mayMatchLine for a text of which only one pattern is asked.
func (s screen) mayMatchText(text string) bool {
	lower := strings.ToLower(text)
	return s.mayMatch(text, func(p part) bool { return strings.Contains(lower, p.text) })
}

func (s screen) mayMatch(text string, has func(part) bool) bool {
	return len(s.parts) == 0 && s.atStart == nil || slices.ContainsFunc(s.parts, has) ||
		s.atStart != nil && s.atStart.MatchString(text) || strings.Contains(text, longS)
}

// partsOf are texts of which every match of the expression has one: those that tell
// most. None means that there are none.
func partsOf(re *syntax.Regexp) []string {
	if all, ok := writtenOut(re); ok {
		return all
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return partsOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return partsOf(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		run := []string{""}
		for _, sub := range re.Sub {
			all, ok := writtenOut(sub)
			if ok && len(run)*len(all) <= maxParts {
				run = joinEach(run, all)
				continue
			}
			best, run = betterParts(betterParts(best, run), partsOf(sub)), []string{""}
		}
		return betterParts(best, run)
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			parts := partsOf(sub)
			if shortestLength(parts) == 0 {
				return nil
			}
			all = append(all, parts...)
		}
		return all
	}
	return nil
}

// writtenOut are all texts that the expression matches, in lower case, if they are few.
func writtenOut(re *syntax.Regexp) (all []string, ok bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}, true
	case syntax.OpEmptyMatch, syntax.OpWordBoundary, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return []string{""}, true
	case syntax.OpCapture:
		return writtenOut(re.Sub[0])
	case syntax.OpQuest:
		all, ok = writtenOut(re.Sub[0])
		return append(all, ""), ok
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if all = append(all, strings.ToLower(string(r))); len(all) > 8 {
					return nil, false
				}
			}
		}
		slices.Sort(all)
		return slices.Compact(all), len(all) > 0
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			some, ok := writtenOut(sub)
			if all = append(all, some...); !ok || len(all) > maxParts {
				return nil, false
			}
		}
		return all, true
	case syntax.OpConcat:
		all = []string{""}
		for _, sub := range re.Sub {
			some, ok := writtenOut(sub)
			if !ok || len(all)*len(some) > maxParts {
				return nil, false
			}
			all = joinEach(all, some)
		}
		return all, true
	}
	return nil, false
}

func joinEach(heads, tails []string) (all []string) {
	for _, h := range heads {
		for _, t := range tails {
			all = append(all, h+t)
		}
	}
	return all
}

// betterParts are those that tell more: the longer, up to what tells enough, then the fewer.
func betterParts(a, b []string) []string {
	la, lb := shortestLength(a), shortestLength(b)
	if cmp.Or(cmp.Compare(min(la, telling), min(lb, telling)), cmp.Compare(len(b), len(a)), cmp.Compare(la, lb)) >= 0 {
		return a
	}
	return b
}

func shortestLength(parts []string) int {
	if len(parts) == 0 {
		return 0
	}
	return len(slices.MinFunc(parts, func(a, b string) int { return cmp.Compare(len(a), len(b)) }))
}
