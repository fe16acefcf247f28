package report

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// minValue is how many characters a value needs so that finding it says
// something.
const minValue = 6

// maxCompared bounds, in bytes, how much evidence is searched for the values of
// one report: seconds. What is left then is unseen.
const maxCompared = 4 << 30

// perPiece is what looking at a piece of evidence counts beside its bytes.
const perPiece = 2 << 10

// Check marks each fact as seen or unseen against the evidence it cites, and
// computes the checked share. A fact is seen when all the values it quotes stand
// in that evidence, at least one of them is not trivial, and the evidence is
// about the object. Only a built-in rule's report keeps its verified marks, and
// only with evidence that exists.
func Check(r *nightcrier.Report, ev Evidence) {
	c := checker{ev: ev, subjects: listSubjects(r), pieces: map[string][]piece{}, left: maxCompared}
	for i := range r.Facts {
		f := &r.Facts[i]
		if r.Source == "builtin" && f.Check == nightcrier.Verified && len(c.citedPieces(f.Evidence)) > 0 {
			continue
		}
		f.Check = nightcrier.Unseen
		if c.isSeen(*f) {
			f.Check = nightcrier.Seen
		}
	}
	r.CheckedShare = 0
	if len(r.Facts) > 0 {
		r.CheckedShare = float64(countChecked(r)) / float64(len(r.Facts))
	}
}

// countChecked counts the facts that are seen or verified.
func countChecked(r *nightcrier.Report) int {
	n := 0
	for _, f := range r.Facts {
		if f.Check == nightcrier.Seen || f.Check == nightcrier.Verified {
			n++
		}
	}
	return n
}

type checker struct {
	ev Evidence
	// subjects are the names of the objects that the report is about, plain and in
	// normal form.
	subjects []name
	// pieces holds each evidence, taken apart.
	pieces map[string][]piece
	// left is how many bytes may still be searched.
	left int64
}

// name is the name of an object.
type name struct{ plain, normal string }

// listSubjects lists the objects that the report names as such.
func listSubjects(r *nightcrier.Report) []name {
	objects := []nightcrier.Object{r.Target}
	if r.RootCause != nil {
		objects = append(objects, r.RootCause.Object)
	}
	for _, h := range r.Hypotheses {
		objects = append(objects, h.Object)
	}
	var names []name
	for _, o := range objects {
		if o.Name != "" {
			names = append(names, name{o.Name, normalText(o.Name)})
		}
	}
	return names
}

// citedPieces returns the cited evidence, each once; what does not exist is left out.
func (c *checker) citedPieces(ids []string) []piece {
	var out []piece
	once := map[string]bool{}
	for _, id := range ids {
		if once[id] {
			continue
		}
		once[id] = true
		pieces, known := c.pieces[id]
		if !known {
			if kept, found := c.ev(id); found {
				pieces = takeApart(kept)
			}
			c.pieces[id] = pieces
		}
		out = append(out, pieces...)
	}
	return out
}

// containsWords reports whether the words, in normal form, stand in the piece.
func (c *checker) containsWords(p *piece, words string) bool { return c.hasText(p, " "+words+" ") }

// hasText reports whether the piece's text holds s.
func (c *checker) hasText(p *piece, s string) bool {
	if c.left <= 0 {
		return false
	}
	at := strings.Index(p.text, s)
	if at < 0 {
		c.left -= int64(len(p.text))
		return false
	}
	c.left -= int64(at + len(s))
	return true
}

// isSeen reports whether each value of the fact stands in a piece of the cited
// evidence that is about the object, and one of them says something there.
func (c *checker) isSeen(f nightcrier.Fact) bool {
	about := c.piecesAbout(f)
	if len(about) == 0 {
		return false
	}
	solid := false
	for _, v := range quotedValues(f) {
		stands := false
		for i := range about {
			if c.hasValue(v, &about[i]) {
				stands, solid = true, solid || about[i].isTelling(v.text)
			}
		}
		if !stands {
			return false
		}
	}
	return solid
}

