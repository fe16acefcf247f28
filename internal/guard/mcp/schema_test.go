package mcp

import (
	"encoding/json"
	"strings"
	"testing"
)

func parse(t testing.TB, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemasThatAreRefused(t *testing.T) {
	doubling := `{"$defs":{"d0":{"type":"string"}`
	for i := 1; i <= 30; i++ {
		prev := strings.Repeat("x", 0) + itoa(i-1)
		doubling += `,"d` + itoa(i) + `":{"allOf":[{"$ref":"#/$defs/d` + prev + `"},{"$ref":"#/$defs/d` + prev + `"}]}`
	}
	doubling += `},"properties":{"a":{"$ref":"#/$defs/d30"}}}`
	for name, s := range map[string]string{
		"a loop":                `{"properties":{"a":{"$ref":"#/properties/a"}}}`,
		"a loop of two":         `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"a":{"$ref":"#/$defs/a"}}}`,
		"a tree":                `{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}},"properties":{"a":{"$ref":"#/$defs/n"}}}`,
		"itself":                `{"allOf":[{"$ref":"#"}]}`,
		"doubling":              doubling,
		"another host":          `{"properties":{"a":{"$ref":"http://169.254.169.254/schema"}}}`,
		"a file":                `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		"not there":             `{"properties":{"a":{"$ref":"#/$defs/x"}}}`,
		"dynamic":               `{"properties":{"a":{"$dynamicRef":"#x"}}}`,
		"deep":                  strings.Repeat(`{"properties":{"a":`, 100) + `{}` + strings.Repeat(`}}`, 100),
		"wide":                  `{"enum":[` + strings.TrimSuffix(strings.Repeat("1,", 3000), ",") + `]}`,
		"large":                 `{"properties":{"a":{"pattern":"` + strings.Repeat("a", 70<<10) + `"}}}`,
		"a string":              `"x"`,
		"arguments as a string": `{"type":"string"}`,
		"a huge pattern":        `{"properties":{"a":{"type":"string","pattern":"((a{1000}){1000}){1000}"}}}`,
		"a broken pattern":      `{"properties":{"a":{"type":"string","pattern":"("}}}`,
		"a name with a line":    `{"properties":{"a\nignore all":{"type":"string"}}}`,
		"a value with escapes":  `{"properties":{"a":{"enum":["\u001b[2J"]}}}`,
		"no schema within":      `{"properties":{"a":7}}`,
	} {
		if s, err := readSchema(parse(t, s)); err == nil {
			t.Errorf("%s passes: %v", name, s.shown)
		} else if len(err.Error()) > 400 {
			t.Errorf("%s: %d bytes of error", name, len(err.Error()))
		}
	}
}

func itoa(i int) string { b, _ := json.Marshal(i); return string(b) }

func TestSchemasThatAreTaken(t *testing.T) {
	s, err := readSchema(parse(t, `{"$schema":"http://json-schema.org/draft-07/schema#","description":"a\u001b[2Jb","anyOf":[{"required":["a"]},{"required":["b"]}],
		"$defs":{"time":{"type":"string","pattern":"^now"}},"additionalProperties":false,"x-secret":"OBEY",
		"properties":{"a":{"$ref":"#/$defs/time","description":"when"},"b":{"type":"array","items":[{"type":"integer"}]},"c":{"$ref":"#/$defs/time","maxLength":4}}}`))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(s.shown)
	if err != nil || strings.Contains(string(shown), "anyOf") || strings.Contains(string(shown), "OBEY") || strings.Contains(string(shown), "$ref") ||
		strings.Contains(string(shown), "u001b") || !strings.Contains(string(shown), `"when"`) || s.shown["type"] != "object" {
		t.Errorf("shown %s: %v", shown, err)
	}
	for args, ok := range map[string]bool{
		`{"a":"now-1h"}`: true, `{"a":"then"}`: false, `{}`: false, `{"b":[1]}`: true, `{"b":["x"]}`: false, `{"a":"now","d":1}`: false,
		`{"a":"now","c":"now1"}`: true, `{"a":"now","c":"now12"}`: false, `{"a":"now","c":"x"}`: false,
	} {
		if _, err := s.readArguments([]byte(args)); (err == nil) != ok {
			t.Errorf("%s: %v", args, err)
		}
	}
	if empty, err := readSchema(nil); err != nil || empty.shown["properties"] == nil {
		t.Errorf("none: %v", err)
	} else if _, err := empty.readArguments(nil); err != nil {
		t.Error(err)
	}
}

// Whatever a server sends for a schema and a model for arguments, nothing panics and
// nothing takes long.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`, `{"a":"b"}`)
	f.Add(`{"allOf":[{"$ref":"#"}],"items":[{}],"patternProperties":{"(a+)+$":{}}}`, `{"aaaaaaaaaaaaaaaaaaaaaaaaaaaa!":[1e400,null]}`)
	f.Add(`{"properties":{"a":{"uniqueItems":true,"multipleOf":1e-300,"const":[]}}}`, `{"a":[1,1,{}]}`)
	f.Fuzz(func(t *testing.T, given, args string) {
		var v any
		if json.Unmarshal([]byte(given), &v) != nil {
			return
		}
		s, err := readSchema(v)
		if err != nil {
			return
		}
		if s.shown["type"] != "object" {
			t.Errorf("shown %v", s.shown)
		}
		_, _ = s.readArguments([]byte(args))
	})
}
