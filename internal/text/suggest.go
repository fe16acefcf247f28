package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// SuggestName writes the candidate that a mistyped name stands for into a format such as
// "; did you mean %s?"; "" when it stands for none.
func SuggestName(format, name string, candidates []string) string {
	if near := FindNearest(name, candidates); near != "" {
		return fmt.Sprintf(format, near)
	}
	return ""
}

// FindNearest returns the candidate that is closest to a mistyped name, or that a word of
// it begins, as claude does claude-code; "" when none is meant.
func FindNearest(name string, candidates []string) string {
	if near := FindNear(name, candidates, 1); len(near) > 0 {
		return near[0]
	}
	return ""
}

// FindNear returns at most n candidates that a name may stand for, the closest first: it
// is mistyped, or the beginning of theirs.
func FindNear(name string, candidates []string, n int) []string {
	type near struct {
		name     string
		distance int
	}
	var found []near
	for _, c := range candidates {
		d := CountEdits(strings.ToLower(name), strings.ToLower(c))
		if d <= tolerance(name) || begins(name, c) {
			found = append(found, near{c, min(d, tolerance(name)+1)})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, f := range found[:min(n, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// begins reports whether a name is the first words of a longer one.
func begins(name, longer string) bool {
	return len(name) > 2 && strings.HasPrefix(strings.ToLower(longer), strings.ToLower(name)+"-")
}

// tolerance is how many mistakes a name of that length may have.
func tolerance(name string) int { return max(1, min(3, len(name)/3)) }

// CountEdits counts the insertions, deletions, replacements and swaps of
// neighbours that lead from a to b. Long names are cut at 64 bytes.
func CountEdits(a, b string) int {
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
