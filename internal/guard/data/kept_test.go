package data

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
)

// Questions that were answered are answered again a day later and without a server, of the
// same moment: texts, failures, evidence and what stands on record are the same.
func TestQuestionsAreMadeAgainFromWhatIsKept(t *testing.T) {
	asked := 0
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked++; {
		case strings.Contains(r.URL.RawQuery, "broken"):
			http.Error(w, `{"error":"no \xff such token-abc"}`, http.StatusUnprocessableEntity)
		case strings.HasSuffix(r.URL.Path, "/values"):
			_, _ = io.WriteString(w, `{"status":"success","data":["cart-1"]}`)
		default:
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"token-abc"},"value":[1,"4711"]}]}}`)
		}
	}))
	kept := map[string][]any{}
	keep := func(name string, into any, ask func() error) error {
		err := ask()
		raw, encodeErr := json.Marshal(into)
		if encodeErr != nil {
			t.Error(encodeErr)
		}
		kept[name] = append(kept[name], raw)
		return err
	}
	play := func(name string, into any, _ func() error) error {
		list := kept[name]
		if len(list) == 0 {
			return nightcrier.Errorf(nightcrier.NotFound, "not recorded: %s", name)
		}
		kept[name] = list[1:]
		return json.Unmarshal(list[0].([]byte), into)
	}
	run := func(url string, now time.Time, take tape.Take) (told []string, records []journal.Request) {
		d := &desk{}
		hide := strings.NewReplacer("token-abc", "‹secret:0001›")
		g, err := New(Config{Access: Access{Prometheus: &Endpoint{URL: url}}, Evidence: d, Logger: slog.New(slog.DiscardHandler), Take: take,
			Now:  func() time.Time { return now },
			Mask: func(b []byte) []byte { return []byte(hide.Replace(string(b))) }, MaskLog: mask.New([]byte("key")).Log,
			Audit: func(_ context.Context, r journal.Request) error {
				r.Time = time.Time{}
				records = append(records, r)
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"up", "broken", "up"} {
			at, err := g.Moment(Prometheus, map[string]any{"query": text})
			if err != nil {
				t.Fatal(err)
			}
			a, err := g.Metrics(t.Context(), Query{Text: text, Start: at.Add(-time.Hour), Asked: at})
			told = append(told, a.Text, textOf(err))
			a, err = g.Values(t.Context(), Prometheus, "pod", "", at)
			told = append(told, a.Text, textOf(err))
		}
		return told, records
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	told, records := run(source.URL, at, keep)
	source.Close()
	before := asked
	for name, list := range kept {
		for _, raw := range list {
			if strings.Contains(name+string(raw.([]byte)), "token-abc") {
				t.Errorf("a secret is kept: %s %s", name, raw)
			}
		}
	}
	again, recordsAgain := run("http://nowhere.invalid", at.Add(24*time.Hour), play)
	if !reflect.DeepEqual(told, again) || !reflect.DeepEqual(records, recordsAgain) || asked != before {
		t.Errorf("then %q\nnow  %q\n%+v\n%+v", told, again, records, recordsAgain)
	}
	if !strings.Contains(strings.Join(told, "\n"), "4711") || !strings.Contains(strings.Join(told, "\n"), "HTTP 422") {
		t.Errorf("%q", told)
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return string(nightcrier.CodeOf(err)) + ": " + err.Error()
}

func FuzzDecodeReply(f *testing.F) {
	f.Add([]byte("200 12 \n{}"))
	f.Add([]byte("503 0 unreachable\nno"))
	f.Fuzz(func(t *testing.T, kept []byte) {
		r, err := decodeReply(kept)
		if err != nil {
			return
		}
		if again, err := decodeReply(r.encode()); err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%+v\n%+v, %v", r, again, err)
		}
	})
}
