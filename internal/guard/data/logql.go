package data

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/scanner"
	"time"
	"unicode"

	"github.com/prometheus/prometheus/model/labels"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// logsQuery is a query as it is sent, and what is known of it.
type logsQuery struct {
	text string
	// computed is set when the answer may hold numbers that the query made.
	computed bool
	// filters are what lines have to hold, after they were masked.
	filters []lineFilter
}

// readLogsQuery reads a query: a stream selector with filters of lines, or numbers that
// are counted from such. It is sent without those filters that would test lines before
// they are masked. With namespaces each stream selector is made anew, bound to them.
// What we cannot read is not sent.
func (s *system) readLogsQuery(text string, namespaces []string) (logsQuery, error) {
	if err := checkQuery(text); err != nil {
		return logsQuery{}, err
	}
	tokens, err := scanTokens(text)
	if err != nil {
		return logsQuery{}, err
	}
	r := logsReader{system: s, namespaces: namespaces, text: text, tokens: tokens}
	if err := r.readQuery(); err != nil {
		return logsQuery{}, err
	}
	return logsQuery{text: strings.TrimSpace(r.out.String() + text[r.done:]), computed: r.computed, filters: r.filters}, nil
}

// readStreams reads a stream selector alone.
func (s *system) readStreams(text string) error {
	if err := checkQuery(text); err != nil {
		return err
	}
	tokens, err := scanTokens(text)
	if err != nil {
		return err
	}
	r := logsReader{system: s, text: text, tokens: tokens}
	if err := r.readSelector(); err != nil {
		return err
	}
	if r.at < len(r.tokens) {
		return newUnreadError(`with values_of, the query is a stream selector such as {namespace="shop"}`)
	}
	return nil
}

func newUnreadError(why string) error {
	return nightcrier.Errorf(nightcrier.Invalid, "the query is not sent, because it cannot be read as LogQL: %s", text.CutLine(why, maxWords))
}

// token is a piece of a query, and where it stands.
type token struct {
	kind     rune
	text     string
	from, to int
}

// stringValue is what a string says.
func (t token) stringValue() (string, bool) {
	if t.kind != scanner.String && t.kind != scanner.RawString {
		return "", false
	}
	s, err := strconv.Unquote(t.text)
	return s, err == nil
}

// scanTokens takes a query apart as Go's scanner does, which is the one that Loki uses: both
// see the same strings. Comments and character literals, of which that is not sure,
// are errors.
func scanTokens(text string) (tokens []token, err error) {
	var s scanner.Scanner
	s.Init(strings.NewReader(text))
	s.Mode = scanner.GoTokens &^ scanner.SkipComments
	s.Error = func(_ *scanner.Scanner, why string) { err = newUnreadError(why) }
	for kind := s.Scan(); kind != scanner.EOF && err == nil; kind = s.Scan() {
		t := token{kind: kind, text: s.TokenText(), from: s.Position.Offset}
		t.to = t.from + len(t.text)
		if kind == scanner.Comment || kind == scanner.Char || kind == '#' || kind == '\'' {
			return nil, newUnreadError("it holds a comment or a single quote")
		}
		tokens = append(tokens, t)
	}
	return tokens, err
}

// logsReader goes through a query. What stands between its places goes out as it is.
type logsReader struct {
	system     *system
	namespaces []string
	text       string
	tokens     []token
	at         int // the next token

	out      strings.Builder
	done     int // how far the text was written
	computed bool
	selected int // stream selectors so far
	ranged   int // ranges so far
	filters  []lineFilter
}

// isNext reports whether the tokens to come are these signs, without a space between.
func (r *logsReader) isNext(signs string) bool {
	for i, sign := range signs {
		at := r.at + i
		if at >= len(r.tokens) || r.tokens[at].kind != sign || i > 0 && r.tokens[at].from != r.tokens[at-1].to {
			return false
		}
	}
	return true
}

// peekToken is the token so many places on; one of no kind where there is none.
func (r *logsReader) peekToken(n int) token {
	if r.at+n >= len(r.tokens) {
		return token{from: len(r.text), to: len(r.text)}
	}
	return r.tokens[r.at+n]
}

// replaceText has a text stand where those between two tokens stood.
func (r *logsReader) replaceText(from, to int, text string) {
	r.out.WriteString(r.text[r.done:from] + text)
	r.done = to
}

