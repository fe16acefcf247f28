package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Budget of the preloaded blocks, in tokens of four characters.
const (
	charsPerToken = 4
	warnTokens    = 8_000
	maxTokens     = 10_000
)

// Bounds of what comes beside the triage report, in characters: they leave most
// of the budget to it.
const (
	maxRunbooks = 2_000 * charsPerToken
	maxEarlier  = 750 * charsPerToken
	// notice is the room to say that a block was cut.
	notice = 200
)

// Tokens estimates how many tokens a text is.
func Tokens(s string) int { return (utf8.RuneCountInString(s) + charsPerToken - 1) / charsPerToken }

// preloaded is the data in front of an agent's first turn.
type preloaded struct {
	text       string
	tokens     int
	incomplete string
	warnings   []string
}

// preloadBlocks makes the blocks. Incident and permissions are never cut. Where the
// others do not fit, the triage report is cut first, then the runbooks, then what
// is remembered.
func preloadBlocks(in Input) (preloaded, error) {
	snapshot := *in.Incident
	snapshot.Workspace, snapshot.Artifacts = "", nil
	incident, err := escapeJSON(&snapshot, in.Mask)
	if err != nil {
		return preloaded{}, err
	}
	permissions, err := escapeJSON(orUnknown(in.Permissions), in.Mask)
	if err != nil {
		return preloaded{}, err
	}
	p := preloaded{incomplete: in.Incomplete}
	p.text = wrapInTag("incident", incident) + "\n" + wrapInTag("kubernetes_cluster_access_permissions", permissions)
	p.addRest(in)
	p.tokens = Tokens(p.text)
	if p.tokens > warnTokens {
		p.warnings = append(p.warnings, fmt.Sprintf("the preloaded context is about %d tokens, more than %d", p.tokens, warnTokens))
	}
	return p, nil
}

// addRest adds the blocks that may be cut. What is cut last takes its room first:
// the triage report gets what runbooks and memory, which have bounds of their
// own, leave of the budget.
func (p *preloaded) addRest(in Input) {
	room := maxTokens*charsPerToken - utf8.RuneCountInString(p.text)
	var earlier, books fitted
	if in.Preload {
		earlier = fitBlock("earlier_incident", in.Mask(earlierText(in.Earlier)), earlierFile, min(room-2*notice, maxEarlier))
		room -= earlier.size()
	}
	books = fitBlock("runbooks", in.Mask(runbooksText(in.Runbooks)), runbooksFile, min(room-notice, maxRunbooks))
	room -= books.size()
	if in.Preload {
		p.addTriage(in.Mask(string(in.TriageReport)), room)
	}
	for _, f := range []fitted{books, earlier} {
		p.text += f.text
		if f.kept < f.total {
			p.noteMissed("the block " + f.tag + " was cut to fit the prompt")
			p.warnings = append(p.warnings, fmt.Sprintf("the block %s was cut from %d to %d characters", f.tag, f.total, f.kept))
		}
	}
}

func (p *preloaded) addTriage(report string, room int) {
	if strings.TrimSpace(report) == "" {
		p.noteMissed("there is no initial triage report")
		return
	}
	f := fitBlock("initial_triage_report", report, triageFile, room)
	p.text += f.text
	if f.kept < f.total {
		p.noteMissed("the initial triage report was cut to fit the prompt")
		p.warnings = append(p.warnings, fmt.Sprintf("the initial triage report was cut from %d to %d characters to stay below %d tokens",
			f.total, f.kept, maxTokens))
	}
}

// fitted is a block that was made to fit: how many characters of its escaped
// content were kept, and how many there were.
type fitted struct {
	tag, text   string
	kept, total int
}

func (f fitted) size() int { return utf8.RuneCountInString(f.text) }

// fitBlock makes a block of text from outside, of at most room characters as long as
// they suffice to say that it was cut and where all of it is. It is empty for an
// empty text.
func fitBlock(tag, text, file string, room int) fitted {
	f := fitted{tag: tag}
	if strings.TrimSpace(text) == "" {
		return f
	}
	escaped := escapeText(text)
	f.total = utf8.RuneCountInString(escaped)
	f.kept, f.text = f.total, "\n"+wrapInTag(tag, escaped)
	if f.size() <= room {
		return f
	}
	note := fmt.Sprintf("[cut here: this has %d characters; all of it is in %s]", f.total, file)
	kept := cutAtLine(escaped, room-utf8.RuneCountInString("\n"+wrapInTag(tag, "\n"+note)))
	f.kept, f.text = utf8.RuneCountInString(kept), "\n"+wrapInTag(tag, kept+"\n"+note)
	return f
}

func (p *preloaded) noteMissed(what string) {
	if p.incomplete != "" {
		what = p.incomplete + "; " + what
	}
	p.incomplete = what
}

// cutAtLine keeps at most n characters and drops a line that would be broken.
func cutAtLine(s string, n int) string {
	if n <= 0 {
		return ""
	}
	end := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	if line := strings.LastIndexByte(s[:end], '\n'); line >= 0 {
		return s[:line]
	}
	// One long line: an entity must not be broken.
	if amp := strings.LastIndexByte(s[:end], '&'); amp >= 0 && end-amp < len("&#64;") {
		return s[:amp]
	}
	return s[:end]
}

func orUnknown(permissions map[string]any) map[string]any {
	if permissions == nil {
		return map[string]any{"known": false, "reason": "the cluster's credential was not examined"}
	}
	return permissions
}
