package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// Print writes the effective configuration with the origin of each value.
// Format "yaml" can be loaded again, except for the secrets, which stand in
// comments as ‹secret›; "json" is one document.
func Print(w io.Writer, cfg *Config, format string) error {
	var out []byte
	var err error
	switch format {
	case "yaml", "text", "":
		out = printYAML(cfg)
	case "json":
		out, err = printJSON(cfg)
	default:
		err = nightcrier.Errorf(nightcrier.Invalid, "format %s is not one of yaml, json", quoteValue(format))
	}
	if err == nil {
		_, err = w.Write(out)
	}
	return err
}

// printed is one effective value.
type printed struct {
	key    *key
	path   string
	value  any
	origin Origin
}

// effectiveRows lists the values of the keys that pick chooses.
func effectiveRows(cfg *Config, entry int, pick func(*key) bool) []printed {
	var rows []printed
	all := allKeys()
	for i := range all {
		k := &all[i]
		if !pick(k) {
			continue
		}
		field, path := k.targetIn(cfg, entry), k.pathAt(entry)
		if field == nil {
			continue
		}
		value := reflect.ValueOf(field).Elem().Interface()
		rows = append(rows, printed{key: k, path: path, value: value, origin: cfg.origins[path]})
	}
	return rows
}

func ofServer(k *key) bool { return !k.ofCluster() && !k.ofHook() && !k.ofTool() }

func printJSON(cfg *Config) ([]byte, error) {
	out, err := json.MarshalIndent(map[string]any{"settings": Effective(cfg)}, "", "  ")
	return append(out, '\n'), err
}

// Setting is one effective value, and where it came from. What is secret says only that it is.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

// Effective lists the values that are in force.
func Effective(cfg *Config) []Setting {
	rows := []Setting{}
	add := func(all []printed) {
		for _, p := range all {
			rows = append(rows, Setting{Key: p.path, Value: plainValue(p), Origin: p.origin.String()})
		}
	}
	add(effectiveRows(cfg, 0, ofServer))
	for i := range cfg.Clusters {
		add(effectiveRows(cfg, i, (*key).ofCluster))
	}
	for i := range cfg.Webhooks {
		add(effectiveRows(cfg, i, (*key).ofHook))
	}
	for i := range cfg.ToolServers {
		add(effectiveRows(cfg, i, (*key).ofTool))
	}
	return rows
}

// plainValue is a value as JSON shows it.
func plainValue(p printed) any {
	switch v := p.value.(type) {
	case time.Duration:
		return formatDuration(v)
	case int64:
		return formatSize(v)
	case map[string]string:
		if v == nil {
			return map[string]string{}
		}
	case []string:
		if v == nil {
			return []string{}
		}
	case []int:
		if v == nil {
			return []int{}
		}
	case []skill.Source:
		return sourceLines(v)
	case string:
		return orClosed(p, v)
	}
	return p.value
}

// orClosed writes an address that is off as the word that switches it off.
func orClosed(p printed, v string) string {
	if v == "" && p.key.path == "listen" {
		return closed
	}
	return v
}

func printYAML(cfg *Config) []byte {
	y := &yamlPrinter{}
	y.printRows(effectiveRows(cfg, 0, ofServer), "", "")
	if len(cfg.Clusters) > 0 {
		y.printLine("clusters:", "")
	}
	for i := range cfg.Clusters {
		y.printRows(effectiveRows(cfg, i, cfg.Clusters[i].isKeyPrinted), clusterPrefix, "  ")
	}
	if len(cfg.Webhooks) > 0 {
		y.printLine("webhooks:", "")
	}
	for i := range cfg.Webhooks {
		y.printRows(effectiveRows(cfg, i, (*key).ofHook), hookPrefix, "  ")
	}
	if len(cfg.ToolServers) > 0 {
		y.printLine("tool_servers:", "")
	}
	for i := range cfg.ToolServers {
		y.printRows(effectiveRows(cfg, i, (*key).ofTool), toolPrefix, "  ")
	}
	return y.out.Bytes()
}

// isKeyPrinted reports whether the file has the key: the mapping that says by being there
// that alerts are expected stands there only if it was given.
func (c *Cluster) isKeyPrinted(k *key) bool {
	return k.ofCluster() && (c.Alertmanager.Given || !strings.HasPrefix(k.path, alertPrefix))
}

type yamlPrinter struct {
	out bytes.Buffer
	// groups are the mappings that are open, the outermost first.
	groups []string
}

// printRows prints keys without the prefix, indented; the first one of a list entry
// gets the dash.
func (y *yamlPrinter) printRows(all []printed, prefix, indent string) {
	y.groups = nil
	for i, p := range all {
		lead := indent
		if prefix != "" {
			lead += map[bool]string{true: "- ", false: "  "}[i == 0]
		}
		words := strings.Split(strings.TrimPrefix(p.key.path, prefix), ".")
		groups, name := words[:len(words)-1], words[len(words)-1]
		for depth, group := range groups {
			if depth >= len(y.groups) || !slices.Equal(groups[:depth+1], y.groups[:depth+1]) {
				y.printLine(lead+group+":", "")
			}
			lead += "  "
		}
		y.groups = groups
		y.printValue(lead, name, p)
	}
}

func (y *yamlPrinter) printValue(lead, name string, p printed) {
	if s, ok := p.value.(Secret); ok && s.IsSet() {
		y.printLine(lead+"# "+name+": "+s.String(), p.origin.String())
		return
	}
	y.printLine(lead+name+": "+yamlValue(p), p.origin.String())
}

func (y *yamlPrinter) printLine(text, origin string) {
	if origin != "" {
		text = fmt.Sprintf("%-48s  # %s", text, texts.FoldLine(origin))
	}
	y.out.WriteString(text + "\n")
}

func yamlValue(p printed) string {
	switch v := p.value.(type) {
	case []string:
		return yamlList(v)
	case []skill.Source:
		return yamlList(sourceLines(v))
	case []int:
		return strings.ReplaceAll(fmt.Sprint(v), " ", ", ")
	case map[string]string:
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, yamlText(name)+": "+yamlText(v[name]))
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	case string:
		return yamlText(orClosed(p, v))
	case Secret:
		return `""`
	}
	return fmt.Sprint(plainValue(p))
}

func yamlList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = yamlText(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func sourceLines(all []skill.Source) []string {
	lines := make([]string, len(all))
	for i, s := range all {
		lines[i] = s.String()
	}
	return lines
}

var plainText = regexp.MustCompile(`^[A-Za-z/]([A-Za-z0-9_./:-]*[A-Za-z0-9_./-])?$`)

// yamlText quotes a text unless it reads the same without.
func yamlText(s string) string {
	if plainText.MatchString(s) && !slices.Contains([]string{"null", "Null", "NULL"}, s) {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
