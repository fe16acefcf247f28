package data

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/test/datatest"
)

// masking is a desk that masks.
func masking(t *testing.T, a Access) *desk {
	t.Helper()
	d, m := &desk{}, mask.New([]byte("key"))
	var err error
	if d.Guard, err = New(Config{Access: a, Evidence: d, Audit: d.audit, Logger: slog.New(slog.DiscardHandler), Mask: m.Bytes, MaskLog: m.Log}); err != nil {
		t.Fatal(err)
	}
	return d
}

// shipped are lines of one container in Loki, a millisecond apart.
func shipped(log string, from time.Time, labels map[string]string) datatest.Stream {
	s := datatest.Stream{Labels: labels}
	for line := range strings.SplitSeq(strings.TrimSuffix(log, "\n"), "\n") {
		s.Lines = append(s.Lines, datatest.Line{At: from.Add(time.Duration(len(s.Lines)) * time.Millisecond), Text: line})
	}
	return s
}

// TestLinesHaveOneForm: Loki reads a selector in parentheses as lines too. What comes back
// would be masked as numbers are, each entry by itself.
func TestLinesHaveOneForm(t *testing.T) {
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	own := shipped("kind: Secret\nstringData:\n  any: orange-horse\n", at, map[string]string{"pod": "cart-1"})
	d := masking(t, Access{Loki: &Endpoint{URL: datatest.NewLoki(t, own).URL}})
	for query, asked := range map[string]bool{
		`{pod="cart-1"}`:                      true,
		`({pod="cart-1"})`:                    false,
		` ( ({pod="cart-1"}) ) `:              false,
		`({pod="cart-1"} |= "error")`:         false,
		`({pod="cart-1"}) | pod="cart-1"`:     false,
		`sum({pod="cart-1"})`:                 false,
		`1 + {pod="cart-1"}`:                  false,
		`({pod="a"}) or rate({pod="b"}[5m])`:  false,
		`rate({pod="a"}[5m]) or {pod="cart"}`: false,
	} {
		a, err := d.Lines(t.Context(), Query{Text: query, Start: at, End: at.Add(time.Second)})
		if strings.Contains(a.Text, "orange") {
			t.Errorf("%s shows %s", query, a.Text)
		}
		if asked != (err == nil) || !asked && nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", query, err)
		}
	}
	s := &system{name: Loki}
	for _, query := range []string{`rate(({pod="a"})[5m])`, `rate({pod="a"}[5m])`, `sum by (pod) (count_over_time({pod="a"} |= "error" [1h])) / sum(rate(({pod="b"} [5m])))`} {
		if _, err := s.readLogsQuery(query, nil); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// TestAFilterHidesNoNeighbour: a filter leaves a line without those that say what it is.
func TestAFilterHidesNoNeighbour(t *testing.T) {
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	own := shipped("up\n- name: DB_PASSWORD\n  value: fail-horse\nit may fail\n", at, map[string]string{"pod": "cart-1"})
	d := masking(t, Access{Loki: &Endpoint{URL: datatest.NewLoki(t, own).URL}})
	for _, filter := range []string{`|= "fail"`, `|~ "(?i)(fail|panic)"`, `|= "fail" != "may"`, `!= "name"`, ``} {
		a, err := d.Lines(t.Context(), Query{Text: `{pod="cart-1"} ` + filter, Start: at, End: at.Add(time.Second)})
		if err != nil || strings.Contains(a.Text, "fail-horse") {
			t.Errorf("%s: %v, %s", filter, err, a.Text)
		}
	}
}

// TestSecretsOfManyEntries: whatever entries of a stream are asked for, those of a secret
// that stands on several are masked.
func TestSecretsOfManyEntries(t *testing.T) {
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	for name, c := range map[string]struct{ log, secret string }{
		"a manifest":           {"up\nkind: Secret\nstringData:\n  any: orange-horse\n  more: orange-cow\ndone\n", "orange"},
		"its kind at the end":  {"apiVersion: v1\ndata:\n  any: b3JhbmdlLWhvcnNl\n  more: b3JhbmdlLWNvdw==\nkind: Secret\n", "b3Jhbmdl"},
		"a name and a value":   {"- name: DB_PASSWORD\n  value: orange-horse\n", "orange"},
		"the same in JSON":     {"{\n  \"name\": \"DB_PASSWORD\",\n  \"value\": \"orange-horse\"\n}\n", "orange"},
		"a key":                {"-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEAq1w2e3r4t5y6u7i8o9p0Zx7CvBnM1q2w3e4r5t6y7u8i9o0p\n", 3) + "-----END PRIVATE KEY-----\n", "MIIE"},
		"a key without an end": {"-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEAq1w2e3r4t5y6u7i8o9p0Zx7CvBnM1q2w3e4r5t6y7u8i9o0p\n", 3), "MIIE"},
	} {
		lines := strings.Split(strings.TrimSuffix(c.log, "\n"), "\n")
		own := shipped(c.log, at, map[string]string{"pod": "cart-1"})
		other := shipped(strings.Repeat("GET /items\n", 50), at.Add(300*time.Microsecond), map[string]string{"pod": "front-1"})
		apart := make([]datatest.Stream, 2) // as labels made of the text put them
		for i, l := range own.Lines {
			apart[i%2].Lines = append(apart[i%2].Lines, l)
			apart[i%2].Labels = map[string]string{"pod": "cart-1", "detected_level": strconv.Itoa(i % 2)}
		}
		for as, streams := range map[string][]datatest.Stream{"alone": {own}, "beside another": {other, own}, "in two": slices.DeleteFunc(apart, func(s datatest.Stream) bool { return s.Lines == nil })} {
			d := masking(t, Access{Loki: &Endpoint{URL: datatest.NewLoki(t, streams...).URL}})
			for from := range lines {
				for to := from + 1; to <= len(lines); to++ {
					for _, limit := range []int{1, 2, 100} {
						q := Query{Text: `{pod=~".+"}`, Start: at.Add(time.Duration(from) * time.Millisecond), End: at.Add(time.Duration(to) * time.Millisecond), Limit: limit}
						a, err := d.Lines(t.Context(), q)
						if err != nil || strings.Contains(a.Text, c.secret) {
							t.Fatalf("%s, %s, entries %d to %d, %d at most: %v\n%s", name, as, from, to, limit, err, a.Text)
						}
						raw, err := d.Log(t.Context(), q)
						if err != nil || strings.Contains(string(raw), c.secret) {
							t.Fatalf("%s, %s, raw: %v\n%s", name, as, err, raw)
						}
						if want := min(limit, to-from); as == "alone" && entriesIn(t, raw) != want {
							t.Errorf("%s, entries %d to %d, %d at most: %s", name, from, to, limit, raw)
						}
					}
				}
			}
			for _, kept := range d.bodies {
				if strings.Contains(string(kept), c.secret) {
					t.Errorf("%s, %s is in evidence: %s", name, as, kept)
				}
			}
		}
	}
}

