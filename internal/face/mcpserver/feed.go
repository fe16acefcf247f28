package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/observe"
	"nightcrier.dev/nightcrier/internal/retry"
)

// API is how a cluster is watched; *kube.Client is one.
type API interface {
	observe.API
	// List returns a List as JSON; of events it tells where a watch begins.
	List(ctx context.Context, kind, ns, labelSel, fieldSel string, limit int) ([]byte, error)
}

// maxActive bounds the faults that a newcomer is told of.
const maxActive = 5000

// groupKey is what one end of a fault stands for.
type groupKey struct {
	owner string
	class nightcrier.Class
}

// feed shares one watch of a cluster among all who subscribed to it. It watches
// while there is somebody to tell, and a while longer.
type feed struct {
	cluster  Cluster
	class    func(faultType, ownerKind string) nightcrier.Class
	names    func(nightcrier.Resource) nightcrier.Resource
	linger   time.Duration
	every    time.Duration // looks at how the watch is
	patience float64
	log      *slog.Logger
	now      func() time.Time
	ctx      context.Context // of the server
	running  *sync.WaitGroup

	mu     sync.Mutex
	faults watching
	events watching
	active map[groupKey][]detect.Fault
	count  int // of active
	over   bool
}

// watching is one watch and those it is for.
type watching struct {
	subs    map[*subscription]bool
	joining int                // that have asked whether it works
	stop    context.CancelFunc // nil while it does not run
	idle    *time.Timer        // stops it
	look    func() (down string, settled <-chan struct{})
}

func (f *feed) clusterName() string { return f.cluster.Name }

func (f *feed) labelsOf(ctx context.Context, res nightcrier.Resource) (labels.Set, error) {
	return f.cluster.Tools.Labels(ctx, res)
}

// maskData takes the secrets out of a notification: what a container or an event
// says may hold some.
func (f *feed) maskData(data json.RawMessage) json.RawMessage {
	if f.cluster.Mask == nil {
		return data
	}
	return f.cluster.Mask(data)
}

func (f *feed) watchingOf(mode string) *watching {
	if mode == modeEvents {
		return &f.events
	}
	return &f.faults
}

// startWatching sees to it that what the mode needs is watched, and returns when that is
// known to work, or not, or after a while: the API server may be silent. Without
// an error addSubscriber must follow.
func (f *feed) startWatching(ctx context.Context, mode string) error {
	f.mu.Lock()
	w := f.watchingOf(mode)
	if f.over {
		f.mu.Unlock()
		return nightcrier.Errorf(nightcrier.Interrupted, "the server is stopping")
	}
	if w.stop == nil {
		f.launchWatch(w, mode)
	}
	w.joining++
	look := w.look
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, f.every)
	defer cancel()
	for {
		down, settled := look()
		if down != "" {
			f.cancelJoin(mode)
			return nightcrier.Errorf(nightcrier.Unreachable, "cluster %s cannot be watched: %s", f.clusterName(), down)
		}
		select {
		case <-settled:
			return nil
		case <-ctx.Done():
			return nil // not known yet
		case <-time.After(f.every / 50):
		}
	}
}

// launchWatch begins a watch. f.mu is held.
func (f *feed) launchWatch(w *watching, mode string) {
	ctx, stop := context.WithCancel(f.ctx)
	w.stop = stop
	if mode == modeEvents {
		f.watchEvents(ctx, w)
		return
	}
	f.active, f.count = map[groupKey][]detect.Fault{}, 0
	o := observe.New(observe.Config{
		API: f.cluster.API,
		Detector: detect.New(detect.Config{Now: f.now, Class: f.class, OwnerByName: f.names, Patience: f.patience,
			Mask: func(said string) string { return string(f.maskData([]byte(said))) }}), // before it is cut: half a secret looks like none
		Sink: func(_ context.Context, x detect.Fault) error {
			f.broadcastFault(ctx, x)
			return nil
		},
		Logger: f.log.With("cluster", f.clusterName()),
	})
	w.look = func() (string, <-chan struct{}) {
		s := o.Status()
		if s.State == nightcrier.SourceDown {
			return cmp.Or(s.LastError, "no answer"), o.Synced()
		}
		return "", o.Synced()
	}
	f.running.Go(func() { o.Run(ctx) })
	f.running.Go(func() { f.reportOutages(ctx, w) })
}

func (w *watching) unused() bool { return len(w.subs) == 0 && w.joining == 0 && w.stop != nil }

// cancelJoin is for who does not join after all.
func (f *feed) cancelJoin(mode string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.watchingOf(mode)
	w.joining--
	f.scheduleStop(w)
}

// scheduleStop has a watch stop when nobody needs it for a while. f.mu is held.
func (f *feed) scheduleStop(w *watching) {
	if w.idle != nil {
		w.idle.Stop()
	}
	w.idle = nil
	if w.unused() {
		w.idle = time.AfterFunc(f.linger, func() { f.stopIdle(w) })
	}
}

func (f *feed) stopIdle(w *watching) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.unused() {
		w.stop()
		w.stop = nil
	}
}

// addSubscriber tells a subscription what is broken already, and from then on what changes.
func (f *feed) addSubscriber(sub *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.watchingOf(sub.mode)
	w.joining--
	if f.over {
		return
	}
	if w.subs == nil {
		w.subs = map[*subscription]bool{}
	}
	w.subs[sub] = true
	f.scheduleStop(w)
	if sub.mode == modeEvents {
		return
	}
	for _, group := range f.active {
		for _, x := range group {
			sub.offerFault(x)
		}
	}
}

func (f *feed) removeSubscriber(sub *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.watchingOf(sub.mode)
	delete(w.subs, sub)
	f.scheduleStop(w)
}

// close stops the watches.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	for _, w := range []*watching{&f.faults, &f.events} {
		if w.idle != nil {
			w.idle.Stop()
		}
		if w.stop != nil {
			w.stop()
			w.stop = nil
		}
	}
}

// broadcastFault hands one edge of the watch that lives as long as ctx to everybody.
func (f *feed) broadcastFault(ctx context.Context, x detect.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	f.rememberFault(x)
	for sub := range f.faults.subs {
		sub.offerFault(x)
	}
}

// rememberFault keeps what a newcomer is to be told.
func (f *feed) rememberFault(x detect.Fault) {
	key := groupKey{x.Owner.String(), f.class(x.Type, x.Owner.Kind)}
	if x.Cleared {
		f.count -= len(f.active[key])
		delete(f.active, key)
		return
	}
	id := x.ID(f.clusterName())
	for i, old := range f.active[key] {
		if old.ID(f.clusterName()) == id {
			f.active[key][i] = x
			return
		}
	}
	if f.count >= maxActive {
		f.log.Warn("too many faults are active to tell newcomers of all", "event", "mcp_snapshot_full", "cluster", f.clusterName(), "limit", maxActive)
		return
	}
	f.active[key] = append(f.active[key], x)
	f.count++
}

// reportOutages tells the subscribers once when the cluster is not watched any more.
func (f *feed) reportOutages(ctx context.Context, w *watching) {
	told := false
	for retry.Sleep(ctx, f.every) {
		f.mu.Lock()
		down, _ := w.look()
		if down != "" && !told && ctx.Err() == nil {
			for sub := range w.subs {
				sub.offerError(down)
			}
		}
		told = down != ""
		f.mu.Unlock()
	}
}

// outageReason says why the cluster is not watched, "" when it is.
func (f *feed) outageReason(mode string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.watchingOf(mode)
	if w.stop == nil || w.look == nil {
		return ""
	}
	why, _ := w.look()
	return why
}
