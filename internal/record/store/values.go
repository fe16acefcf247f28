package store

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

func formatInt(n int) string { return strconv.Itoa(n) }

// truncateTime drops what the columns cannot hold, so that a noun reads back equal.
func truncateTime(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// toMicros is a time as its column holds it; the zero time is 0.
func toMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMicro(v).UTC()
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// cleanText makes outside text fit for a text column: PostgreSQL takes neither NUL
// nor invalid UTF-8. (Documents are JSON and need no cleaning.)
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// cleanArgs returns args with every text clean.
func cleanArgs(args []any) []any {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = cleanText(text)
		}
	}
	return args
}

func encodeDoc(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "encode %T: %w", v, err)
	}
	return string(b), nil
}

func decodeDoc(doc string, v any) error {
	if err := json.Unmarshal([]byte(doc), v); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "decode %T from the store: %w", v, err)
	}
	return nil
}

// formatCursor names a row's place in a list ordered by time and id.
func formatCursor(at time.Time, id string) string {
	return strconv.FormatInt(toMicros(at), 10) + "." + id
}

func parseCursor(s string) (at int64, id string, err error) {
	micro, id, ok := strings.Cut(s, ".")
	at, err = strconv.ParseInt(micro, 10, 64)
	if !ok || err != nil {
		return 0, "", nightcrier.Errorf(nightcrier.Invalid, "cursor %q is not one that a list returned", text.CutBytes(s, 64))
	}
	return at, id, nil
}