// piecesAbout returns the pieces of the cited evidence that are about what the fact is
// about. A piece holds the name of one of the objects that the fact names
// (cart-7d4b-x2x7q, worker-1), or else of one that the report is about. A piece
// that is an object is that object besides, or belongs to it: what another one
// says of itself in the same list shows nothing.
func (c *checker) piecesAbout(f nightcrier.Fact) []piece {
	if c.left <= 0 {
		return nil
	}
	said := f.Text + " " + f.Quote
	names := objectNames(said)
	if len(names) == 0 {
		for _, s := range c.subjects {
			names = append(names, s.normal)
		}
	}
	said = " " + normalText(said) + " "
	var out []piece
	for _, p := range c.citedPieces(f.Evidence) {
		if c.left -= int64(len(said)) + perPiece; c.left <= 0 {
			return nil
		}
		named := slices.ContainsFunc(p.names, func(n name) bool { return strings.Contains(said, " "+n.normal+" ") })
		holds := slices.ContainsFunc(names, func(n string) bool { return c.containsWords(&p, n) })
		switch {
		case len(p.names) == 0 && holds,
			holds && (named || c.ofSubject(p)),
			named && len(objectNames(f.Text+" "+f.Quote)) == 0:
			out = append(out, p)
		}
	}
	return out
}

// ofSubject reports whether a piece is one of the objects that the report is
// about, or was made by one.
func (c *checker) ofSubject(p piece) bool {
	for _, n := range p.names {
		for _, s := range c.subjects {
			if n.plain == s.plain || madeBy(n.plain, s.plain) || madeBy(s.plain, n.plain) {
				return true
			}
		}
	}
	return false
}

// madeBy reports whether a controller made the object of that name: it appends a
// hash, a number, or two of them.
func madeBy(made, by string) bool {
	rest, ok := strings.CutPrefix(made, by+"-")
	return ok && madeRE.MatchString(rest)
}

// madeRE is what controllers append: their alphabet has no vowels.
var madeRE = regexp.MustCompile(`^(?:[bcdfghjklmnpqrstvwxz2456789]{4,10}|\d{1,10})(?:-(?:[bcdfghjklmnpqrstvwxz2456789]{4,10}|\d{1,10}))?$`)

// nameRE finds names that a controller or a numbering made: parts joined by
// dashes, the last with a digit.
var nameRE = regexp.MustCompile(`\b[a-z][a-z0-9]*(?:-[a-z0-9]+)*-[a-z0-9]*[0-9][a-z0-9]*\b`)

func objectNames(s string) []string {
	var names []string
	for _, n := range nameRE.FindAllString(s, 50) {
		names = append(names, normalText(n))
	}
	return names
}

// value is something that a fact quotes.
type value struct {
	text string
	// cut is set when dots stand where the rest was left out, as we show a long
	// message: the last word may be the beginning of one.
	cut bool
}

// quotedValues are what a fact quotes: the quote, taken apart at its lines, commas,
// semicolons and dots; without a quote what its text puts between backticks or
// quotes.
func quotedValues(f nightcrier.Fact) []value {
	var out []value
	add := func(s string) {
		for s != "" {
			v, end := value{text: s}, len(s)
			if at := valueEndRE.FindStringIndex(s); at != nil {
				v, end = value{s[:at[0]], cutRE.MatchString(s[at[0]:at[1]])}, at[1]
			}
			if strings.Trim(v.text, " .…\"'`") != "" {
				out = append(out, v)
			}
			s = s[end:]
		}
	}
	if f.Quote != "" {
		add(f.Quote)
		return out
	}
	for _, m := range spanRE.FindAllString(f.Text, 50) {
		if v := strings.Trim(m, "`\"“”"); !evidenceRE.MatchString(v) {
			add(v)
		}
	}
	return out
}

