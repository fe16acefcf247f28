package skill

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// section is a mapping in a file of a skill, nil for one that is not there. What its values should
// be and are not is a finding.
type section struct {
	said *yaml.Node
	file string
	// path is that of its keys, with a point behind it; offset is added to its lines.
	path   string
	offset int
	// fault is the level of what is wrong with a value.
	fault Level
	f     *findings
}

// find returns a key and its value, nil for none.
func (s section) find(key string) (k, v *yaml.Node) {
	if s.said != nil {
		for k, v := range strictyaml.Pairs(s.said) {
			if k.Value == key && !strictyaml.IsNull(v) {
				return k, v
			}
		}
	}
	return nil, nil
}

// add says something of a key, "" for the section itself.
func (s section) add(level Level, key, format string, args ...any) {
	line := s.offset
	if k, _ := s.find(key); k != nil {
		line += k.Line
	} else if s.said != nil && key == "" {
		line += s.said.Line
	} else if line == 0 && s.said != nil {
		line = s.said.Line
	}
	said := fmt.Sprintf(format, args...)
	if at := strings.TrimSuffix(s.path+key, "."); at != "" {
		said = at + ": " + said
	}
	s.f.add(level, s.file, line, "%s", said)
}

func (s section) isEmpty() bool { return s.said == nil || len(s.said.Content) == 0 }

func (s section) has(key string) bool { k, _ := s.find(key); return k != nil }

func (s section) isText(key string) bool {
	_, v := s.find(key)
	return v != nil && v.Kind == yaml.ScalarNode
}

func (s section) isMapping(key string) bool {
	_, v := s.find(key)
	return v != nil && v.Kind == yaml.MappingNode
}

// isTrue reads a switch, off where it is not there.
func (s section) isTrue(key string) bool {
	said := s.text(key)
	if said != "" && said != "true" && said != "false" {
		s.add(s.fault, key, "is not true or false")
	}
	return said == "true"
}

// below is a mapping in the section.
func (s section) below(key string) section {
	_, v := s.find(key)
	in := section{file: s.file, path: s.path + key + ".", offset: s.offset, fault: s.fault, f: s.f}
	switch {
	case v == nil:
	case v.Kind != yaml.MappingNode:
		s.add(s.fault, key, "is not a mapping: write keys below it")
	default:
		in.said = v
	}
	return in
}

// entries are those of a list.
func (s section) entries(key, want string) []*yaml.Node {
	_, v := s.find(key)
	switch {
	case v == nil:
		return nil
	case v.Kind != yaml.SequenceNode:
		s.add(s.fault, key, "is not %s", want)
		return nil
	}
	return v.Content
}

// list are the mappings of a list.
func (s section) list(key string) (all []section) {
	const want = "a list of mappings: begin each with '-'"
	for _, one := range s.entries(key, want) {
		if one.Kind != yaml.MappingNode {
			s.add(s.fault, key, "is not %s", want)
			continue
		}
		all = append(all, section{one, s.file, s.path + key + ".", s.offset, s.fault, s.f})
	}
	return all
}

// text is a single value as one line.
func (s section) text(key string) string {
	_, v := s.find(key)
	if v == nil {
		return ""
	}
	said, ok := strictyaml.ScalarText(v)
	if !ok {
		s.add(s.fault, key, "is not a text")
	}
	return text.CutRunes(text.FoldLine(said), maxValue)
}

// textOrNone is a single value, "" also for what is none.
func (s section) textOrNone(key string) string {
	if !s.isText(key) {
		return ""
	}
	return s.text(key)
}

// texts are the values of a list.
func (s section) texts(key string) (all []string) {
	for _, item := range s.entries(key, "a list of texts: begin each with '-'") {
		one, ok := strictyaml.ScalarText(item)
		if !ok {
			s.add(s.fault, key, "is not a list of texts")
			continue
		}
		all = append(all, text.CutRunes(text.FoldLine(one), maxValue))
	}
	return all
}

func (s section) oneOf(key string, words ...string) string {
	said := s.text(key)
	if said != "" && !slices.Contains(words, said) {
		s.add(s.fault, key, "is none of %s", strings.Join(words, ", "))
	}
	return said
}

// count is a whole number from 1 to most, 0 where there is none; another one that may be said beside
// those is allowed.
func (s section) count(key string, most int, allowed ...int) int {
	said := s.text(key)
	if said == "" {
		return 0
	}
	n, err := strconv.Atoi(said)
	if err == nil && slices.Contains(allowed, n) {
		return n
	}
	if err != nil || n < 1 || n > most {
		s.add(s.fault, key, "is not a whole number from 1 to %d", most)
		return 0
	}
	return n
}

// maxTimeout is the longest that an agent may work.
const maxTimeout = 24 * time.Hour

// duration is a number of seconds, or a time such as 60s.
func (s section) duration(key string) time.Duration {
	said := s.text(key)
	if said == "" {
		return 0
	}
	d, err := time.ParseDuration(said)
	if seconds, wrong := strconv.ParseFloat(said, 64); wrong == nil {
		d, err = time.Duration(min(seconds, 2*maxTimeout.Seconds())*float64(time.Second)), nil
	}
	if err != nil || d < time.Second || d > maxTimeout {
		s.add(s.fault, key, "is not a number of seconds, or a time such as 60s, of at most a day")
		return 0
	}
	return d
}

