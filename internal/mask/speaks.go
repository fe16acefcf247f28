package mask

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// probe is what looks like a secret and is none.
const probe = "Vq7xK2mWz9TbH4"

// NamesSecret reports whether a name says that what stands under it is a secret: a value
// of it would be masked wherever the name stands beside it. A name may have a domain in
// front, as labels of Kubernetes have.
func NamesSecret(name string) bool {
	names := []string{name}
	if slash := strings.LastIndexByte(name, '/'); slash >= 0 {
		names = append(names, name[slash+1:])
	}
	m := New(nil)
	for _, n := range names {
		text, err := json.Marshal(map[string]string{n: probe})
		if err == nil && !strings.Contains(m.String(string(text)), probe) {
			return true
		}
	}
	return false
}

// SelectsBySecret returns the label that a selector of labels compares although its name
// speaks of a secret, "" for none: by yes and no, and by what is less, an answer would
// tell what the label holds. Its error says that the selector cannot be read.
func SelectsBySecret(selector string) (label string, err error) {
	all, err := labels.ParseToRequirements(selector)
	for _, r := range all {
		there := r.Operator() == selection.Exists || r.Operator() == selection.DoesNotExist
		if !there && NamesSecret(r.Key()) {
			return r.Key(), nil
		}
	}
	return "", err
}
