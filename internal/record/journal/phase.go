package journal

import (
	"regexp"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Phase is the context gate that an agent ended a phase of its skill with, in its own words.
type Phase struct {
	Number int    `json:"number"`
	Gate   string `json:"gate"`
}

// OfPhase makes the item of a phase that has ended.
func OfPhase(p Phase) Item { return Item{nightcrier.EntryPhase, p} }

// Bounds of what is taken for gates of one message: how many, and the text of one in bytes.
const (
	maxGates = 10
	maxGate  = 2 << 10
)

var gateStart = regexp.MustCompile(`(?m)^[*_# ]*Gate (\d{1,3})[*_]*:[*_]*[ \t]*`)

// ReadGates finds the gates in what an agent said: each begins a line with "Gate N:", and goes on up
// to the next empty line.
func ReadGates(m Message) (all []Phase) {
	starts := gateStart.FindAllStringSubmatchIndex(m.Text, -1)
	for i, at := range starts[:min(len(starts), maxGates)] {
		end := len(m.Text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		said, _, _ := strings.Cut(m.Text[at[1]:end], "\n\n")
		n, _ := strconv.Atoi(m.Text[at[2]:at[3]]) // digits
		if said = text.FoldLine(said); n > 0 && said != "" {
			all = append(all, Phase{n, text.CutBytes(said, maxGate)})
		}
	}
	return all
}
