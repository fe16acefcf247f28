package mask

import (
	"math"
	"regexp"
	"sync"
)

// pattern is a token whose shape a regular expression describes. It is compiled
// when its hint is first seen: most never are.
type pattern struct {
	id string
	// hint is lower case when fold is set. It stands back bytes behind the
	// beginning of a match.
	hint string
	fold bool
	back int
	expr string
	// entropy is what a token has more of, in bits for each byte; "xxxx" is none.
	entropy float64
}

func (p pattern) rule() rule {
	expr := sync.OnceValue(func() *regexp.Regexp {
		// One byte is left for what \b looks at. A match begins there or nowhere.
		return regexp.MustCompile(`\A(?s:.{0,1}?)(` + p.expr + `)`)
	})
	return rule{hint: p.hint, fold: p.fold, find: func(s string, at int) (int, int) { return p.find(expr(), s, at) }}
}

// reach is how much of a text a pattern looks at. It is more than the shortest
// token of any has, and little enough for the fast one of the two ways in which
// expressions are matched.
const reach = 512

// find takes the expression's own group, or all of a match.
func (p pattern) find(expr *regexp.Regexp, s string, at int) (int, int) {
	from := max(0, at-max(p.back, 1))
	if p.back == 0 && endsEscape(s[:at]) {
		from = at // the letter of an escape is none of the text
	}
	near := s[from:min(len(s), at+reach)]
	match := expr.FindStringSubmatchIndex(near)
	if match == nil {
		return -1, -1
	}
	secret := match[2:4]
	if len(match) > 4 && match[4] >= 0 {
		secret = match[4:6]
	}
	if entropy(near[secret[0]:secret[1]]) <= p.entropy {
		return -1, -1
	}
	end := from + secret[1]
	if end == at+reach { // it may be longer than what was looked at
		end = span(s, end, func(c byte) bool { return isBase64(c) || isTokenByte(c) })
	}
	return from + secret[0], end
}

// entropy is the entropy of s for each byte.
func entropy(s string) (sum float64) {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	for _, n := range count {
		if n > 0 {
			share := float64(n) / float64(len(s))
			sum -= share * math.Log2(share)
		}
	}
	return sum
}
