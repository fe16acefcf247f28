package data

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/test/datatest"
)

// What a query may say of text: a table of what is refused, with what the refusal names,
// and of what engineers need.
func TestWhatQueriesSayOfText(t *testing.T) {
	t.Parallel()
	for query, names := range map[string]string{
		// Text that is made, cut or renamed.
		`label_replace(db_info, "half", "$1", "password", "(.{6}).*")`: "label_replace", `sum(label_replace(up, "a", "$1", "b", "(.)")) by (a)`: "label_replace",
		`label_join(up, "a", "", "user", "password")`: "label_join", `count_values("a", x)`: "count_values", `topk(1, count_values by (pod) ("a", x))`: "count_values",
		`absent(x{a="hunter2"})`: "absent", `absent_over_time(x{a="hunter2"}[5m])`: "absent_over_time",
		// Text that is tested.
		`x{password="hunter2"}`: "password", `x{password!="hunter2"}`: "password", `x{password=~"h.*"}`: "password", `x{db_password!~"h.*"}`: "db_password", `x{client_secret=""}`: "client_secret",
		`x{dsn=~"postgres://u:h.*"}`: "dsn", `x{dsn!~"postgres://u:h.*"}`: "dsn", `x{url=~".*hunter.*"}`: "url", `x{dsn=~"(?i)a|b"}`: "dsn", `x{dsn=~".*.+"}`: "dsn",
		`sum(rate(x{dsn=~"p.*"}[5m])) / sum(rate(y[5m]))`: "dsn", `max_over_time(x{dsn=~"p.*"}[1h:5m])`: "dsn", `a and on(pod) b{dsn=~"p.*"}`: "dsn",
	} {
		q, err := (&system{name: Prometheus}).readMetricsQuery(query, nil)
		if nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), names) {
			t.Errorf("%s was read as %q, %v", query, q.text, err)
		}
	}
	for _, query := range []string{
		`up{job="cart"}`, `x{namespace=~"shop.*", pod=~"cart-.*", container!~"istio.*"}`, `x{le=~"0\\..*"}`, `x{code=~"5.."}`, `x{node=~"a.+|b", instance=~"10\\..*"}`, `x{app_kubernetes_io_name=~"c.*"}`,
		`x{dsn="a"}`, `x{custom=~"a|b"}`, `x{custom=~".+"}`, `x{custom!~".*"}`, `x{custom=~""}`, `{__name__=~"container_.*"}`, `x{k8s_pod_name=~"c.*"}`, `x{my_ns=~"shop.*"}`, `x{cpu=~"[0-3]"}`,
		`sum by (password) (x)`, `topk(5, rate(http_requests_total{handler=~"/api/.*",status_code!~"2.."}[5m]))`, `a * on(pod) group_left(node) b`, `vector(1)`, `histogram_quantile(0.9, sum by (le) (rate(b[5m])))`,
	} {
		if _, err := (&system{name: Prometheus, Endpoint: Endpoint{NamespaceLabel: "my_ns"}}).readMetricsQuery(query, nil); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	for query, names := range map[string]string{
		`{a="b"} | json`: "json", `{a="b"} | logfmt`: "logfmt", "{a=\"b\"} | regexp `(?P<x>.)`": "regexp", `{a="b"} | pattern "<x>:<_>"`: "pattern", `{a="b"} | unpack`: "unpack", `{a="b"} | decolorize`: "decolorize",
		`{a="b"} | json x="password"`: "json", `{a="b"} | json | password=~"h.*"`: "json", `{a="b"} | logfmt | level="error"`: "logfmt", `{a="b"} | line_format "{{.password}}"`: "line_format",
		`{a="b"} | label_format x=password`: "label_format", `{a="b"} | label_format x="{{ .a }}"`: "label_format", `{a="b"} | drop a`: "drop", `{a="b"} | keep a`: "keep", `{a="b"} | x > 5`: "x",
		`sum(sum_over_time({a="b"} | unwrap x [5m]))`: "sum_over_time", `rate({a="b"} | unwrap x [5m])`: "unwrap", `{a="b"} |= "x" | json`: "json", `{a="b"} | pod="x" | json`: "json",
		`label_replace(rate({a="b"}[5m]), "x", "$1", "password", "(.).*")`: "label_replace", `absent_over_time({a="hunter2"}[5m])`: "absent_over_time", `quantile_over_time(0.9, {a="b"}[5m])`: "quantile_over_time",
		`count_over_time({a="b"} |= "hunter2" [5m])`: "|=", `sum(rate({a="b"} != "hunter2" [5m]))`: "!=", `sum(rate({a="b"} |~ "hunter.*" [5m]))`: "|~", `rate({a="b"} !~ "x" [5m])`: "!~",
		`count_over_time({a="b"} |= "error" |= "hunter2" [5m])`: "|=", `count_over_time({a="b"} |= "error" or "hunter2" [5m])`: "|=", `count_over_time({a="b"}[5m] |= "hunter2")`: "|=",
		`count_over_time({a="b"} |~ "(?i)(error|hunter2)" [5m])`: "|~", `count_over_time({a="b"} |~ "error.*" [5m])`: "|~", `count_over_time({a="b"}[5m]) > count_over_time({a="b"} |= "hunter2" [5m])`: "|=",
		`{password="x"}`: "password", `{dsn=~"p.*"}`: "dsn", `sum(rate({dsn!~"p.*"}[5m]))`: "dsn", `{a="b"} | dsn=~"p.*"`: "dsn", `{a="b"} | password="x"`: "password",
	} {
		q, err := (&system{name: Loki}).readLogsQuery(query, nil)
		if nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), names) {
			t.Errorf("%s was read as %q, %v", query, q.text, err)
		}
	}
	for _, query := range []string{
		`{a="b"} |> "<_>x"`, `{a="b"} |= ip("10.0.0.0/8")`, `{a="b"} |~ "("`, `{a=~"("}`, `{a="b"} or {c="d"}`, `{a="b"} + 1`, `{a="b"} "x"`, `{a="b"} | = "x"`, `{a="b"} | pod="x" or pod="y"`, `{a="b"} | pod="x", pod="y"`,
		`{a="b"} | pod=5`, `sum(rate({a="b"}[5m])) by (`, `{a="b"} |= "x" or`, `1 + 1`, `{a="b"} | pod==="x"`, `{a="b"} |= "x" |`, "{a=\"b\"} |= `x", `({a="b"} |= "x"`,
	} {
		if q, err := (&system{name: Loki}).readLogsQuery(query, nil); err == nil {
			t.Errorf("%s was read as %q", query, q.text)
		}
	}
	for query, sent := range map[string]string{
		`{a="b"} |= "hunter2"`:                                       `{a="b"}`,
		`{a="b", pod=~"c.*"} |= "x" != "y" |~ "z.*" !~ "w"`:          `{a="b", pod=~"c.*"}`,
		"{a=\"b\"} |~ `[a-z]+` | pod=\"x\" |= `|= \"`":               `{a="b"}  | pod="x"`,
		`{a="b"} |= "error"`:                                         `{a="b"}`,
		`{a="b"} |~ "(?i)(error|panic)" |= "x"`:                      `{a="b"}`,
		`{a="b"} |= "Error" or "x"`:                                  `{a="b"}`,
		`{a="b"} != "error"`:                                         `{a="b"}`,
		`sum by (pod) (count_over_time({a="b"} |= "error" [5m]))`:    `sum by (pod) (count_over_time({a="b"} |= "error" [5m]))`,
		`sum(rate({a="b"} != "debug" |~ "(?i)timeout" [5m])) != 5`:   `sum(rate({a="b"} != "debug" |~ "(?i)timeout" [5m])) != 5`,
		`topk(5, sum by (detected_level) (bytes_rate({a="b"}[1h])))`: `topk(5, sum by (detected_level) (bytes_rate({a="b"}[1h])))`,
		`{a="b"} | detected_level="error"`:                           `{a="b"} | detected_level="error"`,
	} {
		if q, err := (&system{name: Loki}).readLogsQuery(query, nil); err != nil || q.text != sent {
			t.Errorf("%s was read as %q, %v", query, q.text, err)
		}
	}
}

