package data

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/scanner"
	"time"
	"unicode"

	"nightcrier.dev/nightcrier"
)

// logsQuery is a query as it is sent, and what is known of it.
type logsQuery struct {
	text     string
	computed bool
}

// makers are what in LogQL makes words or numbers of whoever asks.
var makers = []string{
	"line_format", "label_format", "json", "logfmt", "regexp", "pattern", "unpack", "label_replace", "vector", "absent_over_time", "bool",
	"+", "-", "*", "/", "%", "^",
}

// readLogsQuery reads a query as far as it must. With namespaces each stream selector
// is taken to pieces and made anew, bound to them, and what we cannot read is refused.
func (s *system) readLogsQuery(text string, namespaces []string) (logsQuery, error) {
	if err := checkQuery(text); err != nil {
		return logsQuery{}, err
	}
	tokens, err := scan(text)
	if err != nil && len(namespaces) > 0 {
		return logsQuery{}, unbound(err.Error())
	}
	if err := checkReach(text); err != nil {
		return logsQuery{}, err
	}
	if err != nil {
		return logsQuery{text: text, computed: true}, nil
	}
	q := logsQuery{text: text, computed: slices.ContainsFunc(tokens, func(t token) bool { return slices.Contains(makers, t.text) })}
	if len(namespaces) > 0 {
		q.text, err = s.bindStreams(text, tokens, namespaces)
	}
	return q, err
}

func unbound(why string) error {
	return nightcrier.Errorf(nightcrier.Refused, "the query is not sent: this cluster is looked at in some namespaces alone, and this query cannot be bound to them: %s", clip(oneLine(why), maxWords))
}

// token is a piece of a query, and where it stands.
type token struct {
	kind     rune
	text     string
	from, to int
}

// scan takes a query apart as Go's scanner does, which is the one that Loki uses: both
// see the same strings. Comments and character literals, of which that is not sure,
// are errors.
func scan(text string) (tokens []token, err error) {
	var s scanner.Scanner
	s.Init(strings.NewReader(text))
	s.Mode = scanner.GoTokens &^ scanner.SkipComments
	s.Error = func(_ *scanner.Scanner, why string) { err = nightcrier.Errorf(nightcrier.Invalid, "%s", why) }
	for kind := s.Scan(); kind != scanner.EOF && err == nil; kind = s.Scan() {
		t := token{kind: kind, text: s.TokenText(), from: s.Position.Offset}
		t.to = t.from + len(t.text)
		if kind == scanner.Comment || kind == scanner.Char || kind == '#' || kind == '\'' {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "it holds a comment or a single quote")
		}
		tokens = append(tokens, t)
	}
	return tokens, err
}

// checkReach refuses what reaches back too far, by a range in brackets or an offset. It
// passes over comments as Loki does, and refuses what cannot be taken apart: Loki does too.
func checkReach(text string) (err error) {
	var s scanner.Scanner
	s.Init(strings.NewReader(text))
	s.Mode = scanner.GoTokens
	s.Error = func(_ *scanner.Scanner, why string) {
		err = nightcrier.Errorf(nightcrier.Invalid, "the query is not sent: %s", why)
	}
	behind := "" // [ or offset, which a duration may follow
	for kind := s.Scan(); kind != scanner.EOF && err == nil; kind = s.Scan() {
		switch {
		case kind == '#':
			for c := s.Next(); c != '\n' && c != scanner.EOF; {
				c = s.Next()
			}
			continue
		case kind == '[':
			from := s.Position.Offset + 1
			to := strings.IndexByte(text[from:], ']')
			if to < 0 || !within(strings.TrimSpace(text[from:from+to])) {
				return tooFar
			}
		case behind == "offset" && kind == '-':
			continue
		case behind == "offset" && (kind == scanner.Int || kind == scanner.Float):
			word := text[s.Position.Offset:]
			if end := strings.IndexFunc(word, func(r rune) bool { return r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }); end >= 0 {
				word = word[:end]
			}
			if !within(word) {
				return tooFar
			}
		}
		behind = strings.ToLower(s.TokenText())
	}
	return err
}

var tooFar = nightcrier.Errorf(nightcrier.Invalid, "the query reaches back too far, or in a way that is not read: a range such as [5m] and an offset may be %dd at most", maxLookback/(24*time.Hour))

// piece is a number and its unit, of those that make up a duration.
var piece = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,15})?)(ns|us|µs|μs|ms|s|m|h|d|w|y)`)

var units = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
	"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "y": 365 * 24 * time.Hour,
}

// within reports whether a text is a duration that is no longer than queries may reach back.
func within(text string) bool {
	sum := 0.0
	for text != "" {
		m := piece.FindStringSubmatch(text)
		if m == nil {
			return false
		}
		n, _ := strconv.ParseFloat(m[1], 64) // the expression lets numbers through alone
		sum += n * float64(units[m[2]])
		text = text[len(m[0]):]
	}
	return sum > 0 && sum <= float64(maxLookback)
}

// bindStreams replaces each stream selector, which is what stands in braces, by the
// same with a matcher more.
func (s *system) bindStreams(text string, tokens []token, namespaces []string) (string, error) {
	matcher := s.NamespaceLabel + "=~" + strconv.Quote(anyOf(namespaces))
	var out strings.Builder
	done, bound := 0, 0
	for i := 0; i < len(tokens); i++ {
		switch tokens[i].kind {
		case '}':
			return "", unbound("a } has no {")
		case '{':
			end := i + 1 + slices.IndexFunc(tokens[i+1:], func(t token) bool { return t.kind == '}' })
			if end == i {
				return "", unbound("a { has no }")
			}
			matchers, err := streamMatchers(tokens[i+1 : end])
			if err != nil {
				return "", err
			}
			out.WriteString(text[done:tokens[i].from] + "{" + strings.Join(append(matchers, matcher), ", ") + "}")
			done, i = tokens[end].to, end
			bound++
		}
	}
	if bound == 0 {
		return "", unbound(`it has no stream selector such as {namespace="shop"}`)
	}
	return out.String() + text[done:], nil
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,127}$`)

// streamMatchers reads what stands between braces: names, operators and strings.
func streamMatchers(tokens []token) (matchers []string, err error) {
	for len(tokens) > 0 {
		name := tokens[0]
		op := 1
		for op < len(tokens) && strings.ContainsRune("=!~", tokens[op].kind) {
			op++
		}
		words := make([]string, 0, 2)
		for _, t := range tokens[1:op] {
			words = append(words, t.text)
		}
		sign := strings.Join(words, "")
		if !labelName.MatchString(name.text) || !slices.Contains([]string{"=", "!=", "=~", "!~"}, sign) ||
			op == len(tokens) || tokens[op].kind != scanner.String && tokens[op].kind != scanner.RawString {
			return nil, unbound(`a stream selector is of the form {label="value", other=~"a|b"}`)
		}
		matchers = append(matchers, name.text+sign+tokens[op].text)
		if tokens = tokens[op+1:]; len(tokens) > 0 {
			if tokens[0].kind != ',' {
				return nil, unbound("the matchers of a stream selector are separated by commas")
			}
			tokens = tokens[1:]
		}
	}
	return matchers, nil
}

// anyOf is an expression that matches these words alone.
func anyOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = regexp.QuoteMeta(w)
	}
	return strings.Join(quoted, "|")
}