func entriesIn(t *testing.T, raw []byte) (n int) {
	t.Helper()
	var doc struct {
		Data struct{ Result []stream }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.Data.Result {
		n += len(s.Values)
	}
	return n
}

// TestEntriesAreThoseAskedFor: the margin is none of the answer, and what is no secret is as
// Loki gave it.
func TestEntriesAreThoseAskedFor(t *testing.T) {
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	log := ""
	for i := range 40 {
		log += fmt.Sprintf("line %d <&> \"quoted\"\n", i)
	}
	loki := datatest.NewLoki(t, shipped(log, at, map[string]string{"pod": "a"}), shipped(log, at.Add(500*time.Microsecond), map[string]string{"pod": "b"}))
	d := masking(t, Access{Loki: &Endpoint{URL: loki.URL}})
	for _, limit := range []int{1, 7, 79, 80, 200} {
		raw, err := d.Log(t.Context(), Query{Text: `{pod=~".+"}`, Start: at.Add(time.Millisecond), End: at.Add(time.Second), Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if got := entriesIn(t, raw); got != min(limit, 78) || strings.Contains(string(raw), "line 0") || !strings.Contains(string(raw), `line 39 <&> \"quoted\"`) {
			t.Errorf("%d of %d: %s", got, limit, raw)
		}
	}
	asked := loki.Asked()[0].Form
	if got, want := asked.Get("limit")+" "+asked.Get("start"), fmt.Sprintf("%d %d", 1+marginEntries[0], at.Add(time.Millisecond-marginTime).UnixNano()); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// TestNumbersHaveNoMargin: only entries do.
func TestNumbersHaveNoMargin(t *testing.T) {
	s := &system{name: Loki}
	for query, want := range map[string]bool{`{a="b"}`: true, ` {a="b"} |= "x"`: true, `count_over_time({a="b"}[5m])`: false, ``: false} {
		q := question{system: s, path: "query_range", options: url.Values{"query": {query}, "start": {"1000000000000"}, "limit": {"10"}}}
		if got := q.withMargin(200).options.Get("limit") != "10"; got != want {
			t.Errorf("%s: %t", query, got)
		}
	}
}
