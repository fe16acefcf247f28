package selftest

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"nightcrier.dev/nightcrier"
)

// ParseCommand cuts a command line into words as a shell does. No shell runs, and
// nothing is replaced: what a shell would put something else for is an error, but
// patterns, braces and ~, which stay as they are.
func ParseCommand(line string) ([]string, error) {
	var argv []string
	for w, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).WordsSeq(strings.NewReader(line)) {
		if err != nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "%q is no command: %w", line, err)
		}
		text, ok := literalText(w.Parts, false)
		if !ok {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "%q holds something that a shell would replace, and there is none here: write what it stands for, or put it between '…'", line)
		}
		argv = append(argv, text)
	}
	if len(argv) == 0 {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the command is empty")
	}
	return argv, nil
}

// literalText is a text of which every character is known.
func literalText(parts []syntax.WordPart, quoted bool) (string, bool) {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(stripBackslashes(p.Value, quoted))
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			text, ok := literalText(p.Parts, true)
			if p.Dollar || !ok {
				return "", false
			}
			b.WriteString(text)
		default:
			return "", false
		}
	}
	return b.String(), true
}

// stripBackslashes takes out the backslashes that count; within double quotes few do.
func stripBackslashes(s string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("$`\"\\\n", s[i+1]) >= 0) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