// Marks are the words by which a reader finds a fact in the evidence that it cites.
func Marks(f nightcrier.Fact) []string {
	var out []string
	for _, v := range quotedValues(f) {
		if s := strings.TrimSpace(v.text); !isTrivial(s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, s := range Quotable(f.Text) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

var (
	valueEndRE = regexp.MustCompile(`[\n;]|,\s|…|\.\.\.`)
	cutRE      = regexp.MustCompile(`^(?:…|\.\.\.)$`)
	spanRE     = regexp.MustCompile("`[^`]+`|\"[^\"]+\"|“[^”]+”")
)

// hasValue reports whether the value is in the piece: word for word, or, in an
// object and when it holds no number, with each of its words somewhere in it,
// since describe orders the fields of an object in its own way. Of a value that was
// cut the last word may go on, unless it is a number: 13… is not 137.
func (c *checker) hasValue(v value, p *piece) bool {
	n := normalText(v.text)
	if n == "" {
		return true
	}
	if p.asked != nil && !p.hasOwnWords(n) {
		return false
	}
	last := n[strings.LastIndex(n, " ")+1:]
	if c.containsWords(p, n) || v.cut && !numberRE.MatchString(last) && c.hasText(p, " "+n) {
		return true
	}
	if !p.object {
		return false
	}
	words := strings.Fields(n)
	compared := 0
	for _, w := range words {
		if strings.ContainsFunc(w, unicode.IsDigit) || isNegation(w) {
			return false
		}
		if len(w) < minWord && stopWords[w] {
			continue
		}
		if compared++; !c.containsWords(p, w) {
			return false
		}
	}
	return compared > 0
}

var numberRE = regexp.MustCompile(`^\d+$`)

// minWord is how long a word is at least that is never passed over.
const minWord = 5

// stopWords join the words of a sentence.
var stopWords = map[string]bool{"a": true, "an": true, "the": true, "is": true, "was": true, "are": true, "of": true, "in": true, "on": true, "to": true, "for": true,
	"and": true, "has": true, "had": true, "by": true, "at": true, "its": true, "it": true, "with": true, "that": true, "this": true, "from": true}

// isNegation reports whether a word turns a statement round, however the rest stands.
func isNegation(w string) bool {
	switch w {
	case "no", "not", "none", "never", "without", "false", "true":
		return true
	}
	return false
}

// isTrivial values are found in any evidence: short words, bare numbers.
func isTrivial(v string) bool {
	if field, value, ok := cutPair(v); ok && field != "" && value != "" {
		return false
	}
	letters := 0
	for _, r := range v {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	return letters == 0 || len(strings.ReplaceAll(normalText(v), " ", "")) < minValue
}

// cutPair splits field=value and field: value.
func cutPair(v string) (field, value string, ok bool) {
	i := strings.IndexAny(v, "=:")
	if i < 0 {
		return "", "", false
	}
	return normalText(v[:i]), normalText(v[i+1:]), true
}

// normalBody is normalText for evidence: the escapes of JSON strings are undone, so
// that a log line inside an object reads like one.
func normalBody(raw []byte) string {
	s := string(raw)
	if json.Valid(raw) {
		s = jsonEscapes.Replace(s)
	}
	clean := texts.DropHidden(s)
	body := " " + tokensOf(clean) + " "
	if clean != s { // who quotes may have seen what others leave of colours
		body += "\x00 " + tokensOf(s) + " "
	}
	return body
}

var jsonEscapes = strings.NewReplacer(`\\`, `\`, `\n`, " ", `\t`, " ", `\r`, " ", `\"`, `"`, `\u001b`, "\x1b", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// normalText brings text to tokens, so that `exitCode: 137`, "Exit Code: 137" and
// {"exitCode":137} are the same, also in colours.
func normalText(s string) string { return tokensOf(texts.DropHidden(s)) }

func tokensOf(s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	var last rune
	for _, r := range s {
		word := unicode.IsLetter(r) || unicode.IsDigit(r)
		switch {
		case !word:
			if last != ' ' && last != 0 {
				b.WriteByte(' ')
			}
			last = ' '
			if b.Len() == 0 {
				last = 0
			}
			continue
		case unicode.IsUpper(r) && unicode.IsLower(last):
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
		last = r
	}
	return strings.TrimSpace(b.String())
}

// Quotable returns what a statement quotes so that it can be looked for: spans
// between backticks or quotes, pairs such as exitCode: 137, names such as
// CrashLoopBackOff. What would be found anywhere is left out.
func Quotable(statement string) []string {
	var out []string
	add := func(v string) {
		v = strings.Trim(v, " `\"“”.,;")
		if v != "" && !isTrivial(v) && !slices.Contains(out, v) && len(out) < 10 {
			out = append(out, v)
		}
	}
	for _, m := range spanRE.FindAllString(statement, 10) {
		add(m)
	}
	rest := spanRE.ReplaceAllString(statement, " ")
	for _, m := range pairRE.FindAllString(rest, 10) {
		add(m)
	}
	for _, m := range coinedRE.FindAllString(pairRE.ReplaceAllString(rest, " "), 10) {
		add(m)
	}
	if words := strings.Fields(statement); len(out) == 0 && len(words) == 1 {
		add(words[0])
	}
	return out
}

var (
	pairRE   = regexp.MustCompile(`\b(?:[A-Z][a-z]+ )?[A-Za-z][\w.\[\]-]*(?:\s?=\s?|:\s)"?[\w./:@-]+`)
	coinedRE = regexp.MustCompile(`\b[A-Z]+[a-z]*[A-Z][A-Za-z]+\b`)
)

// Stands reports whether the words of a value stand side by side in body, compared
// as facts are.
func Stands(body []byte, value string) bool {
	words := normalText(value)
	return words != "" && strings.Contains(normalBody(body), " "+words+" ")
}
