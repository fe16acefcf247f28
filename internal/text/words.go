package text

import (
	"strconv"
	"strings"
)

// CountNoun says how many there are: "1 line", "3 lines". The noun's plural ends in s.
func CountNoun(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// JoinWords lists words in a sentence: "a, b or c".
func JoinWords(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	end := len(words) - 1
	return strings.Join(words[:end], ", ") + " " + last + " " + words[end]
}
