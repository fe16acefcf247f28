package kubetool

import "nightcrier.dev/nightcrier/internal/typo"

// meant returns " (did you mean …?)" when a candidate is close to word, else "".
func meant(word string, candidates []string) string {
	if best := typo.Nearest(word, candidates); best != "" {
		return " (did you mean " + best + "?)"
	}
	return ""
}
