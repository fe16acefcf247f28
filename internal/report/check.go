package report

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"nightcrier.dev/nightcrier"
)

// minValue is how many characters a value needs so that finding it says
// something.
const minValue = 6

// maxCompared bounds, in bytes, how much evidence is searched for the values of
// one report: seconds. What is left then is unseen.
const maxCompared = 4 << 30

// Check marks each fact as seen or unseen against the evidence it cites, and
// computes the checked share. A fact is seen when all the values it quotes stand
// in that evidence, at least one of them is not trivial, and the evidence is
// about the object. Only a built-in rule's report keeps its verified marks, and
// only with evidence that exists.
func Check(r *nightcrier.Report, ev Evidence) {
	c := checker{ev: ev, subjects: subjects(r), bodies: map[string]string{}, left: maxCompared}
	for i := range r.Facts {
		f := &r.Facts[i]
		if r.Source == "builtin" && f.Check == nightcrier.Verified && len(c.cited(f.Evidence)) > 0 {
			continue
		}
		f.Check = nightcrier.Unseen
		if c.seen(*f) {
			f.Check = nightcrier.Seen
		}
	}
	r.CheckedShare = 0
	if len(r.Facts) > 0 {
		r.CheckedShare = float64(checked(r)) / float64(len(r.Facts))
	}
}

// checked counts the facts that are seen or verified.
func checked(r *nightcrier.Report) int {
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
	// subjects are the names of the objects that the report is about.
	subjects []string
	// bodies holds each evidence in normal form.
	bodies map[string]string
	// left is how many bytes may still be searched.
	left int64
}

// subjects lists the objects that the report names as such.
func subjects(r *nightcrier.Report) []string {
	objects := []nightcrier.Object{r.Target}
	if r.RootCause != nil {
		objects = append(objects, r.RootCause.Object)
	}
	for _, h := range r.Hypotheses {
		objects = append(objects, h.Object)
	}
	var names []string
	for _, o := range objects {
		if o.Name != "" {
			names = append(names, normal(o.Name))
		}
	}
	return names
}

// cited returns the cited evidence in normal form, each piece once; what does not
// exist is left out.
func (c *checker) cited(ids []string) []string {
	var bodies []string
	once := map[string]bool{}
	for _, id := range ids {
		if once[id] {
			continue
		}
		once[id] = true
		body, known := c.bodies[id]
		if !known {
			if raw, found := c.ev(id); found {
				body = normalBody(raw)
			}
			c.bodies[id] = body
		}
		if body != "" {
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// contains reports whether the words, in normal form, stand in one of the bodies.
func (c *checker) contains(bodies []string, words string) bool {
	for _, body := range bodies {
		if c.left <= 0 {
			return false
		}
		at := strings.Index(body, " "+words+" ")
		if at >= 0 {
			c.left -= int64(at + len(words))
			return true
		}
		c.left -= int64(len(body))
	}
	return false
}

func (c *checker) seen(f nightcrier.Fact) bool {
	bodies := c.cited(f.Evidence)
	if len(bodies) == 0 || !c.aboutTheObject(f, bodies) {
		return false
	}
	solid := false
	for _, v := range values(f) {
		if !c.stands(v, bodies) {
			return false
		}
		solid = solid || !trivial(v)
	}
	return solid
}

// aboutTheObject demands that the evidence holds an object's name: one of those
// that the fact names (cart-7d4b-x2x7q, worker-1), or else one that the report is
// about. A pod carries its owner's name in front of its own, so that the name of
// the owner stands in both.
func (c *checker) aboutTheObject(f nightcrier.Fact, bodies []string) bool {
	names := objectNames(f.Text + " " + f.Quote)
	if len(names) == 0 {
		names = c.subjects
	}
	for _, name := range names {
		if c.contains(bodies, name) {
			return true
		}
	}
	return false
}

// nameRE finds names that a controller or a numbering made: parts joined by
// dashes, the last with a digit.
var nameRE = regexp.MustCompile(`\b[a-z][a-z0-9]*(?:-[a-z0-9]+)*-[a-z0-9]*[0-9][a-z0-9]*\b`)

func objectNames(s string) []string {
	var names []string
	for _, n := range nameRE.FindAllString(s, 50) {
		names = append(names, normal(n))
	}
	return names
}

// values are what a fact quotes: the quote, taken apart at its lines, commas and
// semicolons; without a quote what its text puts between backticks or quotes.
func values(f nightcrier.Fact) []string {
	var out []string
	add := func(s string) {
		for _, v := range valueEndRE.Split(s, -1) {
			if strings.Trim(v, " .…\"'`") != "" {
				out = append(out, v)
			}
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

var (
	valueEndRE = regexp.MustCompile(`[\n;]|,\s|…|\.\.\.`)
	spanRE     = regexp.MustCompile("`[^`]+`|\"[^\"]+\"|“[^”]+”")
)

// stands reports whether the value is in the evidence: word for word, or, when
// it holds no number, with each of its longer words somewhere in it, since
// describe orders the fields of an object in its own way.
func (c *checker) stands(v string, bodies []string) bool {
	n := normal(v)
	if n == "" {
		return true
	}
	if c.contains(bodies, n) {
		return true
	}
	words := strings.Fields(n)
	longer := 0
	for _, w := range words {
		if strings.ContainsFunc(w, unicode.IsDigit) || negates(w) {
			return false
		}
		if len(w) < minValue {
			continue
		}
		if longer++; !c.contains(bodies, w) {
			return false
		}
	}
	return longer > 0
}

// negates are the words that turn a statement round, however the rest stands.
func negates(w string) bool {
	switch w {
	case "no", "not", "none", "never", "without", "false", "true":
		return true
	}
	return false
}

// trivial values are found in any evidence: short words, bare numbers.
func trivial(v string) bool {
	if field, value, ok := cutPair(v); ok && field != "" && value != "" {
		return false
	}
	letters := 0
	for _, r := range v {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	return letters == 0 || len(strings.ReplaceAll(normal(v), " ", "")) < minValue
}

// cutPair splits field=value and field: value.
func cutPair(v string) (field, value string, ok bool) {
	i := strings.IndexAny(v, "=:")
	if i < 0 {
		return "", "", false
	}
	return normal(v[:i]), normal(v[i+1:]), true
}

// normalBody is normal for evidence: the escapes of JSON strings are undone, so
// that a log line inside an object reads like one.
func normalBody(raw []byte) string {
	s := string(raw)
	if json.Valid(raw) {
		s = jsonEscapes.Replace(s)
	}
	return " " + normal(s) + " "
}

var jsonEscapes = strings.NewReplacer(`\\`, `\`, `\n`, " ", `\t`, " ", `\r`, " ", `\"`, `"`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// normal brings text to tokens, so that `exitCode: 137`, "Exit Code: 137" and
// {"exitCode":137} are the same.
func normal(s string) string {
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
		if v != "" && !trivial(v) && !slices.Contains(out, v) && len(out) < 10 {
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
	words := normal(value)
	return words != "" && strings.Contains(normalBody(body), " "+words+" ")
}
