package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// captured is the moment that every case is recorded at.
var captured = time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)

// manifest is one case as its author writes it: a header and the documents after
// it. docs/eval.md explains both.
type manifest struct {
	header
	file string
	docs []map[string]any
}

// header is the first document of a case.
type header struct {
	Case  string `json:"case"`
	About string `json:"about"`
	// Target is KIND/NAME, empty for the whole namespace.
	Target    string `json:"target,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Expect and Forbidden go into case.yaml as they are.
	Expect    map[string]any `json:"expect"`
	Forbidden []string       `json:"forbidden,omitempty"`
	// From is apiserver, the default, or node.
	From string `json:"from,omitempty"`
	// Age is how old objects are that do not say it.
	Age string `json:"age,omitempty"`
	// Nodes is how many healthy nodes there are, 2 by default; 0 for none of them.
	Nodes *int `json:"nodes,omitempty"`
	// System adds the cluster's DNS, Neighbours healthy workloads of these names.
	System     bool     `json:"system,omitempty"`
	Neighbours []string `json:"neighbours,omitempty"`
	// Omit are kinds that were gone when it was recorded, "Log" for all logs.
	Omit []string `json:"omit,omitempty"`
	// NotCaptured are resources that could not be read, such as "nodes"; their
	// objects are not in the snapshot, which says so.
	NotCaptured []string `json:"notCaptured,omitempty"`
	// Wait are the conditions that a node is given time to reach.
	Wait []wait `json:"wait,omitempty"`
}

// wait is fulfilled when a JSONPath of some object of a kind gives a text.
type wait struct {
	Of   string `json:"of"`
	Path string `json:"path"`
	Is   string `json:"is"`
}

// manifests reads all cases that are written down.
func manifests(t *testing.T) []manifest {
	t.Helper()
	files, err := filepath.Glob("manifests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var all []manifest
	for _, file := range files {
		read, err := readManifests(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, read...)
	}
	return all
}

var documentEnd = regexp.MustCompile(`(?m)^---[ \t]*$`)

// readManifests reads a file of cases; each begins with a document that has the
// key case.
func readManifests(file string) ([]manifest, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []manifest
	for i, text := range documentEnd.Split(string(raw), -1) {
		doc, err := document([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		switch {
		case doc == nil:
		case doc["case"] != nil:
			m := manifest{file: file}
			if err := into(doc, &m.header); err != nil {
				return nil, fmt.Errorf("document %d: %w", i+1, err)
			}
			if m.Namespace == "" {
				m.Namespace = "shop"
			}
			if m.Age == "" {
				m.Age = "6d"
			}
			all = append(all, m)
		case len(all) == 0:
			return nil, fmt.Errorf("document %d: the first one must have the key case", i+1)
		default:
			last := &all[len(all)-1]
			last.docs = append(last.docs, doc)
		}
	}
	return all, nil
}

// document reads one YAML document with numbers as the API machinery has them.
func document(text []byte) (map[string]any, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil || doc == nil {
		return nil, err
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	doc = nil
	return doc, utiljson.Unmarshal(raw, &doc)
}

// into reads a document into a struct, strictly.
func into(doc map[string]any, v any) error {
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	return in.Decode(v)
}

var spanPart = regexp.MustCompile(`(\d+)([dhms])`)

// span reads a length of time such as 3d, 2h30m or 45s.
func span(s string) (time.Duration, error) {
	unit := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second}
	var d time.Duration
	rest := spanPart.ReplaceAllStringFunc(s, func(part string) string {
		m := spanPart.FindStringSubmatch(part)
		n, _ := strconv.Atoi(m[1])
		d += time.Duration(n) * unit[m[2]]
		return ""
	})
	if rest != "" || s == "" {
		return 0, fmt.Errorf("%q is no length of time such as 3d, 2h30m or 45s", s)
	}
	return d, nil
}

var moment = regexp.MustCompile(`^(ago|in) ([0-9dhms]+)$`)

// moments replaces texts such as "ago 5m" and "in 2h" by times, everywhere in v.
func moments(v any, replace func(string) (string, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			if v[k], err = moments(v[k], replace); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = moments(v[i], replace); err != nil {
				return nil, err
			}
		}
	case string:
		if v, err = replace(v); err != nil {
			return nil, err
		}
		m := moment.FindStringSubmatch(v)
		if m == nil {
			return v, nil
		}
		d, err := span(m[2])
		if m[1] == "ago" {
			d = -d
		}
		return captured.Add(d).Format(time.RFC3339), err
	}
	return v, nil
}

// known says whether a map holds one of the keys.
func known(doc map[string]any, keys ...string) string {
	for _, k := range keys {
		if _, ok := doc[k]; ok {
			return k
		}
	}
	return ""
}

func fields(s, sep string) (string, string) {
	a, b, _ := strings.Cut(s, sep)
	return a, b
}
