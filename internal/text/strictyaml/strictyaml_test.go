package strictyaml

import (
	"strings"
	"testing"
	"time"
)

type shelf struct {
	Name  string         `yaml:"name"`
	Every time.Duration  `yaml:"every"`
	Books []book         `yaml:"books"`
	Notes map[string]any `yaml:"notes"`
}

type book struct {
	Title string `yaml:"title"`
}

func TestUnmarshal(t *testing.T) {
	var s shelf
	err := Unmarshal([]byte("# a comment\nname: one\nevery: 5m\nbooks:\n- title: a\n- {title: \"b: c\"}\nnotes: {n: 1, deep: {x: [yes]}}\n"), &s)
	if err != nil || s.Name != "one" || s.Every != 5*time.Minute || len(s.Books) != 2 || s.Books[1].Title != "b: c" || s.Notes["n"] != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, nothing := range []string{"", "# c\n", "---\n", "null\n"} {
		if err := Unmarshal([]byte(nothing), &s); err != nil || s.Name != "one" && s.Name != "" {
			t.Errorf("%q: %+v, %v", nothing, s, err)
		}
	}
}

func TestErrorsSayWhere(t *testing.T) {
	ladder := "notes:\n  a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i, c := 0, 'a'; i < 9; i, c = i+1, c+1 {
		ladder += "  " + string(c+1) + ": &" + string(c+1) + " [" + strings.Repeat("*"+string(c)+",", 9) + "]\n"
	}
	for text, want := range map[string]string{
		"name: a\nnmae: b\n":                   `line 2: unknown field "nmae"`,
		"books:\n- title: a\n  titel: b\n":     `line 3: unknown field "titel"`,
		"name: a\nevery: 1m\nname: b\n":        "line 3: ",
		"name: a\nbooks: {title: b}\n":         "line 2: a map does not fit here",
		"name: a\nevery: soon\n":               "line 2: a str `soon` does not fit here",
		"name: a\n---\nname: b\n":              "line 2: a second document begins here",
		"name: a\nbooks:\n  - title: b\n c:\n": "line 4: ",
		"name: [a\n":                           "line 2: ",
		"name: *a\n":                           "line 1: ",
		"x: " + strings.Repeat("[", 100_000):   "line 1: ",
		ladder:                                 "line ",
	} {
		err := Unmarshal([]byte(text), &shelf{})
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "strictyaml.") {
			t.Errorf("%.60q: %v, want %s…", text, err, want)
		}
	}
}
