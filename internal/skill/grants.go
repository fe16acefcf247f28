package skill

import "bytes"

// withoutGrants removes the key allowed-tools from the front matter of a
// SKILL.md: some CLIs let a skill grant itself tools with it, past what the agent
// was given.
func withoutGrants(name string, data []byte) []byte {
	if name != "SKILL.md" || !bytes.HasPrefix(data, []byte("---")) {
		return data
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	out := lines[:1:1]
	granting := false
	for i, l := range lines[1:] {
		if bytes.HasPrefix(l, []byte("---")) {
			return bytes.Join(append(out, lines[i+1:]...), nil)
		}
		// What is indented, or an item of a list, belongs to the key above.
		if own := len(bytes.TrimSpace(l)) > 0 && bytes.IndexByte([]byte(" \t-#"), l[0]) < 0; own {
			granting = grants(l)
		}
		if !granting {
			out = append(out, l)
		}
	}
	return bytes.Join(out, nil)
}

func grants(line []byte) bool {
	key, _, _ := bytes.Cut(line, []byte(":"))
	key = bytes.Trim(bytes.ToLower(bytes.TrimSpace(key)), `"'`)
	return bytes.Equal(key, []byte("allowed-tools")) || bytes.Equal(key, []byte("allowed_tools")) || bytes.Equal(key, []byte("allowedtools"))
}
