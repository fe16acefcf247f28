package kubetool

import "strings"

// meant returns " (did you mean …?)" when a candidate is close to word, else "".
func meant(word string, candidates []string) string {
	best, bound := "", max(1, min(3, len(word)/2))+1
	for _, c := range candidates {
		if d := edits(strings.ToLower(word), strings.ToLower(c)); d < bound {
			best, bound = c, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// edits counts the insertions, deletions and replacements that lead from a to
// b, of which the first 64 bytes count.
func edits(a, b string) int {
	a, b = clip(a, 64), clip(b, 64)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
