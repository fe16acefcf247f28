package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"nightcrier.dev/nightcrier"
)

var warnings = Selection{Kind: "Event", Fields: "type=Warning"}

// names collects the objects of a list by their first letters.
func names(into *[]string) func([]byte) error {
	return func(object []byte) error {
		*into = append(*into, string(object))
		return nil
	}
}

func TestListEachPages(t *testing.T) {
	var asked []string
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		switch r.URL.Query().Get("continue") {
		case "":
			fmt.Fprint(w, `{"kind":"EventList","metadata":{"resourceVersion":"7","continue":"c1"},"items":[{"n":1},{"n":2}]}`)
		case "c1": // fields in another order, and one that nobody knows
			fmt.Fprint(w, `{"items":[{"n":3}],"extra":{"items":[{"n":9}]},"metadata":{"resourceVersion":"7","continue":"c2"}}`)
		default:
			fmt.Fprint(w, `{"metadata":{"resourceVersion":"7"},"items":null}`)
		}
	})
	var got []string
	rv, err := c.ListEach(t.Context(), warnings, names(&got))
	if err != nil || rv != "7" || !slices.Equal(got, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}) {
		t.Errorf("list: %v, %q, %v", got, rv, err)
	}
	want := "/api/v1/events?fieldSelector=type%3DWarning&limit=500"
	if len(asked) != 3 || asked[0] != want || asked[2] != "/api/v1/events?continue=c2&fieldSelector=type%3DWarning&limit=500" {
		t.Errorf("asked %v", asked)
	}
}

func TestListEachMisbehaviour(t *testing.T) {
	expired := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("continue") {
			answer(410, `{"kind":"Status","message":"The provided continue parameter is too old","reason":"Expired","code":410}`)(w, r)
			return
		}
		fmt.Fprint(w, `{"metadata":{"resourceVersion":"7","continue":"c1"},"items":[{}]}`)
	}
	busyServer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(429)
	}
	cases := map[string]struct {
		serve http.HandlerFunc
		code  nightcrier.Code
		gone  bool
		after time.Duration
	}{
		"expired between pages": {expired, nightcrier.NotFound, true, 0},
		"too busy":              {busyServer, nightcrier.Unreachable, false, 7 * time.Second},
		"forbidden":             {answer(403, ""), nightcrier.Refused, false, 0},
		"no such kind":          {answer(404, ""), nightcrier.NotFound, false, 0},
		"a web page":            {answer(200, "<html>"), nightcrier.Unreachable, false, 0},
		"nothing":               {answer(200, ""), nightcrier.Unreachable, false, 0},
		"an array":              {answer(200, "[]"), nightcrier.Unreachable, false, 0},
		"cut short":             {answer(200, `{"metadata":{"resourceVersion":"7"},"items":[{"a":1},{"a"`), nightcrier.Unreachable, false, 0},
		"cut between objects":   {answer(200, `{"metadata":{"resourceVersion":"7"},"items":[{"a":1}`), nightcrier.Unreachable, false, 0},
		"items that are none":   {answer(200, `{"metadata":{"resourceVersion":"7"},"items":{"a":1}}`), nightcrier.Unreachable, false, 0},
		"metadata that is none": {answer(200, `{"metadata":7}`), nightcrier.Unreachable, false, 0},
		"no resourceVersion":    {answer(200, `{"items":[]}`), nightcrier.Unreachable, false, 0},
		"a list without an end": {answer(200, `{"metadata":{"resourceVersion":"7","continue":"again"},"items":[]}`), nightcrier.Unreachable, false, 0},
		"an object without end": {endless(`{"metadata":{"resourceVersion":"7"},"items":["`), nightcrier.Exhausted, false, 0},
		"metadata without end":  {endless(`{"metadata":"`), nightcrier.Exhausted, false, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := dial(t, tc.serve).ListEach(t.Context(), Selection{Kind: "Pod"}, func([]byte) error { return nil })
			if nightcrier.CodeOf(err) != tc.code || errors.Is(err, ErrGone) != tc.gone || RetryAfter(err) != tc.after {
				t.Errorf("%s, gone %t, after %v: %v", nightcrier.CodeOf(err), errors.Is(err, ErrGone), RetryAfter(err), err)
			}
			if err != nil && strings.Contains(err.Error(), token) {
				t.Errorf("the error holds the credential: %v", err)
			}
		})
	}
}

