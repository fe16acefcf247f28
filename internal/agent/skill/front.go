package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// installedKeys are the keys of a SKILL.md's front matter that say what it is. All
// others are left out: CLIs know some by which a skill grants itself tools, sets
// hooks or chooses its model, each CLI its own, and more with each version.
var installedKeys = []string{"name", "description", "license", "compatibility", "version", "role", "domain"}

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

// document is a SKILL.md as it was read.
type document struct {
	file string
	// said is its front matter, nil for none, which begins behind line saidLine.
	said     *yaml.Node
	saidLine int
	kept     front
	// body is what follows, from line bodyLine on.
	body     string
	bodyLine int
}

// render is the document as it is installed: the same to every CLI, and without a grant. Its front
// matter was read as YAML, and is written anew from the known keys, one quoted line each.
func (d *document) render() []byte { return []byte(d.kept.renderFront() + d.body) }

// readDocument reads a SKILL.md, and says what is left out of it. What cannot be read without
// doubt fails, since one CLI or another might read it.
func readDocument(file string, data []byte) (document, []Finding) {
	d, f := document{file: file, bodyLine: 1}, findings{}
	plain, err := plainText(data)
	if err != nil {
		f.add(Fail, file, 0, "%v", err)
		return d, f.all
	}
	head, err := d.splitFront(plain)
	if err != nil {
		f.add(Fail, file, d.saidLine, "%v", err)
		return d, f.all
	}
	if head != "" {
		d.readFront(head, &f)
	}
	// One after the other: what the first leaves may be what the second takes.
	quiet := strings.ReplaceAll(strings.ReplaceAll(d.body, "```!", "``` !"), "!`", "! `")
	if quiet != d.body {
		f.add(Warn, file, d.bodyLine+lineOf(d.body, quiet), "commands that a CLI would run when it loads the skill (!`…`) are plain text now")
		d.body = quiet
	}
	return d, f.all
}

// lineOf returns how many lines stand before the first difference of two texts.
func lineOf(a, b string) (lines int) {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return lines
		}
		if a[i] == '\n' {
			lines++
		}
	}
	return lines
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
func (d *document) splitFront(plain string) (head string, err error) {
	d.body = plain
	if !strings.HasPrefix(strings.TrimLeftFunc(plain, isBlank), fence) {
		return "", nil
	}
	first, rest, _ := strings.Cut(plain, "\n")
	for d.saidLine = 1; strings.Trim(first, " \t") == ""; d.saidLine++ { // somebody left lines free above it
		first, rest, _ = strings.Cut(rest, "\n")
	}
	if strings.TrimRight(first, " \t") != fence {
		return "", errors.New("its front matter does not begin with a line --- of its own: take away what stands before or behind")
	}
	for at := d.saidLine + 1; ; at++ {
		line, after, more := strings.Cut(rest, "\n")
		switch {
		case strings.TrimRight(line, " \t") == fence:
			d.bodyLine = at + 1
			d.body, err = withoutSecondFront(after)
			return head, err
		case strings.Contains(line, fence) && strings.TrimLeftFunc(line, isBlank)[0] == '-':
			return "", fmt.Errorf("the front matter holds the line %.40q, which may or may not end it: write ---, or take it out", line)
		case !more:
			return "", errors.New("its front matter has no end: close it with a line ---")
		case len(head) > maxFront:
			return "", fmt.Errorf("its front matter is longer than %d KiB", maxFront>>10)
		}
		head += line + "\n"
		rest = after
	}
}

// withoutSecondFront writes a rule that begins a body so that nobody takes it for one more front
// matter.
func withoutSecondFront(body string) (string, error) {
	if !strings.HasPrefix(strings.TrimLeftFunc(body, isBlank), fence) {
		return body, nil
	}
	above := body[:strings.Index(body, fence)]
	rule, rest, _ := strings.Cut(body[len(above):], "\n")
	if strings.Trim(above, " \t\n") != "" || strings.Trim(rule, "- \t") != "" {
		return "", errors.New("what may be a second front matter follows the first: keep one")
	}
	return above + "***\n" + rest, nil
}

// isBlank tells what some parser skips: spaces of any kind, and what nobody sees.
func isBlank(r rune) bool { return unicode.IsSpace(r) || text.IsHidden(r) }

