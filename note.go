package nightcrier

import (
	"strings"
	"time"
	"unicode"
)

// Bounds of a note, in bytes, and of how many an incident takes.
const (
	MaxNote   = 4 << 10
	MaxNoteBy = 128
	MaxNotes  = 100
)

// Note is what a person wrote about an incident.
type Note struct {
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"`
	Text string    `json:"text"`
}

// NewNote makes a note of what somebody typed. Characters that a reader would
// not see, and that only serve to deceive, are dropped. A note without a text, or
// one over a bound, is an Invalid error: nothing that a person wrote is cut.
func NewNote(by, text string, at time.Time) (Note, error) {
	n := Note{At: at.UTC(), By: strings.Join(strings.Fields(visible(by)), " "), Text: strings.TrimSpace(visible(text))}
	switch {
	case n.Text == "":
		return Note{}, Errorf(Invalid, "the note is empty: say what the next one should know")
	case len(n.Text) > MaxNote:
		return Note{}, Errorf(Invalid, "the note has %d bytes; at most %d are kept: shorten it, or link to what is longer", len(n.Text), MaxNote)
	case len(n.By) > MaxNoteBy:
		return Note{}, Errorf(Invalid, "the name of who wrote the note is longer than %d bytes", MaxNoteBy)
	}
	return n, nil
}

// visible keeps what can be read: no control and no direction characters, line
// ends and tabs excepted.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
