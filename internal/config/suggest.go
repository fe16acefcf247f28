package config

import "strings"

// nearest returns the candidate that is closest to a mistyped name, or that a word of
// it is alone in beginning, as claude does claude-code; "" when none is meant.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", max(1, min(3, len(name)/3))+1
	for _, c := range candidates {
		if len(name) > 2 && strings.HasPrefix(c, strings.ToLower(name)+"-") {
			return c
		}
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that lead from a to b. Long names are cut at 64 bytes.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	var before, prev, row [65]int
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		before, prev = prev, row
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(prev[j+1]+1, row[j]+1, prev[j]+differ(a[i], b[j]))
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}

// didYouMean returns ": did you mean …?" for a close candidate, else "".
func didYouMean(name string, candidates []string) string {
	if c := nearest(name, candidates); c != "" {
		return ": did you mean " + c + "?"
	}
	return ""
}