// endless answers with a text that never ends.
func endless(begin string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, begin)
		chunk := []byte(strings.Repeat("x", 1<<20))
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

func TestListEachIsBounded(t *testing.T) {
	seen := 0
	each := atMost(2, Selection{Kind: "Pod"}, func([]byte) error { seen++; return nil })
	for n := range 3 {
		if err := each(nil); (nightcrier.CodeOf(err) == nightcrier.Exhausted) != (n == 2) {
			t.Errorf("object %d: %v", n, err)
		}
	}
	if seen != 2 {
		t.Errorf("%d objects of two", seen)
	}
}

func TestListEachStops(t *testing.T) {
	enough := errors.New("enough")
	c := dial(t, answer(200, `{"metadata":{"resourceVersion":"7"},"items":[{},{}]}`))
	n := 0
	_, err := c.ListEach(t.Context(), Selection{Kind: "Pod"}, func([]byte) error { n++; return enough })
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("%d objects, %v", n, err)
	}
	if _, err := c.ListEach(t.Context(), Selection{Kind: "Secret"}, nil); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Errorf("Secrets: %v", err)
	}
	if _, err := c.ListEach(t.Context(), Selection{Kind: "../x"}, nil); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("a path: %v", err)
	}
}

// A list that pauses is given up; one that is long but flows is not.
func TestListEachStalls(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"metadata":{"resourceVersion":"7"},"items":[{}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	c, err := New(&rest.Config{Host: s.URL}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.ListEach(t.Context(), Selection{Kind: "Pod"}, func([]byte) error { return nil })
	if nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), "did not answer within") {
		t.Errorf("stalled: %v", err)
	}
}

func event(kind, rv string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"name":"a","resourceVersion":%q}}}`+"\n", kind, rv)
}

func TestWatch(t *testing.T) {
	var asked string
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		fmt.Fprint(w, event("ADDED", "8"), event("MODIFIED", "9"), event("BOOKMARK", "20"), event("DELETED", "21"))
	})
	var got []string
	err := c.Watch(t.Context(), warnings, "7", 5*time.Minute, func(ch Change) error {
		got = append(got, fmt.Sprintf("%s %s %t", ch.Type, ch.ResourceVersion, len(ch.Object) > 0))
		return nil
	})
	if want := []string{"OPENED 7 false", "ADDED 8 true", "MODIFIED 9 true", "BOOKMARK 20 false", "DELETED 21 true"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("changes %v, %v", got, err)
	}
	if want := "/api/v1/events?allowWatchBookmarks=true&fieldSelector=type%3DWarning&resourceVersion=7&timeoutSeconds=300&watch=true"; asked != want {
		t.Errorf("asked %s", asked)
	}
}

func TestWatchMisbehaviour(t *testing.T) {
	gone := `{"type":"ERROR","object":{"kind":"Status","message":"too old resource version: 1 (2)","reason":"Expired","code":410}}`
	cases := map[string]struct {
		serve   http.HandlerFunc
		code    nightcrier.Code
		gone    bool
		changes int
	}{
		"too old, said by an event":   {answer(200, event("ADDED", "8")+gone), nightcrier.NotFound, true, 1},
		"too old, said by the answer": {answer(410, ""), nightcrier.NotFound, true, 0},
		"an error of the server":      {answer(200, `{"type":"ERROR","object":{"code":500,"message":"etcd"}}`), nightcrier.Unreachable, false, 0},
		"an error of nobody":          {answer(200, `{"type":"ERROR","object":"x"}`), nightcrier.Unreachable, false, 0},
		"garbage":                     {answer(200, event("ADDED", "8")+"<html>"), nightcrier.Unreachable, false, 1},
		"an unknown type":             {answer(200, event("RENAMED", "8")), nightcrier.Unreachable, false, 0},
		"no resourceVersion":          {answer(200, event("ADDED", "")), nightcrier.Unreachable, false, 0},
		"no object":                   {answer(200, `{"type":"ADDED"}`), nightcrier.Unreachable, false, 0},
		"cut within a change":         {answer(200, event("ADDED", "8")+`{"type":"ADD`), nightcrier.Unreachable, false, 1},
		"a line without end":          {endless(`{"type":"ADDED","object":{"metadata":{"name":"`), nightcrier.Exhausted, false, 0},
		"forbidden":                   {answer(403, ""), nightcrier.Refused, false, 0},
		"ended at once":               {answer(200, ""), "", false, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := 0
			err := dial(t, tc.serve).Watch(t.Context(), Selection{Kind: "Pod"}, "7", time.Minute, func(ch Change) error {
				if ch.Type != Opened {
					n++
				}
				return nil
			})
			if nightcrier.CodeOf(err) != tc.code || errors.Is(err, ErrGone) != tc.gone || n != tc.changes {
				t.Errorf("%s, gone %t, %d changes: %v", nightcrier.CodeOf(err), errors.Is(err, ErrGone), n, err)
			}
		})
	}
}

