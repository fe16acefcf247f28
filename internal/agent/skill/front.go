package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier/internal/text"
)

// frontKeys are the keys of a SKILL.md's front matter that say what it is. All
// others are left out: CLIs know some by which a skill grants itself tools, sets
// hooks or chooses its model, each CLI its own, and more with each version.
var frontKeys = []string{"name", "description", "license", "compatibility", "version", "role", "domain"}

// Bounds of a front matter: what a parser is given to work on.
const (
	maxFront   = 8 << 10
	maxOpening = 64
	// maxValue bounds one value, in characters.
	maxValue = 1024
)

// fence is the line before and behind a front matter.
const fence = "---"

// front is what is kept of a front matter, in the words that are installed.
type front map[string]string

// isSkillFile tells the files that a CLI takes for a skill, however deep.
func isSkillFile(name string) bool { return strings.EqualFold(path.Base(name), "SKILL.md") }

// makeHarmless returns a SKILL.md that means the same to every CLI and grants nothing:
// its front matter is read as YAML and written anew from the known keys, one quoted
// line each. What cannot be read without doubt is refused, since one CLI or another
// might read it. The notes say what was left out.
func makeHarmless(data []byte) (out []byte, kept front, notes []string, err error) {
	text, err := plainText(data)
	if err != nil {
		return nil, nil, nil, err
	}
	head, body, err := splitFront(text)
	if err != nil {
		return nil, nil, nil, err
	}
	if head != "" {
		if kept, notes, err = readFront(head); err != nil {
			return nil, nil, nil, err
		}
		head = kept.renderFront()
	}
	quiet := strings.NewReplacer("!`", "! `", "```!", "``` !").Replace(body)
	if quiet != body {
		notes = append(notes, "commands that a CLI would run when it loads the skill (!`…`) are plain text now")
	}
	return []byte(head + quiet), kept, notes, nil
}

// plainText removes byte order marks and foreign line ends.
func plainText(data []byte) (string, error) {
	if !utf8.Valid(data) {
		return "", errors.New("it is not UTF-8 text")
	}
	text := strings.TrimLeft(string(data), "\ufeff")
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), nil
}

// splitFront separates the front matter, "" for none, from what follows.
func splitFront(text string) (head, body string, err error) {
	if !strings.HasPrefix(strings.TrimLeftFunc(text, isBlank), fence) {
		return "", text, nil
	}
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != fence {
		return "", "", errors.New("its front matter does not begin with a line --- at the start of the file")
	}
	for {
		line, after, more := strings.Cut(rest, "\n")
		switch {
		case strings.TrimRight(line, " \t") == fence:
			if strings.HasPrefix(strings.TrimLeftFunc(after, isBlank), fence) {
				return "", "", errors.New("a second front matter follows the first: keep one")
			}
			return head, after, nil
		case strings.Contains(line, fence) && strings.TrimLeftFunc(line, isBlank)[0] == '-':
			return "", "", fmt.Errorf("the front matter holds the line %.40q, which may or may not end it", line)
		case !more:
			return "", "", errors.New("its front matter has no end: close it with a line ---")
		case len(head) > maxFront:
			return "", "", fmt.Errorf("its front matter is longer than %d KiB", maxFront>>10)
		}
		head += line + "\n"
		rest = after
	}
}

// isBlank tells what some parser skips: spaces of any kind, and what nobody sees.
func isBlank(r rune) bool { return unicode.IsSpace(r) || text.IsHidden(r) }

// readFront reads the known keys of a front matter.
func readFront(head string) (front, []string, error) {
	if isCrowded(head) {
		return nil, nil, fmt.Errorf("its front matter opens more than %d lists or mappings", maxOpening)
	}
	var all map[string]any
	if err := yaml.Unmarshal([]byte(head), &all); err != nil {
		return nil, nil, fmt.Errorf("its front matter is not a YAML mapping: %s", firstLine(err.Error()))
	}
	kept := front{}
	var left []string
	for key, value := range all {
		said, isText := scalarText(value)
		switch {
		case !slices.Contains(frontKeys, key):
			left = append(left, key)
		case !isText:
			return nil, nil, fmt.Errorf("%s in its front matter is not a text", key)
		case said != "":
			kept[key] = said
		}
	}
	if len(left) == 0 {
		return kept, nil, nil
	}
	slices.Sort(left)
	return kept, []string{"left out of its front matter: " + text.CutRunes(text.FoldLine(strings.Join(left, ", ")), maxValue)}, nil
}

// isCrowded tells YAML that opens more than anybody writes, which costs a parser more
// than its length.
func isCrowded(text string) bool {
	return strings.Count(text, "[")+strings.Count(text, "{") > maxOpening || strings.Count(text, "- ") > maxOpening
}

// scalarText returns a value as a text of one line.
func scalarText(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case string:
		return text.CutRunes(text.FoldLine(v), maxValue), true
	case int, int64, uint64, float64, bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// renderFront writes the front matter, one quoted line a key: JSON strings are the form
// in which all YAML parsers agree. One that says nothing is none.
func (f front) renderFront() string {
	if len(f) == 0 {
		return ""
	}
	var b bytes.Buffer
	b.WriteString(fence + "\n")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, key := range frontKeys {
		if value, ok := f[key]; ok {
			b.WriteString(key + ": ")
			_ = enc.Encode(value) // a text always encodes
		}
	}
	b.WriteString(fence + "\n")
	return b.String()
}
