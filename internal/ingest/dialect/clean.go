package dialect

import (
	"encoding/json"
	"regexp"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds, in bytes, of what is taken over from a payload.
const (
	maxToken   = 128
	maxLine    = 256
	maxContext = 16 << 10
	maxSample  = 256 << 10
	maxLogs    = 64
)

var tokenPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

// tokenOrEmpty returns s when it is a short word, "" otherwise: ids and types become
// keys and are compared, so they are never repaired.
func tokenOrEmpty(s string) string {
	if len(s) > maxToken || !tokenPattern.MatchString(s) {
		return ""
	}
	return s
}

// lenientTime is a time that is zero when the sender's spelling is unreadable:
// a fault is not lost for its clock.
type lenientTime struct{ time.Time }

// UnmarshalJSON never fails.
func (t *lenientTime) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		t.Time, _ = time.Parse(time.RFC3339, s)
	}
	return nil
}

// logExcerpt is one entry of logs[].
type logExcerpt struct {
	Container string `json:"container"`
	Previous  bool   `json:"previous"`
	Sample    string `json:"sample"`
	Error     string `json:"error"`
}

func cleanLogs(in []logExcerpt) []nightcrier.ContainerLog {
	var out []nightcrier.ContainerLog
	for _, l := range in[:min(len(in), maxLogs)] {
		out = append(out, nightcrier.ContainerLog{
			Container: containerName(l.Container),
			Previous:  l.Previous,
			Sample:    text.CutWords(text.MarkHidden(l.Sample), maxSample),
			Error:     text.CutWords(text.MarkHidden(l.Error), maxLine),
		})
	}
	return out
}

var (
	namePattern      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	containerPattern = regexp.MustCompile(`\bcontainer(?:=| )"?([a-z0-9][a-z0-9-]{0,62})"?(?: in pod | pod=|,|$)`)
)

func containerName(s string) string {
	if namePattern.MatchString(s) {
		return s
	}
	return ""
}

// containerOf finds the container that a fault is about: the one that the
// kubelet's words name, else the only one that has logs.
func containerOf(context string, logs []nightcrier.ContainerLog) string {
	if m := containerPattern.FindStringSubmatch(context); m != nil {
		if name := containerName(m[1]); name != "" {
			return name
		}
	}
	var only string
	for _, l := range logs {
		if only != "" && l.Container != only {
			return ""
		}
		only = l.Container
	}
	return only
}
