package data

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

const (
	// maxRange bounds the time of one question, maxPoints the points of each series.
	maxRange  = 7 * 24 * time.Hour
	maxPoints = 240
	// usualPoints are those of a range without a step.
	usualPoints = 60
	minStep     = time.Second
	// Lines of a log.
	maxLines = 500
	// maxSeries bounds the series of an answer where a server heeds it.
	maxSeries = 1000
	// usualTime is the range of logs without one.
	usualTime = time.Hour
)

// Query is a question as a caller puts it. What is larger than the bounds is cut to
// them, and the answer says so.
type Query struct {
	Text string
	// Start and End bound the time; End is now when it is zero, and without a Start
	// metrics are asked for the moment of End, logs for the hour before it.
	Start, End time.Time
	// Step is between two points of a range; 0 chooses one.
	Step time.Duration
	// Limit is how many lines are wanted; 0 chooses.
	Limit int
	// Asked is what counts as now; zero is when it is.
	Asked time.Time
}

// cutToBounds cuts the question to the bounds, and says what was cut.
func (q Query) cutToBounds(now time.Time) (_ Query, notes []string, err error) {
	if q.End.IsZero() {
		q.End = now
	}
	if q.End.After(now.Add(time.Minute)) {
		q.End = now
		notes = append(notes, "the end was in the future; it is now")
	}
	if q.Start.IsZero() {
		return q, notes, nil
	}
	if !q.Start.Before(q.End) {
		return q, nil, nightcrier.Errorf(nightcrier.Invalid, "start (%s) is not before end (%s)", formatTime(q.Start), formatTime(q.End))
	}
	if q.End.Sub(q.Start) > maxRange {
		q.Start = q.End.Add(-maxRange)
		notes = append(notes, fmt.Sprintf("the time was cut to the %dd before its end", maxRange/(24*time.Hour)))
	}
	span := q.End.Sub(q.Start)
	least := max(minStep, (span/(maxPoints-1) + time.Second - 1).Truncate(time.Second))
	switch {
	case q.Step == 0:
		q.Step = max(least, (span / usualPoints).Truncate(time.Second))
	case q.Step < least:
		q.Step = least
		notes = append(notes, fmt.Sprintf("the step was raised to %s: a series has %d points at most", q.Step, maxPoints))
	}
	return q, notes, nil
}

// ParseTime reads a point in time as people and models write it: RFC 3339, seconds
// since 1970, now, or how long ago (30m, -2h, now-1d). "" is the zero time.
func ParseTime(s string, now time.Time) (time.Time, error) {
	word := strings.ToLower(strings.TrimSpace(s))
	switch {
	case word == "":
		return time.Time{}, nil
	case word == "now":
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(word)); err == nil {
		return t, nil
	}
	if n, err := strconv.ParseFloat(word, 64); err == nil && n > 0 && n < 1e11 {
		return time.UnixMilli(int64(n * 1000)).UTC(), nil
	}
	if d, err := ParseDuration(strings.TrimPrefix(strings.TrimPrefix(word, "now"), "-")); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, nightcrier.Errorf(nightcrier.Invalid, "%s is no time: write 30m or 2h for so long ago, or 2026-01-02T15:04:05Z", strconv.Quote(text.CutBytes(s, 40)))
}

// ParseDuration reads a duration with the units s, m, h, d and w, of 1s at least and a
// year at most. A bare number counts seconds.
func ParseDuration(s string) (time.Duration, error) {
	wrong := nightcrier.Errorf(nightcrier.Invalid, "%s is no duration: write 30s, 5m, 2h or 1d", strconv.Quote(text.CutBytes(s, 40)))
	number, unit := strings.TrimSpace(s), time.Second
	for suffix, of := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if rest, ok := strings.CutSuffix(number, suffix); ok {
			number, unit = rest, of
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		if d, err := time.ParseDuration(s); err == nil && d >= time.Second && d <= 366*24*time.Hour {
			return d, nil
		}
		return 0, wrong
	}
	if d := n * float64(unit); d >= float64(time.Second) && d <= float64(366*24*time.Hour) {
		return time.Duration(d), nil
	}
	return 0, wrong
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// unixSeconds is a time as both APIs take it: seconds, with a fraction.
func unixSeconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64)
}
