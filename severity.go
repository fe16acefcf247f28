package nightcrier

import "strings"

// Severity is the scale that every dialect is mapped onto:
// info < warning < error < critical.
type Severity int

// The four severities, in rising order. The zero value is Info.
const (
	Info Severity = iota
	Warning
	ErrorSeverity
	Critical
)

var severityNames = [...]string{"info", "warning", "error", "critical"}

// String returns the lower-case name.
func (s Severity) String() string {
	if s < Info || s > Critical {
		return "unknown"
	}
	return severityNames[s]
}

// severityWords maps every word that a source is known to use.
var severityWords = map[string]Severity{
	"info": Info, "information": Info, "informational": Info, "debug": Info, "notice": Info, "normal": Info, "low": Info, "none": Info,
	"warning": Warning, "warn": Warning, "medium": Warning, "minor": Warning,
	"error": ErrorSeverity, "err": ErrorSeverity, "high": ErrorSeverity, "major": ErrorSeverity,
	"critical": Critical, "crit": Critical, "alert": Critical, "emergency": Critical, "fatal": Critical, "page": Critical,
}

// ParseSeverity reads a severity word of any dialect. The second result is
// false when the word is unknown; the first is then Warning, so that an unknown
// word never hides a fault.
func ParseSeverity(word string) (Severity, bool) {
	s, ok := severityWords[strings.ToLower(strings.TrimSpace(word))]
	if !ok {
		return Warning, false
	}
	return s, true
}

// MarshalText writes the lower-case name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a severity word; an unknown one is an Invalid error.
func (s *Severity) UnmarshalText(b []byte) error {
	v, ok := ParseSeverity(string(b))
	if !ok {
		return Errorf(Invalid, "severity %.32q is not one of info, warning, error, critical", b)
	}
	*s = v
	return nil
}
