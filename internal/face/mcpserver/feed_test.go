package mcpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

// quiet is a feed that watches nothing, and a subscription to it.
func quiet(mode string) (*feed, *subscription) {
	f := &feed{
		cluster: Cluster{Name: "prod"}, linger: time.Hour, log: slog.New(slog.DiscardHandler), ctx: context.Background(),
		class:  func(string, string) nightcrier.Class { return "workload" },
		active: map[groupKey][]detect.Fault{},
	}
	f.faults.stop = func() {}
	return f, &subscription{id: "sub-1", mode: mode, feed: f, sess: newSession(nil, f.log)}
}

func waitingFor(t *testing.T, sub *subscription) []nightcrier.Event {
	t.Helper()
	var got []nightcrier.Event
	for {
		n, ok := sub.sess.next()
		if !ok {
			return got
		}
		ev, err := dialect.Parse(n.data)
		if err != nil {
			t.Fatalf("%v in %s", err, n.data)
		}
		got = append(got, ev)
	}
}

// The end of a fault is sent in faults mode only; who comes later is not told of
// what is over.
func TestClearedFaults(t *testing.T) {
	pod := nightcrier.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "cart-1", UID: "u"}
	fault := detect.Fault{Type: "CrashLoop", Severity: nightcrier.Critical, Resource: pod, Owner: nightcrier.Resource{Kind: "Deployment", Namespace: "shop", Name: "cart"}, OccurredAt: time.Unix(1000, 0)}
	oom, over := fault, fault
	oom.Type, over.Cleared = "OOMKilled", true
	for _, c := range []struct {
		mode    string
		want    int
		cleared bool
	}{{modeFaults, 3, true}, {modeResourceFaults, 2, false}, {modeEvents, 0, false}} {
		f, sub := quiet(c.mode)
		f.addSubscriber(sub)
		if c.mode == modeEvents {
			f.faults.subs = map[*subscription]bool{sub: true}
		}
		for _, x := range []detect.Fault{fault, oom, over} {
			f.broadcastFault(t.Context(), x)
		}
		got := waitingFor(t, sub)
		if len(got) != c.want || len(got) > 0 && got[len(got)-1].Cleared != c.cleared {
			t.Errorf("%s: %+v", c.mode, got)
		}
		late := &subscription{id: "sub-2", mode: modeFaults, feed: f, sess: newSession(nil, f.log)}
		f.addSubscriber(late)
		if got := waitingFor(t, late); len(got) != 0 || f.count != 0 {
			t.Errorf("%s: told of what is over: %+v", c.mode, got)
		}
	}
}

func TestRepeatedFaultIsOneForANewcomer(t *testing.T) {
	f, _ := quiet(modeFaults)
	for range 3 {
		pod := nightcrier.Resource{Kind: "Pod", Name: "a", Namespace: "b"}
		f.broadcastFault(t.Context(), detect.Fault{Type: "CrashLoop", Resource: pod, Owner: pod})
	}
	_, late := quiet(modeFaults)
	late.feed = f
	f.addSubscriber(late)
	if got := waitingFor(t, late); len(got) != 1 {
		t.Errorf("%d faults", len(got))
	}
}

func TestQueueIsBounded(t *testing.T) {
	_, sub := quiet(modeFaults)
	for range maxWaiting + 10 {
		sub.sess.queueNote(note{sub: sub, data: json.RawMessage(`{}`)})
	}
	if n := len(sub.sess.queue); n != maxWaiting || sub.trouble == "" {
		t.Errorf("%d wait, trouble %q", n, sub.trouble)
	}
	big := json.RawMessage(make([]byte, maxWaitingBytes/2+1))
	for range 5 {
		sub.sess.queueNote(note{sub: sub, data: big})
	}
	if sub.sess.bytes > maxWaitingBytes {
		t.Errorf("%d bytes wait", sub.sess.bytes)
	}
}
