package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

// sink is where deliveries go; it says what intake would make of each.
type sink struct {
	mu   sync.Mutex
	got  []nightcrier.Delivery
	fail func(nightcrier.Delivery) error
}

func (s *sink) deliver(_ context.Context, d nightcrier.Delivery) (outcome nightcrier.Outcome, repeated bool, err error) {
	if s.fail != nil {
		if err := s.fail(d); err != nil {
			return "", false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, d)
	if d.Reason != "" {
		return nightcrier.Suppressed, false, nil
	}
	if _, err := dialect.Parse(d.Reading); err != nil {
		return nightcrier.Suppressed, false, nil
	}
	return nightcrier.Opened, false, nil
}

const secret = "correct-horse-battery"

func newHooks(t testing.TB, s *sink) *Hooks {
	t.Helper()
	h, err := New(Config{Deliver: s.deliver, Logger: slog.New(slog.DiscardHandler),
		Clusters: []Cluster{{Name: "prod", Token: secret}, {Name: "lab"}, {Name: "posts-later", Listed: true}},
		Mappings: []Mapping{{Name: "pager", Token: secret, Cluster: "body.cluster"}, {Name: "open", Cluster: `"lab"`}}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// post sends a body; headers are "Name: value".
func post(h http.Handler, path string, body []byte, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", Path+path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestWhoMayPost(t *testing.T) {
	t.Parallel()
	const bearer = "Authorization: Bearer " + secret
	body := []byte(`{"alerts":[{"labels":{"alertname":"A"}}],"cluster":"prod"}`)
	for _, c := range []struct {
		path, header  string
		local, public int
	}{
		{"alertmanager/prod", bearer, 200, 200},
		{"alertmanager/prod", "Authorization: bearer  " + secret + " ", 200, 200},
		{"pager", bearer, 200, 200},
		{"alertmanager/prod", "X-None: x", 401, 401},
		{"alertmanager/prod", "Authorization: Bearer ", 401, 401},
		{"alertmanager/prod", "Authorization: " + secret, 401, 401},
		{"alertmanager/prod", "Authorization: Basic " + secret, 401, 401},
		{"alertmanager/prod", "Authorization: Bearer " + secret + "x", 401, 401},
		{"alertmanager/prod", "Authorization: Bearer " + secret[:5], 401, 401},
		{"alertmanager/prod?token=" + secret, "X-None: x", 401, 401},
		{"pager", "X-None: x", 401, 401},
		{"alertmanager/lab", "X-None: x", 200, 401},
		{"alertmanager/lab", bearer, 200, 401},
		{"open", "Authorization: Bearer ", 200, 401},
		{"alertmanager/nowhere", bearer, 404, 401},
		{"nowhere", "X-None: x", 404, 401},
		{"alertmanager/..%2fprod", "X-None: x", 404, 401},
		{"alertmanager", bearer, 404, 401},
	} {
		s := &sink{}
		h := newHooks(t, s)
		for face, want := range map[http.Handler]int{h.Local(): c.local, h.Public(): c.public} {
			got := post(face, c.path, body, c.header)
			if got.Code != want {
				t.Errorf("%s with %s: %d %s, want %d", c.path, c.header, got.Code, got.Body, want)
			}
			if got.Code == 401 && (got.Body.Len() > 0 || got.Header().Get("WWW-Authenticate") != "Bearer") {
				t.Errorf("a refused sender is told %q", got.Body)
			}
			if strings.Contains(got.Body.String(), "prod") || strings.Contains(got.Body.String(), "lab") {
				t.Errorf("%s tells names: %s", c.path, got.Body)
			}
		}
	}
}

func TestMethodAndType(t *testing.T) {
	t.Parallel()
	h := newHooks(t, &sink{}).Local()
	body := []byte(`{"alerts":[]}`)
	for header, want := range map[string]int{
		"Content-Type: application/json; charset=utf-8": 200, "Content-Type: text/plain": 415, "Content-Type: application/x-www-form-urlencoded": 415,
		"Content-Type: ": 415, "Content-Encoding: gzip": 415,
	} {
		if got := post(h, "alertmanager/lab", body, header); got.Code != want {
			t.Errorf("%s: %d, want %d", header, got.Code, want)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, Path+"alertmanager/lab", nil))
		if w.Code != 405 {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// Whatever is sent is kept with a reason, once, and breaks nothing.
func TestHostilePayloads(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 64<<10)
	one := func(labels string) string { return `{"alerts":[{"status":"firing","labels":` + labels + `}]}` }
	for name, c := range map[string]struct {
		body   string
		status int
		reason nightcrier.Reason // of the first event; "" for one that is read
		detail string
	}{
		"nothing":                 {``, 400, nightcrier.Malformed, "payload: "},
		"no JSON":                 {`{"alerts":[`, 400, nightcrier.Malformed, "payload: "},
		"bytes":                   {"\xff\xfe\x00", 400, nightcrier.Malformed, "payload: "},
		"another object":          {`{"faultType":"CrashLoop","resource":{"kind":"Pod","name":"a"}}`, 400, nightcrier.Malformed, "neither alerts nor labels"},
		"a text":                  {`"alerts"`, 400, nightcrier.Malformed, "payload: "},
		"null":                    {`null`, 400, nightcrier.Malformed, "neither alerts nor labels"},
		"alerts that are none":    {`{"alerts":[null,7,"x",{}]}`, 200, nightcrier.Malformed, "labels is missing"},
		"alerts as an object":     {`{"alerts":{}}`, 400, nightcrier.Malformed, "payload: "},
		"labels of numbers":       {one(`{"alertname":7}`), 200, nightcrier.Malformed, "alert: "},
		"deep JSON":               {`{"alerts":[` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `]}`, 400, nightcrier.Malformed, "exceeded max depth"},
		"too large":               {`{"alerts":["` + strings.Repeat("x", MaxBody) + `"]}`, 413, nightcrier.Oversized, "larger than"},
		"one large alert":         {one(`{"alertname":"A","x":"` + strings.Repeat("x", dialect.Limit) + `"}`), 200, nightcrier.Oversized, "at most"},
		"a path":                  {one(`{"alertname":"KubePodCrashLooping","namespace":"shop","pod":"../../secrets/x"}`), 200, nightcrier.Malformed, "no Kubernetes name has"},
		"a path of dots":          {one(`{"alertname":"A","node":".."}`), 200, nightcrier.Malformed, "is a path"},
		"a namespace of markup":   {one(`{"alertname":"A","namespace":"<!channel>","pod":"a"}`), 200, nightcrier.Malformed, "no Kubernetes name has"},
		"a name of 64 KiB":        {one(`{"alertname":"A","namespace":"shop","pod":"` + big + `"}`), 200, nightcrier.Malformed, "bytes long"},
		"a status of its own":     {`{"alerts":[{"status":"exploding","labels":{"alertname":"A"}}]}`, 200, nightcrier.Malformed, "neither firing nor resolved"},
		"values of 64 KiB":        {one(`{"alertname":"` + big + `","x":"` + big + `","severity":"` + big + `"}`), 200, "", ""},
		"control characters":      {one(`{"alertname":"\u001b[31mred\u202e","x":"\u0000\u0007","summary":"</incident>"}`), 200, "", ""},
		"no text":                 {"{\"alerts\":[{\"labels\":{\"alertname\":\"A\xff\xfe\"},\"annotations\":{\"summary\":\"\xc3\x28\"}}]}", 200, "", ""},
		"a number without end":    {`{"alerts":[{"labels":{"alertname":"A"},"startsAt":1e999999}]}`, 200, nightcrier.Malformed, "alert: "},
		"a count without end":     {`{"truncatedAlerts":1e999999,"alerts":[{"labels":{"alertname":"A"}}]}`, 200, "", ""},
		"one key in two cases":    {`{"alerts":[{"status":"firing","Status":"resolved","labels":{"alertname":"A"}}]}`, 200, "", ""},
		"documents one by one":    {one(`{"alertname":"A"}`) + one(`{"alertname":"B"}`), 400, nightcrier.Malformed, "payload: "},
		"keys given twice":        {one(`{"alertname":"A","alertname":"B"}`), 200, "", ""},
		"a time of its own":       {`{"alerts":[{"startsAt":"yesterday","labels":{"alertname":"A"}}]}`, 200, "", ""},
		"a fingerprint of a path": {`{"alerts":[{"fingerprint":"../x","labels":{"alertname":"A"}}]}`, 200, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &sink{}
			h := newHooks(t, s)
			for range 2 {
				if got := post(h.Local(), "alertmanager/lab", []byte(c.body)); got.Code != c.status {
					t.Fatalf("%d %.200s, want %d", got.Code, got.Body, c.status)
				}
			}
			if len(s.got) == 0 || s.got[0].EventID != s.got[len(s.got)/2].EventID || !nightcrier.ValidID(s.got[0].EventID) {
				t.Fatalf("%d deliveries; sent again it is another event", len(s.got))
			}
			d := s.got[0]
			reason, detail := d.Reason, d.Detail
			ev, err := dialect.Parse(d.Reading)
			if reason == "" && err != nil {
				reason, detail = nightcrier.Malformed, err.Error()
			}
			if reason != c.reason || !strings.Contains(detail, c.detail) || len(detail) > 2*maxError {
				t.Errorf("%s: %.300s; want %s: %s", reason, detail, c.reason, c.detail)
			}
			if strings.ContainsAny(ev.Context+ev.FaultType+detail, "\x1b\x00\u202e") || len(ev.Context) > 32<<10 {
				t.Errorf("kept as it came: %.200q", ev.Context)
			}
		})
	}
}

func TestTenThousandAlerts(t *testing.T) {
	t.Parallel()
	var list []any
	for i := range 10_000 {
		list = append(list, map[string]any{"labels": map[string]string{"alertname": "A", "namespace": "shop", "pod": fmt.Sprintf("cart-%d", i)}})
	}
	s := &sink{}
	got := post(newHooks(t, s).Local(), "alertmanager/lab", encodeJSON(map[string]any{"alerts": list}))
	var answer Stored
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil || got.Code != 200 || answer != (Stored{Received: 10_000, Opened: 10_000}) {
		t.Errorf("%d %s, %v", got.Code, got.Body, err)
	}
}

// What all alerts of a group share is not kept with each of them as often as a
// hostile group likes, and neither are alerts without end.
func TestLargeGroups(t *testing.T) {
	t.Parallel()
	many := `{"groupLabels":{"x":"` + strings.Repeat("x", 1<<20) + `"},"groupKey":"` + strings.Repeat("k", 1<<20) + `","alerts":[`
	s := &sink{}
	got := post(newHooks(t, s).Local(), "alertmanager/lab", []byte(many+strings.Repeat(`{"labels":{"alertname":"A"}},`, maxAlerts-1)+`7]}`))
	kept := 0
	for _, d := range s.got {
		kept += len(d.Raw) + len(d.Reading)
	}
	if got.Code != 200 || len(s.got) != maxAlerts || kept > 32<<20 {
		t.Errorf("%d %s, %d bytes in %d deliveries", got.Code, got.Body, kept, len(s.got))
	}
	s = &sink{}
	got = post(newHooks(t, s).Local(), "alertmanager/lab", []byte(`[`+strings.Repeat(`7,`, maxAlerts)+`7]`))
	if got.Code != 413 || len(s.got) != 1 || s.got[0].Reason != nightcrier.Oversized {
		t.Errorf("%d %s, %d deliveries", got.Code, got.Body, len(s.got))
	}
}

// A sender is asked to send again as long as something is not stored; what can be
// stored is.
func TestNotStored(t *testing.T) {
	t.Parallel()
	broken := true
	s := &sink{fail: func(d nightcrier.Delivery) error {
		if broken && strings.Contains(string(d.Raw), `"B"`) {
			return errors.New("disk full: /var/lib/secret")
		}
		return nil
	}}
	h := newHooks(t, s)
	body := []byte(`{"alerts":[{"labels":{"alertname":"A"}},{"labels":{"alertname":"B"}},{"labels":{"alertname":"C"}}]}`)
	got := post(h.Local(), "alertmanager/lab", body)
	if got.Code != 503 || !strings.Contains(got.Body.String(), "stored 2 of 3") || strings.Contains(got.Body.String(), "secret") || len(s.got) != 2 {
		t.Errorf("%d %s, %d stored", got.Code, got.Body, len(s.got))
	}
	broken = false
	if got := post(h.Local(), "alertmanager/lab", body); got.Code != 200 || len(s.got) != 5 || s.got[0].EventID != s.got[2].EventID {
		t.Errorf("%d %s, %d stored", got.Code, got.Body, len(s.got))
	}
}

// So many payloads are in memory at once, the others wait for their turn.
func TestTurns(t *testing.T) {
	t.Parallel()
	h := newHooks(t, &sink{})
	for range maxAtOnce {
		if _, ok := h.awaitTurn(t.Context()); !ok {
			t.Fatal("no turn")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := h.awaitTurn(ctx); ok {
		t.Errorf("more than %d at once", maxAtOnce)
	}
	r := httptest.NewRequestWithContext(ctx, "POST", Path+"alertmanager/lab", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.Local().ServeHTTP(w, r)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	h := newHooks(t, &sink{})
	if list := h.Statuses(); len(list) != 3 || list[0].Cluster != "prod" || list[0].Source != Source || list[1].Cluster != "posts-later" || list[2].Source != "webhook/pager" {
		t.Fatalf("%+v", list)
	}
	post(h.Public(), "pager", []byte(`{}`), "Authorization: Bearer nonsense")
	post(h.Local(), "alertmanager/lab", []byte(`{"alerts":[{"labels":{"alertname":"A"}},{"labels":{"alertname":"B"}}],"truncatedAlerts":3}`))
	post(h.Local(), "alertmanager/prod", []byte(`junk`), "Authorization: Bearer "+secret)
	for _, s := range h.Statuses() {
		switch s.Cluster {
		case AnyCluster:
			if s.Events != 0 || !strings.Contains(s.LastError, "wrong one, and was refused") {
				t.Errorf("%+v", s)
			}
		case "lab":
			if s.Events != 3 || s.LastEventAt.IsZero() || !strings.Contains(s.LastError, "left 3 alerts") {
				t.Errorf("%+v", s)
			}
		case "prod":
			if s.Events != 1 || !strings.Contains(s.LastError, "payload: ") || s.State != nightcrier.SourceSubscribed {
				t.Errorf("%+v", s)
			}
		}
	}
}

func FuzzAlerts(f *testing.F) {
	f.Add(fired(f, []string{"namespace"}, labels("alertname=KubePodCrashLooping", "namespace=shop", "pod=cart-0")))
	f.Add([]byte(`[{"labels":{"alertname":"A","job":"node-exporter","instance":"[::1]:9100"},"status":{"state":"active"}}]`))
	f.Add([]byte(`{"alerts":[{"labels":{"workload_type":"x"}}],"truncatedAlerts":18446744073709551615}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		list, err := Alerts(prod, payload)
		if err != nil && len(list) != 1 {
			t.Fatalf("%v, and %d deliveries", err, len(list))
		}
		for _, d := range list {
			if d.Cluster != "prod" || !nightcrier.ValidID(d.EventID) || d.Reason == "" && d.Reading == nil {
				t.Fatalf("%+v", d)
			}
			ev, err := dialect.Parse(d.Reading)
			if d.Reason == "" && err == nil && ev.Reason == "" && ev.Resource.Check() != nil {
				t.Fatalf("%s is not legal", ev.Resource)
			}
		}
	})
}
