package mask

import (
	"encoding/json"
	"strings"
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
