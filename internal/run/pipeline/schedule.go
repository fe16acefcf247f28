package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a container may have no zones of its own

	"github.com/robfig/cron/v3"

	"nightcrier.dev/nightcrier/internal/text"
)

// Schedule is a cron expression in a time zone: minute, hour, day, month, weekday, or a
// word such as @daily.
//
// One that names its hours keeps to the clock on the wall: what falls into an hour that
// is left out in spring ticks when the clock is put forward, and in autumn the first of the
// two hours counts. One for every hour keeps to the time that passes. So each tick comes
// once, in both.
type Schedule struct {
	cron string
	zone *time.Location
	spec *cron.SpecSchedule
}

// parser reads the five fields that everybody knows, or a word.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// everyHour is set in the hours of a cron expression that has a star there.
const everyHour = 1 << 63

// ParseSchedule reads a schedule; without a zone it is in UTC.
func ParseSchedule(spec, zone string) (Schedule, error) {
	switch {
	case strings.TrimSpace(spec) == "":
		return Schedule{}, errors.New(`lacks schedule: write minute, hour, day, month and weekday, such as "0 7 * * 1-5"`)
	case len(spec) > 256:
		return Schedule{}, errors.New("is longer than 256 bytes")
	case strings.Contains(spec, "TZ="):
		return Schedule{}, errors.New("names a time zone: write it as timezone beside schedule")
	case strings.HasPrefix(spec, "@every"):
		return Schedule{}, errors.New(`begins with @every, which would begin anew with each start: write the minutes or hours, such as "*/15 * * * *"`)
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return Schedule{}, fmt.Errorf("timezone is %s, which is none: write one such as Europe/Berlin, or UTC", quoteValue(zone))
	}
	parsed, err := parser.Parse(spec)
	if err != nil {
		return Schedule{}, fmt.Errorf(`is %s, which is no cron expression (%s): write minute, hour, day, month and weekday, such as "0 7 * * 1-5"`, quoteValue(spec), text.CutLine(err.Error(), 128))
	}
	s := Schedule{cron: spec, zone: location, spec: parsed.(*cron.SpecSchedule)} // all but @every are
	if s.spec.Location = time.UTC; s.spec.Next(time.Unix(0, 0).UTC()).IsZero() {
		return Schedule{}, fmt.Errorf("is %s, a date that never comes", quoteValue(spec))
	}
	return s, nil
}

// String is the schedule as it is written, with its zone.
func (s Schedule) String() string { return s.cron + " " + s.zone.String() }

// Next returns the first tick after a time.
func (s Schedule) Next(after time.Time) time.Time {
	if s.spec.Hour&everyHour != 0 {
		spec := *s.spec
		spec.Location = s.zone
		return spec.Next(after).UTC()
	}
	// By the clock on the wall, as if it were never changed; soon after a change from
	// before all that it can have moved.
	wall := onWall(after, s.zone)
	if changed, _ := after.In(s.zone).ZoneBounds(); after.Sub(changed) < mostMoved {
		wall = wall.Add(-mostMoved)
	}
	for {
		if wall = s.spec.Next(wall); wall.IsZero() {
			return time.Time{}
		}
		if at := instantOf(wall, s.zone); at.After(after) {
			return at.UTC()
		}
	}
}

// mostMoved is more than any clock has ever been put forward or back.
const mostMoved = 26 * time.Hour

// onWall is what the clock of a zone shows, as a time in UTC.
func onWall(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// instantOf is when the clock of a zone shows wall for the first time; when it never does,
// the instant at which it is put past it.
func instantOf(wall time.Time, zone *time.Location) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, zone)
	start, end := t.ZoneBounds()
	switch shown := onWall(t, zone); {
	case shown.After(wall): // t is behind the hour that is left out
		return start
	case shown.Before(wall): // t is before it
		return end
	}
	if start.IsZero() {
		return t
	}
	_, before := start.Add(-time.Second).Zone()
	_, now := t.Zone()
	earlier := t.Add(-time.Duration(before-now) * time.Second)
	if earlier.Before(start) && before > now {
		return earlier
	}
	return t
}

// maxTicks bounds how many ticks are listed.
const maxTicks = 1000

// Ticks lists the ticks after a time up to another, each once, the newest 1000 at most: cut
// says that there were older ones, which are missed. A clock that was put back has no ticks.
func (s Schedule) Ticks(after, until time.Time) (ticks []time.Time, cut bool) {
	const day = 24 * time.Hour
	for _, span := range []time.Duration{day, 31 * day, 366 * day, 8 * 366 * day} {
		from := until.Add(-span)
		whole := !from.After(after)
		if whole {
			from = after
		}
		ticks = nil
		for t := s.Next(from); !t.IsZero() && !t.After(until); t = s.Next(t) {
			ticks = append(ticks, t)
		}
		if more := len(ticks) - maxTicks; more > 0 {
			return ticks[more:], true
		}
		if whole {
			return ticks, false
		}
	}
	return ticks, true
}