// Every function that the parser knows is decided on.
func TestEveryFunctionIsKnown(t *testing.T) {
	var all []string
	for name := range parser.Functions {
		all = append(all, name)
	}
	slices.Sort(all)
	var refused []string
	for _, name := range all {
		if !slices.Contains(plainFunctions, name) && !slices.Contains(numericFunctions, name) {
			refused = append(refused, name)
		}
	}
	want := []string{
		"absent", "absent_over_time", "end", "histogram_quantiles", "info", "label_join", "label_replace", "max_of", "min_of", "range", "sort_by_label", "sort_by_label_desc", "start", "start_timestamp", "step",
	}
	if !slices.Equal(refused, want) {
		t.Errorf("refused are %q, want %q: is the new one about text?", refused, want)
	}
}

// secretive is a desk that masks as the product does.
func secretive(t *testing.T, a Access) *desk {
	d := newDesk(t, a)
	d.cfg.Mask = mask.New([]byte("key")).Bytes
	return d
}

// Against a real Prometheus, nothing of a password comes out, whole or in part, and no
// question tells whether a guess is right.
func TestRealPrometheusTellsNoSecret(t *testing.T) {
	t.Parallel()
	end := time.Now().UTC().Truncate(time.Minute)
	url := datatest.Prometheus(t, datatest.Series{
		Name: "db_info", Labels: `namespace="shop",user="app",password="hunter2-Q9x7",dsn="postgres://app:hunter2-Q9x7@db/orders"`, Samples: []datatest.Sample{{At: end, Value: 1}},
	})
	d := secretive(t, Access{Prometheus: &Endpoint{URL: url}})
	for _, query := range []string{
		`db_info`, `label_replace(db_info, "half", "$1", "password", "(.{7}).*")`, `label_join(db_info, "both", "-", "password", "user")`, `count by (password) (db_info)`, `db_info * on (password) group_left (dsn) db_info`,
		`db_info{password=~"h.*"}`, `db_info{dsn=~".*:hun.*"}`, `sum without (user) (db_info)`, `{__name__=~"db_.*"}`, `{password="hunter2-Q9x7"}`, `absent(db_info{x="hunter2-Q9x7"})`, `db_info{password!="hunter2-Q9x7"}`,
	} {
		for _, q := range []Query{{Text: query, End: end}, {Text: query, Start: end.Add(-time.Hour), End: end}} {
			if a, err := d.Metrics(t.Context(), q); strings.Contains(a.Text+fmt.Sprint(err), "Q9x") && err == nil || strings.Contains(a.Text, "hunter") {
				t.Errorf("%s: %v\n%s", query, err, a.Text)
			}
		}
	}
	for _, label := range []string{"password", "dsn", "user", AllLabels} {
		a, err := d.Values(t.Context(), Prometheus, label, "", end)
		if strings.Contains(a.Text, "hunter") || (err != nil) != (label == "password") {
			t.Errorf("%s: %v\n%s", label, err, a.Text)
		}
	}
	if a, err := d.Metrics(t.Context(), Query{Text: `db_info{namespace="shop"}`, End: end}); err != nil || !strings.Contains(a.Text, `password="‹secret:`) || !strings.Contains(a.Text, "postgres://app:‹secret:") {
		t.Errorf("%v\n%s", err, a.Text)
	}
	for _, body := range d.bodies {
		if strings.Contains(string(body), "hunter") {
			t.Errorf("the evidence tells the password: %s", body)
		}
	}
}

