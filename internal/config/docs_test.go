package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// docsTables returns the tables of docs/configuration.md, in Markdown.
func docsTables() string {
	var b strings.Builder
	all := allKeys()
	b.WriteString("| Key | Default | Values | Meaning |\n|---|---|---|---|\n")
	for i := range all {
		if k := &all[i]; !k.foreign {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.path, code(k.def), k.typ.word, k.doc)
		}
	}
	b.WriteString("\n### Other spellings\n\n| Spelling | Same as | Remark |\n|---|---|---|\n")
	for i := range all {
		for _, s := range all[i].also {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", s.label(), sameAs(&all[i]), s.remark())
		}
	}
	b.WriteString("\n### Keys with one accepted value\n\n| Key | Meaning |\n|---|---|\n")
	for i := range all {
		if k := &all[i]; k.foreign {
			fmt.Fprintf(&b, "| `%s` | %s |\n", k.path, k.doc)
		}
	}
	b.WriteString("\n### Variables of the older platform\n\n| Variables | What happens |\n|---|---|\n")
	for f, what := range []string{"retired: one warning lists those that are set", "not used by this version: one warning lists those that are set",
		"refused when set to anything but false", "the address and the key of a tool server: [tools.md](tools.md#variables)", "left alone: other programs use these names"} {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(platformNames(fate(f)), " "), what)
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func sameAs(k *key) string {
	if k.foreign {
		return code(k.path)
	}
	if k.ofCluster() {
		return code(k.path) + " of the only cluster"
	}
	return code(k.path)
}

// label names the spelling as it is written in its layer.
func (s spelling) label() string {
	switch s.layer {
	case LayerEnv:
		return "variable `" + s.name + "`"
	case LayerFlag:
		return "flag `--" + s.name + "`"
	}
	return "file `" + s.name + "`"
}

// remark says how the spelling's values differ.
func (s spelling) remark() string {
	units := map[string]string{"s": "seconds", "m": "minutes", "h": "hours"}
	if s.unit != "" {
		return "a plain number means " + units[s.unit]
	}
	if s.provider != "" {
		return "while `agent.provider` is " + code(string(s.provider))
	}
	var remarks []string
	for _, theirs := range slices.Sorted(maps.Keys(s.translate)) {
		if ours := s.translate[theirs]; ours != "" {
			remarks = append(remarks, code(theirs)+" means "+code(ours))
		} else {
			remarks = append(remarks, code(theirs)+" counts as not set")
		}
	}
	return strings.Join(remarks, ", ")
}

func platformNames(f fate) []string {
	var names []string
	for _, row := range platformTable() {
		if row.fate == f {
			names = append(names, code(row.name))
		}
	}
	return names
}