// readFront reads a front matter, keeps what is installed of it, and says what is not.
func (d *document) readFront(head string, f *findings) {
	if isCrowded(head) {
		f.add(Fail, d.file, d.saidLine, "its front matter opens more than %d lists or mappings", maxOpening)
		return
	}
	node, fault := strictyaml.ReadNode([]byte(head))
	if fault != nil {
		mended, quoted := quoteValues(head)
		if again, stillWrong := strictyaml.ReadNode([]byte(mended)); quoted != "" && stillWrong == nil {
			f.add(Warn, d.file, d.saidLine+fault.Line, "the front matter %s; it is read as if %s stood in quotes: put them there", fault.Text, quoted)
			node, fault = again, nil
		}
	}
	switch {
	case fault != nil:
		f.add(Fail, d.file, d.saidLine+fault.Line, "the front matter %s", fault.Text)
	case node == nil:
	case node.Kind != yaml.MappingNode:
		f.add(Fail, d.file, d.saidLine+node.Line, "its front matter is not a YAML mapping: write lines such as description: …")
	default:
		noteKeys(node, FrontKeys(), d.file, d.saidLine, f)
		d.said, d.kept = node, front{}
		for key, value := range strictyaml.Pairs(node) {
			d.keep(key.Value, value, f)
		}
	}
}

// keep takes over a value that is installed.
func (d *document) keep(key string, value *yaml.Node, f *findings) {
	if !slices.Contains(installedKeys, key) {
		return
	}
	said, ok := strictyaml.ScalarText(value)
	if !ok {
		f.add(Warn, d.file, d.saidLine+value.Line, "%s is %s, and is left out: write a text", key, strictyaml.DescribeNode(value))
		return
	}
	if said = text.FoldLine(said); said == "" {
		return
	}
	if n := utf8.RuneCountInString(said); n > maxValue {
		f.add(Warn, d.file, d.saidLine+value.Line, "%s has %d characters, of which %d are kept: shorten it", key, n, maxValue)
	}
	d.kept[key] = text.CutRunes(said, maxValue)
}

// plainValue is a key with a value that YAML might take for more than a text.
var plainValue = regexp.MustCompile("^([A-Za-z][A-Za-z0-9_-]*):[ \t]+([^\\s\"'|>\\[\\]{}&*!%@`#,?-].*)$")

// quoteValues puts values into quotes that hold a colon, and what goes on with them in further
// lines; it names their keys, "" when there is none. No line changes its number.
func quoteValues(head string) (mended, keys string) {
	lines := strings.Split(head, "\n")
	for i := 0; i < len(lines); i++ {
		m := plainValue.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		at, value := i, m[2]
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], " ") {
			i++
			value += " " + strings.TrimSpace(lines[i])
			lines[i] = ""
		}
		if !strings.Contains(value, ": ") && !strings.HasSuffix(value, ":") {
			if at < i { // as it was
				lines[at] = m[1] + ": " + value
			}
			continue
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return head, ""
		}
		lines[at] = m[1] + ": " + string(quoted)
		keys = strings.TrimPrefix(keys+", "+m[1], ", ")
	}
	return strings.Join(lines, "\n"), keys
}

// isCrowded tells YAML that opens more than anybody writes, which costs a parser more
// than its length.
func isCrowded(text string) bool {
	return strings.Count(text, "[")+strings.Count(text, "{") > maxOpening || strings.Count(text, "- ") > maxOpening
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
	for _, key := range installedKeys {
		if value, ok := f[key]; ok {
			b.WriteString(key + ": ")
			_ = enc.Encode(value) // a text always encodes
		}
	}
	b.WriteString(fence + "\n")
	return b.String()
}

// readMetadata reads what an older SKILL.md says of itself below the heading Skill Metadata, where
// it has no front matter.
func (d *document) readMetadata(f *findings) {
	if d.said != nil {
		return
	}
	above, below, found := strings.Cut("\n"+d.body, "\n## Skill Metadata\n")
	lead, block, fenced := strings.Cut(below, "```yaml\n")
	head, _, closed := strings.Cut(block, "\n```")
	if !found || !fenced || !closed || strings.TrimSpace(lead) != "" || len(head) > maxFront || isCrowded(head) {
		return
	}
	line := d.bodyLine + strings.Count(above, "\n") + 1 + strings.Count(lead, "\n")
	node, fault := strictyaml.ReadNode([]byte(head))
	if fault != nil || node == nil || node.Kind != yaml.MappingNode {
		f.add(Warn, d.file, line, "what stands below Skill Metadata is no YAML mapping, and is left out")
		return
	}
	for key, value := range strictyaml.Pairs(node) {
		if key.Value == "skill" && value.Kind == yaml.MappingNode {
			node = value
			break
		}
	}
	noteKeys(node, FrontKeys(), d.file, line, f)
	d.said, d.saidLine = node, line
}