func (r *logsReader) readQuery() error {
	for r.at < len(r.tokens) {
		if err := r.readPiece(); err != nil {
			return err
		}
		if !r.asksNumbers() && r.at < len(r.tokens) {
			return newUnreadError(strconv.Quote(r.peekToken(0).text) + " belongs nowhere behind a stream selector and its filters")
		}
	}
	switch {
	case r.selected == 0:
		return newUnreadError(`it has no stream selector such as {namespace="shop"}`)
	case r.asksNumbers() && r.ranged < r.selected:
		// Loki reads ({…}) as lines too, which would be taken for numbers here.
		return newUnreadError("a query for lines begins with its stream selector, without parentheses; behind one that is counted stands a range such as [5m]")
	}
	return nil
}

// readPiece reads a selector with its filters, or one token of what is around them.
func (r *logsReader) readPiece() error {
	t := r.peekToken(0)
	_, filter := r.peekToken(2).stringValue()
	switch {
	case t.kind == '{':
		if err := r.readSelector(); err != nil {
			return err
		}
		return r.readStages()
	case t.kind == '|', filter && (r.isNext("!=") || r.isNext("!~")): // behind a range
		return r.readStages()
	case t.kind == '[':
		return r.readRange()
	case t.kind == scanner.Ident:
		return r.readWord(t)
	case strings.ContainsRune("+-*/%^", t.kind):
		r.computed = true
	case strings.ContainsRune("(),<>=!", t.kind), t.kind == scanner.Int, t.kind == scanner.Float:
	default:
		return newUnreadError(strconv.Quote(t.text) + " belongs nowhere in it")
	}
	r.at++
	return nil
}