// logs is a Loki with many lines, of which a few are of interest.
func logs(t *testing.T, now time.Time, n int) *datatest.Loki {
	var s datatest.Stream
	s.Labels = map[string]string{"namespace": "shop", "pod": "cart-1"}
	for i := range n {
		line := datatest.Line{At: now.Add(time.Duration(i-n) * time.Second / 10), Text: fmt.Sprintf("request %d took 5ms", i)}
		switch {
		case i%1000 == 7:
			line.Text = fmt.Sprintf("connect: db_password=hunter2-Q9x7 failed after %d", i)
		case i == n-2500:
			line.Text = "the needle: connection pool is used up"
		}
		s.Lines = append(s.Lines, line)
	}
	return datatest.NewLoki(t, s)
}

// Filters look at masked lines, as far back as they find something; Loki is not told what
// they look for.
func TestLinesAreSiftedHere(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	peer := logs(t, now, 20_000)
	d := secretive(t, Access{Loki: &Endpoint{URL: peer.URL}})
	ask := func(query string, limit int) string {
		t.Helper()
		a, err := d.Lines(t.Context(), Query{Text: query, Limit: limit, End: now})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(a.Evidence, "E") || strings.Contains(a.Text, "computed") {
			t.Errorf("%s cannot be cited: %s", query, a.Text)
		}
		return a.Text
	}
	for _, c := range []struct {
		query string
		limit int
		want  []string
	}{
		{`{namespace="shop"} |= "needle"`, 1, []string{"the needle: connection pool", "1 line of the 2998 lines that were looked at"}},
		{`{namespace="shop"} |~ "need.e: [a-z]+ pool"`, 10, []string{"the needle", "1 line of the 9991 lines that were looked at", "older ones were not looked at: set end to that"}},
		{`{namespace="shop"} |= "db_password" != "after 19007"`, 3, []string{"db_password=‹secret:", "after 18007", "after 17007", "after 16007", "3 lines of the 3997"}},
		{`{namespace="shop"} |= "hunter2"`, 10, []string{"No lines", "0 lines of the 9991"}},
		{`{namespace="shop"} |~ "hunt.*|Q9x7"`, 10, []string{"No lines", "0 lines of the 9991"}},
		{`{namespace="shop"} |= "nothing of the kind"`, 10, []string{"No lines", "0 lines of the 9991"}},
		{`{namespace="shop"} |= "request" or "needle" !~ "99[0-9]"`, 5, []string{"request 19899 ", "request 19895 ", "5 lines"}},
	} {
		text := ask(c.query, c.limit)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in:\n%s", c.query, want, text)
			}
		}
		if strings.Contains(text, "hunter") {
			t.Errorf("%s tells the password:\n%s", c.query, text)
		}
	}
	for _, r := range peer.Asked() {
		if q := r.FormValue("query"); q != `{namespace="shop"}` {
			t.Errorf("Loki was asked %s", q)
		}
	}
	if right, wrong := ask(`{namespace="shop"} |= "hunter2-Q9x7"`, 10), ask(`{namespace="shop"} |= "hunter2-Q9x8"`, 10); right[:40] != wrong[:40] || !strings.Contains(right, "0 lines of") || !strings.Contains(wrong, "0 lines of") {
		t.Errorf("a right guess is answered by\n%s\na wrong one by\n%s", right, wrong)
	}
	for id, n := range perQuestion(d.log) {
		if n != 2 {
			t.Errorf("question %d has %d entries on record", id, n)
		}
	}
	for _, body := range d.bodies {
		if strings.Contains(string(body), "hunter") {
			t.Error("the evidence tells the password")
		}
	}
}

