// Package changes says in words what differs between two states of an object.
// Its input is an object's JSON as encoding/json decodes it into any.
package changes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Between says what leads from one Pod template to another, a line for each
// value that was added, removed or changed, in the order of their names. clean
// makes text from the cluster fit to be shown, in at most limit bytes.
func Between(from, to any, clean func(s string, limit int) string) []string {
	before, after := map[string]string{}, map[string]string{}
	flattenValues("", from, before)
	flattenValues("", to, after)
	var out []string
	for path, was := range before {
		is, still := after[path]
		switch {
		case !still:
			out = append(out, fmt.Sprintf("%s removed (was %s)", pathInWords(path, clean), clean(was, maxValue)))
		case is != was:
			out = append(out, fmt.Sprintf("%s changed from %s to %s", pathInWords(path, clean), clean(was, maxValue), clean(is, maxValue)))
		}
	}
	for path, is := range after {
		if _, had := before[path]; !had {
			out = append(out, fmt.Sprintf("%s added: %s", pathInWords(path, clean), clean(is, maxValue)))
		}
	}
	slices.Sort(out)
	return out
}

// Bounds of one line, in bytes.
const (
	maxValue = 200
	maxPath  = 300
)

// flattenValues writes every value below doc under its path. Items of a list that
// have a name are found by it, so that an inserted one shifts nothing.
func flattenValues(path string, doc any, into map[string]string) {
	switch v := doc.(type) {
	case map[string]any:
		for key, e := range v {
			if key == "pod-template-hash" || key == "creationTimestamp" {
				continue
			}
			flattenValues(strings.TrimPrefix(path+"."+key, "."), e, into)
		}
	case []any:
		for i, e := range v {
			flattenValues(path+"["+labelOfItem(i, e)+"]", e, into)
		}
	case nil:
	default:
		into[path] = fmt.Sprintf("%#v", v)
	}
}

func labelOfItem(i int, item any) string {
	fields, _ := item.(map[string]any)
	if name, _ := fields["name"].(string); name != "" {
		return name
	}
	return strconv.Itoa(i)
}

// singular are the lists whose items people call by their own word.
var singular = strings.NewReplacer("spec.containers[", "container [", "spec.initContainers[", "init container [",
	"spec.volumes[", "volume [", ".env[", " variable [", ".volumeMounts[", " mount [", ".ports[", " port [",
	"metadata.labels.", "label ", "metadata.annotations.", "annotation ")

// pathInWords turns a path into what a person would say.
func pathInWords(path string, clean func(string, int) string) string {
	s := strings.NewReplacer("[", "", "].", " ", "]", "").Replace(singular.Replace(path))
	if v, ok := strings.CutSuffix(s, " value"); ok && strings.Contains(s, " variable ") {
		s = v
	}
	return clean(s, maxPath)
}