// Words of LogQL that neither test nor make text. The numbers of those that make some
// are computed.
var (
	counting  = []string{"count_over_time", "rate", "bytes_over_time", "bytes_rate", "sum", "avg", "min", "max", "count", "stddev", "stdvar", "topk", "bottomk", "sort", "sort_desc", "and", "or", "unless"}
	making    = []string{"vector", "bool"}
	listing   = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,127}$`)
)

// readWord reads what has a name.
func (r *logsReader) readWord(t token) error {
	name := strings.ToLower(t.text)
	r.at++
	switch {
	case name == "offset":
		return r.readOffset()
	case slices.Contains(listing, name):
		return r.readLabelList()
	case slices.Contains(counting, name):
		return nil
	case slices.Contains(making, name):
		r.computed = true
		return nil
	}
	return notAsked(text.CutBytes(t.text, 40))
}

// readLabelList reads names of labels in parentheses, where there are any.
func (r *logsReader) readLabelList() error {
	if r.peekToken(0).kind != '(' {
		return nil
	}
	for r.at++; r.peekToken(0).kind != ')'; r.at++ {
		if t := r.peekToken(0); t.kind != ',' && !labelName.MatchString(t.text) {
			return newUnreadError("behind by, without, on and the like stand names of labels")
		}
	}
	r.at++
	return nil
}

// readSelector reads a stream selector.
func (r *logsReader) readSelector() error {
	open := r.peekToken(0)
	if open.kind != '{' {
		return newUnreadError(`a stream selector is of the form {label="value", other=~"a|b"}`)
	}
	var matchers []string
	for r.at++; r.peekToken(0).kind != '}'; {
		m, text, err := r.readMatcher()
		if err != nil {
			return err
		}
		if err := r.system.checkMatcher(m); err != nil {
			return err
		}
		matchers = append(matchers, text)
		switch r.peekToken(0).kind {
		case ',':
			r.at++
		case '}':
		default:
			return newUnreadError("the matchers of a stream selector are separated by commas")
		}
	}
	r.selected++
	if len(r.namespaces) > 0 {
		matchers = append(matchers, r.system.NamespaceLabel+"=~"+strconv.Quote(anyOf(r.namespaces)))
		r.replaceText(open.from, r.peekToken(0).to, "{"+strings.Join(matchers, ", ")+"}")
	}
	r.at++
	return nil
}

var matchTypes = []struct {
	sign string
	kind labels.MatchType
}{{"=~", labels.MatchRegexp}, {"!~", labels.MatchNotRegexp}, {"!=", labels.MatchNotEqual}, {"=", labels.MatchEqual}}

// readMatcher reads label="value", and returns it as it is to be written.
func (r *logsReader) readMatcher() (*labels.Matcher, string, error) {
	name := r.peekToken(0)
	r.at++
	for _, t := range matchTypes {
		if !r.isNext(t.sign) || !labelName.MatchString(name.text) {
			continue
		}
		at := r.peekToken(len(t.sign))
		value, ok := at.stringValue()
		if !ok {
			break
		}
		m, err := labels.NewMatcher(t.kind, name.text, value)
		if err != nil {
			return nil, "", newUnreadError(err.Error())
		}
		r.at += len(t.sign) + 1
		return m, name.text + t.sign + at.text, nil
	}
	return nil, "", newUnreadError(`labels are compared as in {label="value", other=~"a|b"}`)
}

// readStages reads what is done to lines, behind a selector or a range. A filter of lines
// is taken out, to be applied when they are masked; where only numbers come back, those
// alone are left that look for words of no secret.
func (r *logsReader) readStages() error {
	for {
		from := r.at
		f, err := r.readFilter()
		switch {
		case err != nil:
			return err
		case f != nil:
			if err := r.placeFilter(*f, r.tokens[from].from, r.tokens[r.at-1].to); err != nil {
				return err
			}
		case r.peekToken(0).kind == '|':
			if err := r.labelFilter(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// placeFilter takes a filter out of a query for lines: Loki would answer with the lines that
// pass alone, and without those around them a secret may be none. What is counted shows
// no line.
func (r *logsReader) placeFilter(f lineFilter, from, to int) error {
	switch {
	case r.asksNumbers() && !f.hasOnlyCommonWords():
		return nightcrier.Errorf(nightcrier.Refused, "lines are not counted by %s: that would tell of text before it is masked. Ask for the lines themselves, with the filter and without %s, or count those with a common word such as error, warn, panic, timeout", f.sign, r.text[r.tokens[0].from:r.tokens[0].to])
	case r.asksNumbers():
		return nil
	}
	r.filters = append(r.filters, f)
	r.replaceText(from, to, "")
	return nil
}

// asksNumbers reports whether the query asks for numbers.
func (r *logsReader) asksNumbers() bool { return r.tokens[0].kind != '{' }

// labelFilter reads | label="value", which looks at the labels of a stream: nothing in
// the query makes others.
func (r *logsReader) labelFilter() error {
	name := r.peekToken(1)
	if sign := r.peekToken(2).kind; name.kind != scanner.Ident || sign != '=' && sign != '!' {
		return nightcrier.Errorf(nightcrier.Refused, "| %s is not asked: it takes lines apart, changes them or reckons with them before they are masked. Ask for the lines as they are, with filters such as |= \"error\" or |~ \"time.?out\", and read in them", text.CutLine(name.text, 40))
	}
	r.at++
	m, _, err := r.readMatcher()
	if err != nil {
		return err
	}
	if next := strings.ToLower(r.peekToken(0).text); next == "or" || next == "and" || r.peekToken(0).kind == ',' {
		return newUnreadError("one label is compared in each stage, as in | level=\"error\" | pod=~\"cart.*\"")
	}
	return r.system.checkMatcher(m)
}

// readRange reads a range in brackets.
func (r *logsReader) readRange() error {
	open := r.peekToken(0)
	close := r.at + slices.IndexFunc(r.tokens[r.at:], func(t token) bool { return t.kind == ']' })
	if close < r.at || !isWithinLookback(strings.TrimSpace(r.text[open.to:r.tokens[close].from])) {
		return tooFar
	}
	r.at = close + 1
	r.ranged++
	return nil
}

// readOffset reads the duration behind the word.
func (r *logsReader) readOffset() error {
	if r.peekToken(0).kind == '-' {
		r.at++
	}
	from := r.peekToken(0).from
	length := strings.IndexFunc(r.text[from:], func(c rune) bool { return c != '.' && !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	if length < 0 {
		length = len(r.text) - from
	}
	if !isWithinLookback(r.text[from : from+length]) {
		return tooFar
	}
	for r.at < len(r.tokens) && r.peekToken(0).from < from+length {
		r.at++
	}
	return nil
}

var tooFar = nightcrier.Errorf(nightcrier.Invalid, "the query reaches back too far, or in a way that is not read: a range such as [5m] and an offset may be %dd at most", maxLookback/(24*time.Hour))

// piece is a number and its unit, of those that make up a duration.
var piece = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,15})?)(ns|us|µs|μs|ms|s|m|h|d|w|y)`)

var units = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
	"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "y": 365 * 24 * time.Hour,
}

// isWithinLookback reports whether a text is a duration that is no longer than queries may reach back.
func isWithinLookback(text string) bool {
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

// anyOf is an expression that matches these words alone.
func anyOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = regexp.QuoteMeta(w)
	}
	return strings.Join(quoted, "|")
}
