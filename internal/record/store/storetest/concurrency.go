package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

const (
	stormEvents   = 900
	stormClusters = 300
	stormSenders  = 16
	admitters     = 8
)

// newDeliveries makes 900 events of 300 clusters, three a cluster; of ten, three are
// delivered twice.
func newDeliveries(b *bench) (list []nightcrier.Event, distinct int) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range stormEvents * 7 / 10 {
		list = append(list, b.newEvent(fmt.Sprintf("c%d", i%stormClusters), fmt.Sprintf("w%d", i%2), nightcrier.Severity(i%4)))
	}
	distinct = len(list)
	for i := range stormEvents - distinct {
		list = append(list, list[i])
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list, distinct
}

// concurrentAccept: nothing is lost and nothing doubled when many senders
// deliver at once.
func concurrentAccept(t *testing.T, b *bench) {
	list, distinct := newDeliveries(b)
	var mu sync.Mutex
	opened, repeated := map[string]string{}, 0
	g, ctx := errgroup.WithContext(t.Context())
	for sender := range stormSenders {
		g.Go(func() error {
			for i := sender; i < len(list); i += stormSenders {
				d, err := b.Accept(ctx, list[i], Policy())
				if err != nil {
					return err
				}
				mu.Lock()
				if d.Repeated {
					repeated++
				} else if d.NewIncident {
					if opened[list[i].Fingerprint] != "" {
						err = fmt.Errorf("%s was opened twice", list[i].Fingerprint)
					}
					opened[list[i].Fingerprint] = d.Incident.ID
				}
				mu.Unlock()
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if repeated != len(list)-distinct {
		t.Errorf("%d deliveries were repeats, want %d", repeated, len(list)-distinct)
	}
	n := b.readCounts(t)
	if got := n.Events[nightcrier.Opened] + n.Events[nightcrier.Joined]; got != distinct || n.Incidents[nightcrier.Pending] != len(opened) || n.Queued != len(opened) {
		t.Errorf("%d events and %d incidents are stored, want %d and %d (%+v)", got, n.Incidents[nightcrier.Pending], distinct, len(opened), n)
	}
	if err := Invariants(t.Context(), b.Store); err != nil {
		t.Error(err)
	}
}

// concurrentAdmit: eight callers that admit and finish never overlap on a
// cluster, never go over the limit, and leave nothing behind.
func concurrentAdmit(t *testing.T, b *bench) {
	const clusters, perCluster = 20, 4
	for i := range clusters * perCluster {
		b.acceptEvent(t, b.newEvent(fmt.Sprintf("c%d", i%clusters), fmt.Sprintf("w%d", i), nightcrier.Severity(i%4)), Policy())
	}
	going := &holds{keys: map[string]bool{}, most: 5}
	g, ctx := errgroup.WithContext(t.Context())
	for range admitters {
		g.Go(func() error { return admitAndFinish(ctx, b, going) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if going.done != clusters*perCluster {
		t.Errorf("%d runs were worked on, want %d", going.done, clusters*perCluster)
	}
	if err := Invariants(t.Context(), b.Store); err != nil {
		t.Error(err)
	}
}

// holds are the leases as the workers see them.
type holds struct {
	mu   sync.Mutex
	keys map[string]bool
	most int
	done int
}

func (h *holds) takeLease(key string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys[key] || len(h.keys) >= h.most {
		return fmt.Errorf("cluster %s got a lease while %v hold one", key, h.keys)
	}
	h.keys[key] = true
	return nil
}

func (h *holds) releaseLease(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.keys, key)
	h.done++
}

// admitAndFinish works until the queue is empty.
func admitAndFinish(ctx context.Context, b *bench, going *holds) error {
	for {
		run, err := b.AdmitNext(ctx, store.Limits{Total: going.most, PerKey: 1})
		if err != nil {
			return err
		}
		if run == nil {
			n, err := b.Counts(ctx)
			if err != nil || n.Queued == 0 {
				return err
			}
			continue // the others hold all that is allowed
		}
		if err := going.takeLease(run.Key); err != nil {
			return err
		}
		_, err = b.BeginRun(ctx, run.ID)
		_, journalErr := b.AppendJournal(ctx, run.ID, newEntry("a"))
		going.releaseLease(run.Key) // before the store does it: the other way round would be a race of the test
		err = errors.Join(err, journalErr, b.FinishRun(ctx, store.Finish{RunID: run.ID, Status: nightcrier.Resolved}))
		if err != nil {
			return err
		}
	}
}

// concurrentFollow: a follower that subscribes, reads and waits sees every entry.
func concurrentFollow(t *testing.T, b *bench) {
	const entries = 100
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for i := range entries {
			if _, err := b.AppendJournal(ctx, "r", newEntry(fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	})
	woken, stop := b.WatchJournal("r")
	defer stop()
	g.Go(func() error {
		for seen := int64(0); ; {
			list, err := b.Journal(ctx, "r", seen+1, 7)
			if err != nil {
				return err
			}
			for _, e := range list {
				if seen++; e.Seq != seen {
					return fmt.Errorf("entry %d came after %d", e.Seq, seen-1)
				}
			}
			if seen == entries {
				return nil
			}
			if len(list) > 0 {
				continue
			}
			select {
			case <-woken:
			case <-ctx.Done():
				return fmt.Errorf("no wake-up after entry %d: %w", seen, ctx.Err())
			}
		}
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
