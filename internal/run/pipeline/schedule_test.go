package pipeline

import (
	"slices"
	"testing"
	"time"
)

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func schedule(t testing.TB, cron, zone string) Schedule {
	t.Helper()
	s, err := ParseSchedule(cron, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// In Berlin the clock is put from 02:00 to 03:00 on 2026-03-29 and from 03:00 to 02:00 on
// 2026-10-25, both at 01:00 UTC. Lord Howe moves it by half an hour; in 2011 Samoa left out
// a whole day; Cairo changes it at midnight.
func TestTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cron, zone, after, until string
		want                           []string
	}{
		{"weekdays", "0 7 * * 1-5", "", "2026-11-20T07:00:00Z", "2026-11-24T07:00:00Z", []string{"2026-11-23T07:00:00Z", "2026-11-24T07:00:00Z"}},
		{"a word", "@daily", "UTC", "2026-11-20T07:00:00Z", "2026-11-21T07:00:00Z", []string{"2026-11-21T00:00:00Z"}},
		{"in a zone", "30 7 * * *", "Asia/Kolkata", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", []string{"2026-11-20T02:00:00Z"}},
		{"at the very end, not at the beginning", "0 * * * *", "", "2026-11-20T07:00:00Z", "2026-11-20T08:00:00Z", []string{"2026-11-20T08:00:00Z"}},
		{"spring: in the hour that is left out", "30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z",
			[]string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"spring: all that is left out is one tick", "*/15 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T01:30:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z"}},
		{"spring: every hour", "30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z",
			[]string{"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"}},
		{"autumn: in the hour that comes twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", "2026-10-26T12:00:00Z",
			[]string{"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"autumn: asked in the second of the two hours", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-26T12:00:00Z", []string{"2026-10-26T01:30:00Z"}},
		{"autumn: every hour", "30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"}},
		{"autumn: every other hour", "0 */2 * * *", "Europe/Berlin", "2026-10-24T22:30:00Z", "2026-10-25T04:00:00Z", []string{"2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z"}},
		{"half an hour: left out", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-04T15:00:00Z", []string{"2026-10-03T15:30:00Z"}},
		{"half an hour: twice", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", "2026-04-05T00:00:00Z", []string{"2026-04-04T14:45:00Z"}},
		{"a day that is left out", "0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", "2011-12-31T12:00:00Z", []string{"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}},
		{"midnight is left out", "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-25T12:00:00Z", []string{"2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"}},
		{"a clock that was put back", "* * * * *", "", "2026-11-20T08:00:00Z", "2026-11-20T07:00:00Z", nil},
		{"nothing yet", "0 0 29 2 *", "", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", nil},
		{"rarely", "0 0 29 2 *", "", "2026-01-01T00:00:00Z", "2028-03-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
	} {
		ticks, cut := schedule(t, c.cron, c.zone).Ticks(at(t, c.after), at(t, c.until))
		var got []string
		for _, tick := range ticks {
			got = append(got, tick.Format(time.RFC3339))
		}
		if !slices.Equal(got, c.want) || cut {
			t.Errorf("%s: %q, %v; want %q", c.name, got, cut, c.want)
		}
	}
}

// A server asks at odd times, over a clock that jumps: what it was told of is never told
// again, and nothing is left out.
func TestEachTickComesOnce(t *testing.T) {
	t.Parallel()
	for _, cron := range []string{"30 2 * * *", "*/37 * * * *", "0 0-6 * * *", "59 23 * * 6", "*/20 1-3 * * *"} {
		for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "UTC"} {
			s := schedule(t, cron, zone)
			begin, end := at(t, "2026-03-20T00:00:00Z"), at(t, "2026-11-05T00:00:00Z")
			var whole []time.Time
			for tick := s.Next(begin); !tick.After(end); tick = s.Next(tick) {
				if n := len(whole); n > 0 && !tick.After(whole[n-1]) {
					t.Fatalf("%s: %s after %s", s, tick, whole[n-1])
				}
				whole = append(whole, tick)
			}
			var pieces []time.Time
			after, step := begin, 0
			for now := begin; now.Before(end); step++ {
				now = now.Add([]time.Duration{time.Minute, 37 * time.Minute, -20 * time.Minute, 50 * time.Hour, 3 * time.Hour, -time.Hour, 11 * time.Second}[step%7])
				until := now
				if until.After(end) {
					until = end
				}
				ticks, cut := s.Ticks(after, until)
				if cut {
					t.Fatalf("%s: cut", s)
				}
				if len(ticks) > 0 {
					pieces, after = append(pieces, ticks...), ticks[len(ticks)-1]
				}
			}
			if !slices.EqualFunc(pieces, whole, time.Time.Equal) {
				t.Errorf("%s: %d ticks in pieces, %d in all", s, len(pieces), len(whole))
			}
		}
	}
}

// A clock that jumps by years costs little, and what is left out is said.
func TestMissedTicksAreSaid(t *testing.T) {
	t.Parallel()
	for cron, want := range map[string]int{"* * * * *": maxTicks, "0 7 * * *": maxTicks, "0 7 1 * *": 8*12 + 1, "0 7 1 1 *": 9} {
		ticks, cut := schedule(t, cron, "Europe/Berlin").Ticks(time.Time{}, at(t, "2100-01-01T06:00:00Z"))
		if len(ticks) != want || !cut || !ticks[len(ticks)-1].Equal(at(t, "2100-01-01T06:00:00Z")) {
			t.Errorf("%s: %d ticks, %v, the last %s; want %d", cron, len(ticks), cut, ticks[len(ticks)-1], want)
		}
	}
}

func TestNoSchedules(t *testing.T) {
	t.Parallel()
	for spec, zone := range map[string]string{"": "", "* * * *": "", "* * * * * *": "", "60 * * * *": "", "@every 5m": "", "CRON_TZ=UTC * * * * *": "", "0 0 31 4 *": "", "@hourly": "Local", "@daily": "../etc/passwd", "@noon": ""} {
		if s, err := ParseSchedule(spec, zone); err == nil {
			t.Errorf("%s", s)
		}
	}
}