// perQuestion counts the entries of each question.
func perQuestion(log []journal.Request) map[int64]int {
	n := map[int64]int{}
	for _, r := range log {
		n[r.ID]++
	}
	return n
}

// Pages meet without a gap and without a line twice, also where many lines are of one
// moment, and one that is too large is asked for in pieces.
func TestPagesMeet(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		lines int
		every time.Duration
		size  int // bytes of a line
		want  string
	}{
		"a line each moment":    {2500, time.Millisecond, 10, "2500 lines of the 2500 lines"},
		"seven of one moment":   {2500, 0, 10, "2500 lines of the 2500 lines"},
		"lines of ten kilobyte": {900, time.Millisecond, 10_000, "900 lines of the 900 lines"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := datatest.Stream{Labels: map[string]string{"pod": "cart-1"}}
			for i := range c.lines {
				at := now.Add(-time.Duration(c.lines-i) * c.every)
				if c.every == 0 {
					at = now.Add(-time.Duration((c.lines-i)/7+1) * time.Millisecond)
				}
				s.Lines = append(s.Lines, datatest.Line{At: at, Text: fmt.Sprintf("line %06d %s", i, strings.Repeat("x", c.size))})
			}
			d := secretive(t, Access{Loki: &Endpoint{URL: datatest.NewLoki(t, s).URL}})
			q := Query{Text: `{pod="cart-1"} |= "line"`, End: now, Start: now.Add(-time.Hour), Limit: 500}
			asked, read, q, _, err := d.newLinesQuestion(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			q.Limit = 1 << 20 // beyond what a caller may ask
			sieve, finish, err := d.siftLines(t.Context(), asked, q, read.filters)
			if err != nil {
				t.Fatal(err)
			}
			_ = finish(journal.Request{})
			if note := sieve.describeReach(); !strings.HasPrefix(note, c.want) || !sieve.reached {
				t.Errorf("reached %v: %s", sieve.reached, note)
			}
		})
	}
}

// What a server says of a question does not confirm what the question guesses.
func TestErrorsConfirmNothing(t *testing.T) {
	t.Parallel()
	said := func(guess string) string {
		d, _ := hostile(t, func(w http.ResponseWriter, r *http.Request) {
			q, _ := url.QueryUnescape(r.URL.RawQuery)
			http.Error(w, `{"status":"error","error":"cannot do `+strings.ReplaceAll(r.FormValue("query"), `"`, `\"`)+` with password=`+guess+`, asked by `+strings.ReplaceAll(q, `"`, `\"`)+`"}`, http.StatusUnprocessableEntity)
		})
		d.cfg.Mask = mask.New([]byte("key"), "hunter2-Q9x7").Bytes
		_, err := d.Metrics(t.Context(), Query{Text: `up{pod="` + guess + `"}`, End: time.Unix(1_700_000_000, 0)})
		return fmt.Sprint(err)
	}
	right, wrong := said("hunter2-Q9x7"), said("hunter2-Q9x8")
	if right != wrong || strings.Contains(right, "hunter2") || !strings.Contains(right, mask.Echo) {
		t.Errorf("a right guess is answered by\n%s\na wrong one by\n%s", right, wrong)
	}
}
