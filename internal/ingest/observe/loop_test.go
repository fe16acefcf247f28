package observe

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/retry"
	"nightcrier.dev/nightcrier/internal/test/apitest"
)

// How long a kind is left alone after each failure: a server that asks for time
// gets it, one that is down is asked less and less, what is denied is asked for
// now and then, and after many failures the place in the watch is in doubt.
func TestPauses(t *testing.T) {
	api := apitest.New(t)
	client := api.Client(t)
	failure := func(b apitest.Behaviour) error {
		api.Behave("pods", b)
		_, err := client.ListEach(t.Context(), kube.Selection{Kind: "Pod"}, func([]byte) error { return nil })
		return err
	}
	fresh := func() *loop {
		w := detect.Watched{Kind: detect.Pod, APIVersion: "v1"}
		o := New(Config{API: client, Detector: detect.New(detect.Config{Now: time.Now}), Kinds: []detect.Watched{w}, Logger: slog.New(slog.DiscardHandler)})
		l := newLoop(o, w, func() {})
		l.version = "7"
		return l
	}
	cases := map[string]struct {
		err      error
		times    int
		min, max time.Duration
		version  string
	}{
		"asked for time":      {failure(apitest.Behaviour{Status: 429, RetryAfter: "90"}), 1, 90 * time.Second, 135 * time.Second, "7"},
		"asked for an age":    {failure(apitest.Behaviour{Status: 503, RetryAfter: "99999999"}), 1, maxAsked, maxAsked + maxAsked/2, "7"},
		"down for the first":  {failure(apitest.Behaviour{Status: 500}), 1, 100 * time.Millisecond, time.Second, "7"},
		"down for long":       {failure(apitest.Behaviour{Status: 500}), 7, 100 * time.Millisecond, time.Minute, "7"},
		"down for very long":  {failure(apitest.Behaviour{Status: 500}), doubtful, 100 * time.Millisecond, time.Minute, ""},
		"forbidden":           {failure(apitest.Behaviour{Status: 403}), 1, 9 * time.Minute, 10 * time.Minute, "7"},
		"not there":           {failure(apitest.Behaviour{Status: 404}), 1, 9 * time.Minute, 10 * time.Minute, ""},
		"too old":             {failure(apitest.Behaviour{Status: 410}), 1, 100 * time.Millisecond, time.Second, "7"},
		"the list has no end": {nightcrier.Errorf(nightcrier.Exhausted, "too large"), 1, 9 * time.Minute, 10 * time.Minute, "7"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := fresh()
			var wait time.Duration
			for range tc.times {
				var err error
				if wait, err = l.noteFailure(t.Context(), tc.err); err != nil {
					t.Fatal(err)
				}
			}
			if wait < tc.min || wait > tc.max || l.version != tc.version {
				t.Errorf("after %v: wait %v, go on at %q", tc.err, wait, l.version)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fresh().noteFailure(ended, context.Canceled); err == nil {
		t.Error("a loop goes on after its end")
	}
}

// mute is an API server that has one Pod, and from which no watch hears.
type mute struct {
	lists atomic.Int64
	words []string // what a watch hears, one each
}

func (m *mute) ListEach(_ context.Context, _ kube.Selection, each func([]byte) error) (string, error) {
	m.lists.Add(1)
	return "7", each([]byte(`{"metadata":{"name":"a"}}`))
}

func (m *mute) Watch(ctx context.Context, _ kube.Selection, version string, lasting time.Duration, each func(kube.Change) error) error {
	if err := each(kube.Change{Type: kube.Opened, ResourceVersion: version}); err != nil {
		return err
	}
	if len(m.words) > 0 {
		word := m.words[0]
		m.words = m.words[1:]
		if err := each(kube.Change{Type: word, ResourceVersion: "8", Object: []byte(`{"metadata":{"name":"a"}}`)}); err != nil {
			return err
		}
	}
	if !retry.Sleep(ctx, lasting) {
		return ctx.Err()
	}
	return nil
}

func (m *mute) Ready(context.Context) (bool, string, error) { return true, "", nil }

// A watch from which nothing is heard at all, not even a bookmark, may be one for
// a version that a restored server has not reached: the kind is listed again.
func TestSilenceIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &mute{words: []string{kube.Bookmark, kube.Modified}}
		w := detect.Watched{Kind: detect.Pod, APIVersion: "v1"}
		o := New(Config{API: api, Detector: detect.New(detect.Config{Now: time.Now}), Kinds: []detect.Watched{w}, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			o.Run(ctx)
		}()
		time.Sleep(10 * time.Minute) // one watch at least, and two at most: they heard something
		synctest.Wait()
		if n := api.lists.Load(); n != 1 {
			t.Errorf("%d lists while something is heard", n)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if s := o.Status(); api.lists.Load() < 2 || s.Relists == 0 || s.State != nightcrier.SourceSubscribed {
			t.Errorf("%d lists, status %+v", api.lists.Load(), s)
		}
		cancel()
		<-done
	})
}

// maxAsked is the most that a server may ask for.
const maxAsked = 5 * time.Minute
