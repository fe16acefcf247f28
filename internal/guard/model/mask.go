package model

import (
	"slices"
	"strconv"
)

// minMasked is less than any secret's length, in bytes.
const minMasked = 6

// masker finds what has to stand in the place of the secrets in a request.
type masker struct {
	*facts
	mask  func(string) string
	edits []edit
}

// maskValue masks the texts in a value. Where it is free, because it is what a tool was called
// with or returned, names are masked as well, and nothing is sealed.
func (m *masker) maskValue(v value, free bool) {
	if v.kind == isText {
		m.maskText(v.span, v.text, m.mask)
		return
	}
	names := map[string]bool{} // that stand in the place of masked ones
	for _, e := range v.inner {
		if v.kind == isObject && free {
			m.maskText(e.named, e.name, func(name string) string { return m.maskName(name, v, names) })
		}
		within := free || v.kind == isObject && m.isToolsOwn(e)
		if within || v.kind == isList || !m.isSealed(v, e) {
			m.maskValue(e, within)
		}
	}
}

func (m *masker) maskText(at span, text string, mask func(string) string) {
	if len(text) < minMasked {
		return
	}
	if masked := mask(text); masked != text {
		m.edits = append(m.edits, edit{at, quoteJSON(masked)})
	}
}

// maskName masks the name of a member. It is then one that the object does not have.
func (m *masker) maskName(name string, object value, taken map[string]bool) string {
	masked := m.mask(name)
	if masked == name {
		return name
	}
	unique := masked
	for n := 2; object.findMember(unique).kind != isAbsent || taken[unique]; n++ {
		unique = masked + " " + strconv.Itoa(n)
	}
	taken[unique] = true
	return unique
}

// isToolsOwn reports whether what a member holds is in no words of the API.
func (m *masker) isToolsOwn(e value) bool {
	name := plainName(e.name)
	return slices.Contains(m.arguments, name) || e.kind == isObject && slices.Contains(m.results, name)
}

// isSealed reports whether a member of an object is left as it is.
func (m *masker) isSealed(object, e value) bool {
	return slices.ContainsFunc(m.sealed, func(s seal) bool {
		if s.member != e.name || e.kind == isObject && !s.whole {
			return false
		}
		beside := object.findMember(s.beside)
		return s.beside == "" || beside.isSaid() && (s.says == "" || s.says == beside.String())
	})
}
