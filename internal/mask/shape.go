package mask

import "strings"

// Shapes of what is no secret, however mixed it looks: names of objects, versions,
// references of images. What has one is masked where its name says that it is a secret, and
// is not learned.

// maxShape is how long a text is at most that has one of the shapes.
const maxShape = 320

// hasShape reports whether a text looks like the name of an object, a version or an image.
func hasShape(text string) bool {
	return len(text) <= maxShape && (isObjectName(text) || isVersion(text) || isImage(text))
}

// isObjectName reports whether a text looks like a name in Kubernetes: words in small
// letters, with numbers, and with what controllers put behind them: k8s-prod-v2,
// cart-7d4b9c6f5d-x2x7q, pvc-0191c1e2-7b3a-7c11-9a9b-0123456789ab.
func isObjectName(text string) bool {
	words := strings.Split(text, "-")
	return len(words) > 1 && areWords(words) && hasWord(words)
}

// isVersion reports whether a text looks like a version: v1.31.2+k3s1, 5.15.0-1057-aws.
func isVersion(text string) bool {
	text = strings.TrimPrefix(text, "v")
	end := span(text, 0, func(c byte) bool { return isDigit(c) || c == '.' })
	numbers := strings.Split(strings.TrimRight(text[:end], "."), ".")
	if len(numbers) < 2 || len(numbers) > 4 || has(text[end:], isUpper) {
		return false
	}
	for _, n := range numbers {
		if n == "" || len(n) > 5 {
			return false
		}
	}
	rest := strings.TrimLeft(text[end:], "-+_")
	return rest == "" || len(rest) < len(text[end:]) && areWords(strings.FieldsFunc(rest, func(c rune) bool { return strings.ContainsRune("-+._", c) }))
}

// isImage reports whether a text looks like the reference of an image:
// registry.example:5000/shop/cart:1.4.2-3f2a9c81.
func isImage(text string) bool {
	text, digest, pinned := strings.Cut(text, "@")
	if pinned && (!strings.HasPrefix(digest, "sha256:") || span(digest, len("sha256:"), isHex) != len(digest)) {
		return false
	}
	path, tag := text, ""
	if colon := strings.LastIndexByte(text, ':'); colon > strings.LastIndexByte(text, '/') {
		path, tag = text[:colon], text[colon+1:]
	}
	if tag != "" && !isVersion(tag) && !areWords(strings.FieldsFunc(tag, isSeparator)) {
		return false
	}
	var words []string
	for i, part := range strings.Split(path, "/") {
		if host, port, ok := strings.Cut(part, ":"); ok && i == 0 && span(port, 0, isDigit) == len(port) {
			part = host
		}
		words = append(words, strings.FieldsFunc(part, isSeparator)...)
	}
	return (tag != "" || pinned || strings.IndexByte(path, '/') > 0) && areWords(words) && hasWord(words)
}

func isSeparator(c rune) bool { return c == '-' || c == '.' || c == '_' }

// areWords reports whether all words are such as names have, and two of them at most are
// generated.
func areWords(words []string) bool {
	generated := 0
	for _, w := range words {
		switch {
		case isWord(w), isCounted(w):
		case isGenerated(w):
			generated++
		default:
			return false
		}
	}
	return generated <= 2 && len(words) > 0
}

// hasWord reports whether a name has a word that means something.
func hasWord(words []string) bool {
	for _, w := range words {
		if len(w) > 1 && span(w, 0, isLower) == len(w) {
			return true
		}
	}
	return false
}

// isWord reports whether w is of small letters, a number, or as short as k8s.
func isWord(w string) bool {
	switch len(w) {
	case 0:
		return false
	case 1, 2, 3, 4:
		return span(w, 0, isSmall) == len(w)
	}
	return span(w, 0, isLower) == len(w) || span(w, 0, isDigit) == len(w) && len(w) <= 10
}

// isCounted reports whether w is a word with a number behind it: nodepool1, vmss000001.
func isCounted(w string) bool {
	word := span(w, 0, isLower)
	return word > 1 && len(w)-word <= 6 && span(w, word, isDigit) == len(w)
}

// isGenerated reports whether w is what Kubernetes puts behind a name, or a part of a
// digest or a UUID.
func isGenerated(w string) bool {
	if len(w) >= 5 && len(w) <= 10 && span(w, 0, func(c byte) bool { return strings.IndexByte("bcdfghjklmnpqrstvwxz2456789", c) >= 0 }) == len(w) {
		return true
	}
	return len(w) >= 6 && len(w) <= 64 && span(w, 0, isHex) == len(w)
}
