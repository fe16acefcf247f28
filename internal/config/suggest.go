package config

import "nightcrier.dev/nightcrier/internal/typo"

// didYouMean returns ": did you mean …?" for a close candidate, else "".
func didYouMean(name string, candidates []string) string {
	if c := typo.Nearest(name, candidates); c != "" {
		return ": did you mean " + c + "?"
	}
	return ""
}
