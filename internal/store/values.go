package store

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

func itoa(n int) string { return strconv.Itoa(n) }

// micros drops what the columns cannot hold, so that a noun reads back equal.
func micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// stamp is a time as its column holds it; the zero time is 0.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func unstamp(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMicro(v).UTC()
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// clean makes outside text fit for a text column: PostgreSQL takes neither NUL
// nor invalid UTF-8. (Documents are JSON and need no cleaning.)
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// cleaned is args with every text clean.
func cleaned(args []any) []any {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = clean(text)
		}
	}
	return args
}

func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "encode %T: %w", v, err)
	}
	return string(b), nil
}

func decode(doc string, v any) error {
	if err := json.Unmarshal([]byte(doc), v); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "decode %T from the store: %w", v, err)
	}
	return nil
}

// cursor names a row's place in a list ordered by time and id.
func cursor(at time.Time, id string) string { return strconv.FormatInt(stamp(at), 10) + "." + id }

func parseCursor(s string) (at int64, id string, err error) {
	micro, id, ok := strings.Cut(s, ".")
	at, err = strconv.ParseInt(micro, 10, 64)
	if !ok || err != nil {
		return 0, "", nightcrier.Errorf(nightcrier.Invalid, "cursor %q is not one that a list returned", text.CutBytes(s, 64))
	}
	return at, id, nil
}
