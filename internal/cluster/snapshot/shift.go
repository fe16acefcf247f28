package snapshot

import (
	"regexp"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)`)

// Shift returns the snapshot as if it were taken at now: every time in objects and
// logs is moved alike, so that clients that go by their own clock show the right
// ages.
func (s *Snapshot) Shift(now time.Time) *Snapshot {
	by := now.Sub(s.CapturedAt).Truncate(time.Second)
	t := newSnapshot(s.Info)
	t.declared = s.declared
	t.CapturedAt = s.CapturedAt.Add(by)
	for _, c := range s.collections {
		moved := t.addKind(c.kind)
		moved.seen = c.seen
		for _, o := range c.objects {
			m := &object{namespace: o.namespace, name: o.name, labels: o.labels, raw: MoveTimes(o.raw, by)}
			if utiljson.Unmarshal(m.raw, &m.fields) != nil {
				m.raw, m.fields = o.raw, o.fields
			}
			moved.objects = append(moved.objects, m)
			moved.byName[objectKey(m.namespace, m.name)] = m
		}
	}
	for key, text := range s.logs {
		t.logs[key] = MoveTimes(text, by)
	}
	return t
}

// MoveTimes moves all times in a text by the same span.
func MoveTimes(text []byte, by time.Duration) []byte {
	return moment.ReplaceAllFunc(text, func(b []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(b))
		if err != nil {
			return b
		}
		layout := "2006-01-02T15:04:05"
		if b[len("2006-01-02T15:04:05")] == '.' {
			layout += ".000000000"[:1+countDigits(b[len("2006-01-02T15:04:05."):])]
		}
		return []byte(at.Add(by).Format(layout + "Z07:00"))
	})
}

func countDigits(b []byte) (n int) {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}