// dollars is an amount such as "$0.30", 0 where there is none.
func (s section) dollars(key string) float64 {
	said := s.text(key)
	if said == "" {
		return 0
	}
	usd, err := strconv.ParseFloat(strings.TrimPrefix(said, "$"), 64)
	if err != nil || usd <= 0 || math.IsInf(usd, 0) || math.IsNaN(usd) {
		s.add(s.fault, key, "is not an amount such as $0.30")
		return 0
	}
	return usd
}

// lowest is the least of some bounds, of which 0 is none.
func lowest(bounds ...float64) (least float64) {
	for _, b := range bounds {
		if b > 0 && (least == 0 || b < least) {
			least = b
		}
	}
	return least
}

// bindings are the tools that it wants.
func (s section) bindings() (all []Binding) {
	for _, one := range s.list("mcp_tools") {
		b := Binding{one.text("server"), one.texts("tools"), one.texts("approval_required"), one.isTrue("read_only")}
		switch again := slices.ContainsFunc(all, func(o Binding) bool { return o.Server == b.Server }); {
		case b.Server == "":
			one.add(s.fault, "server", "is missing: name a tool server that is configured in tool_servers")
		case again:
			one.add(s.fault, "server", "names %s a second time: put its tools together", b.Server)
			continue
		}
		for _, tool := range b.Approval {
			if len(b.Tools) > 0 && !slices.Contains(b.Tools, "*") && !slices.Contains(b.Tools, tool) {
				one.add(Warn, "approval_required", "names %s, which tools does not", tool)
			}
		}
		all = append(all, b)
	}
	return all
}

// notifications are who is told when a run has ended in which it was used.
func (s section) notifications() (all []Notification) {
	for _, one := range s.list("notifications") {
		n := Notification{one.text("channel"), one.texts("on")}
		if !slices.Contains(Channels(), n.Channel) {
			one.add(s.fault, "channel", "is not one of %s", strings.Join(Channels(), ", "))
		}
		for _, on := range n.On {
			if err := CheckOutcome(on); err != nil {
				one.add(s.fault, "on", "%v", err)
			}
		}
		all = append(all, n)
	}
	return all
}

// deliver is what it has to leave.
func (s section) deliver() *Deliver {
	d := s.below("deliver")
	if d.isEmpty() {
		return nil
	}
	out := Deliver{Report: d.text("report"), Files: d.texts("files")}
	if schema := d.below("schema"); !schema.isEmpty() {
		var value any
		if err := schema.said.Decode(&value); err == nil {
			out.Schema, err = json.Marshal(value)
			if err != nil {
				d.add(s.fault, "schema", "is not a JSON Schema")
			} else if err := CheckSchema(out.Schema); err != nil {
				d.add(Refuse, "schema", "%v", err)
			}
		}
	}
	kinds := 0
	for _, given := range []bool{out.Report != "", len(out.Files) > 0, out.Schema != nil} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		s.add(s.fault, "deliver", "is not one of report, schema and files: keep one")
	}
	return &out
}

// noteKeys says which keys of a mapping, and of what lies below them, are not what somebody may
// take them for.
func noteKeys(n *yaml.Node, known []Key, file string, offset int, f *findings) {
	byPath := map[string]Key{}
	for _, k := range known {
		byPath[k.Path] = k
	}
	var visit func(n *yaml.Node, path string)
	visit = func(n *yaml.Node, path string) {
		for _, item := range n.Content {
			if n.Kind == yaml.SequenceNode {
				visit(item, path)
			}
		}
		if n.Kind != yaml.MappingNode {
			return
		}
		seen := map[string]bool{}
		for k, v := range strictyaml.Pairs(n) {
			at := path + k.Value
			shown, line := text.CutRunes(text.FoldLine(at), maxValue), offset+k.Line
			key, ok := byPath[strings.Replace(at, "sandbox.", "agent.", 1)]
			switch {
			case strictyaml.IsUnsupported(k), strictyaml.IsUnsupported(v):
				f.add(Fail, file, line, "%s: %v", shown, strictyaml.ErrUnsupported)
			case seen[k.Value]:
				f.add(Fail, file, line, "%s: is given a second time: keep one", shown)
			case !ok:
				f.add(Warn, file, line, "%s: is not known, and left out%s", shown, suggestKey(at, known))
			case key.Effect == Unused && key.Note != "":
				f.add(Warn, file, line, "%s: has no effect here: %s", shown, key.Note)
			case key.Effect == Shown && key.Note != "":
				f.add(Warn, file, line, "%s: is only shown here: %s", shown, key.Note)
			case key.Effect == Used && at != "deliver.schema":
				visit(v, at+".")
			}
			seen[k.Value] = true
		}
	}
	visit(n, "")
}

func suggestKey(at string, known []Key) string {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.Path
	}
	return text.SuggestName(" (did you mean %s?)", at, names)
}
