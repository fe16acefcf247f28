package intake

import (
	"bytes"
	"encoding/json"
	"strings"

	"nightcrier.dev/nightcrier"
)

// maskEvent hides the secrets in what the sender wrote, before it is stored: the
// payload, what was read from it, and what was found wrong with it. Names that
// Kubernetes allows stay as they are, because a fault hangs on them.
func (in *Intake) maskEvent(ev *nightcrier.Event) {
	if in.cfg.Mask == nil {
		return
	}
	hide := func(text *string) { *text = in.cfg.Mask(ev.Cluster, in.excerpts(ev.Cluster, *text)) }
	raw := string(ev.Raw)
	for _, text := range []*string{&raw, &ev.FaultType, &ev.Container, &ev.Context, &ev.Detail} {
		hide(text)
	}
	if len(ev.Raw) > 0 {
		ev.Raw = []byte(raw)
	}
	for i := range ev.Logs {
		hide(&ev.Logs[i].Sample)
		hide(&ev.Logs[i].Error)
	}
	if ev.Reason == nightcrier.Malformed {
		hide(&ev.Resource.Name)
		hide(&ev.Resource.Namespace)
	}
}

// excerpts masks a text of several lines, or each such string of a JSON document, as a
// stretch of a log. Descriptions and samples quote logs, cut somewhere: what says that a
// line is a secret may not have been quoted.
func (in *Intake) excerpts(cluster, text string) string {
	switch {
	case in.cfg.MaskLog == nil:
		return text
	case !json.Valid([]byte(text)):
		return in.excerpt(cluster, text)
	case !strings.Contains(text, `\`):
		return text // no string of several lines
	}
	var out strings.Builder
	for text != "" {
		from, to := stringIn(text)
		out.WriteString(text[:from])
		out.WriteString(in.quoted(cluster, text[from:to]))
		text = text[to:]
	}
	return out.String()
}

func (in *Intake) excerpt(cluster, text string) string {
	if !strings.Contains(strings.TrimSpace(text), "\n") {
		return text
	}
	return in.cfg.MaskLog(cluster, text)
}

// quoted is excerpt for a string of JSON, which stays as it is where nothing was masked.
func (in *Intake) quoted(cluster, quoted string) string {
	var text string
	if !strings.Contains(quoted, `\`) || json.Unmarshal([]byte(quoted), &text) != nil {
		return quoted
	}
	masked := in.excerpt(cluster, text)
	if masked == text {
		return quoted
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(masked) != nil {
		return `""` // a string always encodes
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// stringIn returns where the first string of valid JSON stands: at its end where there is
// none.
func stringIn(text string) (from, to int) {
	from = strings.IndexByte(text, '"')
	if from < 0 {
		return len(text), len(text)
	}
	for to = from + 1; to < len(text); to++ {
		switch text[to] {
		case '\\':
			to++
		case '"':
			return from, to + 1
		}
	}
	return from, len(text)
}