// A quiet watch outlives the timeout of calls, and ends with its context.
func TestWatchWaits(t *testing.T) {
	const call = 500 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select { // longer than a call may take
		case <-time.After(2 * call):
		case <-r.Context().Done():
			return
		}
		fmt.Fprint(w, event("ADDED", "8"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	c, err := New(&rest.Config{Host: s.URL}, call)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Watch(ctx, Selection{Kind: "Pod"}, "7", time.Minute, func(ch Change) error {
		if ch.Type == Added {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled within the stream: %v", err)
	}
}

func FuzzStreams(f *testing.F) {
	f.Add(event("ADDED", "8") + event("BOOKMARK", "9"))
	f.Add(`{"metadata":{"resourceVersion":"7"},"items":[{},null]}`)
	f.Fuzz(func(t *testing.T, body string) {
		c := &Client{base: mustURL}
		open := func() *stream {
			ctx, cancel := context.WithCancelCause(t.Context())
			return &stream{client: c, ctx: ctx, cancel: cancel, body: readCloser{strings.NewReader(body)}, left: MaxObject}
		}
		err := open().readChanges(func(ch Change) error {
			if ch.ResourceVersion == "" || ch.Type == "" {
				t.Errorf("change %+v", ch)
			}
			return nil
		})
		meta, listErr := open().readList(func([]byte) error { return nil })
		for _, e := range []error{err, listErr} {
			if e != nil && nightcrier.CodeOf(e) == nightcrier.Internal {
				t.Errorf("an error without a code: %v", e)
			}
		}
		if listErr == nil && meta.ResourceVersion == "" {
			t.Error("a list without a resourceVersion")
		}
	})
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

var mustURL = &url.URL{Scheme: "https", Host: "api.example"}

func TestReady(t *testing.T) {
	cases := map[string]struct {
		status int
		body   string
		ready  bool
		why    string
		code   nightcrier.Code
	}{
		"ready":                {200, "ok", true, "", ""},
		"etcd":                 {500, "[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\nreadyz check failed", false, "etcd failed: reason withheld", ""},
		"in other words":       {500, "starting\x1b[2J", false, "starting", ""},
		"a proxy without peer": {502, "", false, "", nightcrier.Unreachable},
		"not for us":           {403, "", false, "", nightcrier.Refused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ready, why, err := dial(t, answer(tc.status, tc.body)).Ready(t.Context())
			if ready != tc.ready || why != tc.why || nightcrier.CodeOf(err) != tc.code {
				t.Errorf("%t, %q, %v", ready, why, err)
			}
		})
	}
	if _, _, err := client(t, "http://127.0.0.1:1").Ready(t.Context()); nightcrier.CodeOf(err) != nightcrier.Unreachable {
		t.Errorf("down: %v", err)
	}
}
