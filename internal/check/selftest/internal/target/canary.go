package target

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// Canary is a secret of the scripted cluster that is to be seen nowhere else.
type Canary struct {
	Where, Value string

	packed string // what holds it packed, "" for nothing
}

// Sieve finds canaries in texts, each text in one pass: by the first two bytes of the forms in
// which they may stand there, then whole.
type Sieve struct {
	canaries []Canary
	begins   [1 << 16]bool // by two bytes, of which few begin a form
	forms    map[uint16][]form
}

// form is one way in which a canary may be written.
type form struct {
	of     int // the canary
	text   string
	folded bool   // capitals or not
	said   string // of where it stands
}

// NewSieve makes a Sieve for these canaries.
func NewSieve(canaries []Canary) *Sieve {
	s := &Sieve{canaries: canaries, forms: map[uint16][]form{}}
	for i, c := range canaries {
		for _, f := range append(formsOf(c.Value), formsOf(c.packed)...) { // whoever has what holds it can unpack it
			f.of = i
			s.add(f, f.text)
			if upper := strings.ToUpper(f.text[:2]); f.folded && upper != f.text[:2] {
				s.add(f, upper)
			}
		}
	}
	return s
}

func (s *Sieve) add(f form, begin string) {
	at := pairAt(begin, 0)
	s.begins[at], s.forms[at] = true, append(s.forms[at], f)
}

func pairAt(text string, at int) uint16 { return uint16(text[at])<<8 | uint16(text[at+1]) }

// Found is a canary that stands in a text.
type Found struct {
	Canary
	// As is how it is written: " as it is", or the spelling.
	As string
}

// FindIn returns the canaries that stand in a text, in their order, each with the form that comes
// first. A nil Sieve finds none.
func (s *Sieve) FindIn(text string) (all []Found) {
	if s == nil {
		return nil
	}
	as := make([]string, len(s.canaries))
	for at := 0; at+1 < len(text); at++ {
		begin := pairAt(text, at)
		if !s.begins[begin] {
			continue
		}
		for _, f := range s.forms[begin] {
			if as[f.of] == "" && f.standsAt(text[at:]) {
				as[f.of] = f.said
			}
		}
	}
	for i, said := range as {
		if said != "" {
			all = append(all, Found{s.canaries[i], said})
		}
	}
	return all
}

func (f *form) standsAt(text string) bool {
	if f.folded && len(text) >= len(f.text) {
		return strings.EqualFold(text[:len(f.text)], f.text)
	}
	return strings.HasPrefix(text, f.text)
}

// formsOf are the forms in which a secret may stand in a text; none for "".
func formsOf(secret string) []form {
	if secret == "" {
		return nil
	}
	turned := []rune(secret)
	slices.Reverse(turned)
	all := []form{
		{text: secret, said: " as it is"}, {text: hex.EncodeToString([]byte(secret)), folded: true, said: " in hex"},
		{text: url.QueryEscape(secret), said: " escaped for a URL"}, {text: string(turned), said: " backwards"},
	}
	// Within a longer text, base64 of the same bytes has three forms.
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			whole := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + secret))
			// The first and the last characters hold bits of the neighbours.
			if core := whole[min(len(whole), shift+1) : len(whole)-2]; len(core) > 12 {
				all = append(all, form{text: core, said: " in base64"})
			}
		}
	}
	return all
}
