package strip

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
)

// The walk accepts what is JSON and nothing else, in one pass, so that a large
// answer is read once to be checked and stripped.

const maxDepth = 200 // of nested JSON

var (
	errNotJSON = errors.New("not JSON")
	errTooDeep = errors.New("nested deeper than is read")
	errTwice   = errors.New("an object that has a field twice")
)

// walkText walks over the whole text.
func (s *stripper) walkText() error {
	if _, err := s.walkValue("", 0); err != nil {
		return err
	}
	if s.skipSpace(); s.at != len(s.in) {
		return errNotJSON
	}
	return nil
}

// skipSpace skips blanks and returns the byte behind them, 0 at the end.
func (s *stripper) skipSpace() byte {
	for s.at < len(s.in) {
		switch c := s.in[s.at]; c {
		case ' ', '\n', '\t', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// walkValue walks over one value, which stands under key.
func (s *stripper) walkValue(key string, depth int) (span, error) {
	if depth > maxDepth {
		return span{}, errTooDeep
	}
	c := s.skipSpace()
	from := s.at
	var err error
	switch c {
	case '{':
		err = s.walkObject(key, depth)
	case '[':
		err = s.walkList(key, depth)
	case '"':
		if err = s.skipString(); err == nil && !s.bare {
			s.inspectText(span{from, s.at})
		}
	default:
		err = s.skipScalar()
	}
	return span{from, s.at}, err
}

// skipScalar skips a number, true, false or null.
func (s *stripper) skipScalar() error {
	from := s.at
	for s.at < len(s.in) && isScalarByte(s.in[s.at]) {
		s.at++
	}
	switch word := s.in[from:s.at]; string(word) {
	case "true", "false", "null":
		return nil
	default:
		return checkNumber(word)
	}
}

func isScalarByte(c byte) bool {
	return c >= '0' && c <= '9' || c|' ' >= 'a' && c|' ' <= 'z' || c == '+' || c == '-' || c == '.'
}

func checkNumber(b []byte) error {
	b = bytes.TrimPrefix(b, []byte{'-'})
	whole := leadingDigits(b)
	if whole == 0 || whole > 1 && b[0] == '0' {
		return errNotJSON
	}
	if b = b[whole:]; len(b) > 0 && b[0] == '.' {
		n := leadingDigits(b[1:])
		if n == 0 {
			return errNotJSON
		}
		b = b[1+n:]
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		if b = b[1:]; len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		n := leadingDigits(b)
		if n == 0 {
			return errNotJSON
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return errNotJSON
	}
	return nil
}

func leadingDigits(b []byte) int {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

// skipString moves behind the string that starts here.
func (s *stripper) skipString() error {
	for i := s.at + 1; i < len(s.in); i++ {
		switch c := s.in[i]; {
		case c == '"':
			s.at = i + 1
			return nil
		case c < ' ':
			return errNotJSON
		case c == '\\':
			n := escapeLength(s.in[i+1:])
			if n == 0 {
				return errNotJSON
			}
			i += n
		}
	}
	return errNotJSON
}

// escapeLength is how many bytes follow the backslash of an escape, 0 when it is
// none.
func escapeLength(b []byte) int {
	switch {
	case len(b) == 0:
		return 0
	case strings.IndexByte(`"\/bfnrt`, b[0]) >= 0:
		return 1
	case b[0] == 'u' && len(b) >= 5 && isHex(b[1:5]):
		return 5
	}
	return 0
}

func isHex(four []byte) bool {
	_, err := hex.Decode(make([]byte, 2), four)
	return err == nil
}

// hasMoreValues reports whether another value follows before the closing bracket, which it
// skips, as it does the comma.
func (s *stripper) hasMoreValues(first bool, closing byte) (bool, error) {
	switch c := s.skipSpace(); {
	case c == closing && first:
		s.at++
		return false, nil
	case first:
		return true, nil
	case c == closing:
		s.at++
		return false, nil
	case c == ',':
		s.at++
		return true, nil
	}
	return false, errNotJSON
}

func (s *stripper) walkList(key string, depth int) error {
	s.at++
	flag := "" // the element before, when it announces a secret
	for i := 0; ; i++ {
		more, err := s.hasMoreValues(i == 0, ']')
		if !more || err != nil {
			return err
		}
		at, err := s.walkValue("", depth+1)
		if err != nil {
			return err
		}
		if key == "cells" {
			s.excerpt(at)
			if i < len(s.Columns) && s.Columns[i] != "" {
				s.maskCell(s.Columns[i], at)
			}
		}
		if flag != "" {
			s.maskCell(flag, at)
		}
		flag = s.secretFlag(at)
	}
}

func (s *stripper) walkObject(key string, depth int) error {
	from := s.at
	s.at++
	var m members
	for first := true; ; first = false {
		more, err := s.hasMoreValues(first, '}')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		name, at, err := s.walkMember(depth)
		if err != nil {
			return err
		}
		if s.isInspected(name) {
			if _, twice := m[name]; twice {
				return errTwice
			}
			if m == nil {
				m = members{}
			}
			m[name] = at
		}
	}
	if !s.bare {
		s.inspectObject(key, depth, span{from, s.at}, m)
	}
	return nil
}

// isInspected reports whether inspectObject looks at such a field.
func (s *stripper) isInspected(name string) bool {
	switch name {
	case "", "cells", "object", "metadata", "columnDefinitions", "message", "note":
		return false
	case "name":
		return s.Metadata
	}
	return true
}

// walkMember walks over one field of an object.
func (s *stripper) walkMember(depth int) (name string, at span, err error) {
	if s.skipSpace() != '"' {
		return "", span{}, errNotJSON
	}
	from := s.at
	if err := s.skipString(); err != nil {
		return "", span{}, err
	}
	key := span{from, s.at}
	name = s.nameAt(key)
	if s.skipSpace() != ':' {
		return "", span{}, errNotJSON
	}
	s.at++
	at, err = s.walkValue(name, depth+1)
	switch {
	case err != nil:
	case name == "columnDefinitions":
		s.secretColumns(at) // now: the rows come behind
	case name == "message", name == "note":
		s.excerpt(at)
	case s.numbers && leadingDigits(bytes.TrimPrefix(s.in[at.from:at.to], []byte{'-'})) > 0 && s.secretName(s.unquoteString(key)):
		s.replaceValue(at, `"`+withheld+`"`)
	}
	return name, at, err
}

// knownName returns a name that anything depends on, and "" for all others, so that
// no strings are made of them.
func knownName(name []byte) string {
	switch string(name) {
	case "kind":
		return "kind"
	case "name":
		return "name"
	case "data":
		return "data"
	case "cells":
		return "cells"
	case "object":
		return "object"
	case "metadata":
		return "metadata"
	case "items":
		return "items"
	case "message":
		return "message"
	case "note":
		return "note"
	case "apiVersion", "stringData", "binaryData", "annotations", "managedFields", "columnDefinitions", lastApplied:
		return string(name)
	}
	return ""
}

// nameAt is the name that stands in at, "" when nothing depends on it.
func (s *stripper) nameAt(at span) string {
	if s.bare {
		return ""
	}
	if raw := s.in[at.from+1 : at.to-1]; bytes.IndexByte(raw, '\\') < 0 {
		return knownName(raw)
	}
	return knownName([]byte(s.unquoteString(at)))
}
