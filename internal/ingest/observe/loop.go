package observe

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/retry"
)

// loop follows the objects of one kind, in one namespace or in all.
type loop struct {
	o     *Observer
	what  detect.Watched
	kind  detect.Kind
	sel   kube.Selection
	tried func() // called when the first snapshot was taken, or failed

	version  string // where the watch goes on; "" when a snapshot is needed
	failures int    // in a row
	blind    bool   // the detector knows that the kind is not followed
}

// doubtful is how many failures in a row raise a doubt about the place where a
// watch shall go on: the next attempt takes a snapshot.
const doubtful = 8

// silence is how long a watch may stand without a word and be believed: a server
// sends a bookmark every minute.
const silence = 3 * time.Minute

func newLoop(o *Observer, w detect.Watched, tried func()) *loop {
	return &loop{o: o, what: w, kind: w.Kind, sel: selectionOf(w), tried: tried}
}

// selectionOf is what is asked of the API to see a kind.
func selectionOf(w detect.Watched) kube.Selection {
	sel := kube.Selection{APIVersion: w.APIVersion, Kind: string(w.Kind), Namespace: w.Namespace}
	if w.Kind == detect.Event {
		sel.Fields = "type=Warning"
	}
	return sel
}

func (l *loop) runLoop(ctx context.Context) {
	defer l.tried()
	for ctx.Err() == nil {
		err := l.doTurn(ctx)
		l.tried()
		if err == nil {
			continue
		}
		wait, err := l.noteFailure(ctx, err)
		if err != nil || !retry.Sleep(ctx, wait) {
			return
		}
	}
}

// doTurn does what is next: a snapshot, or a watch from where the last one ended.
func (l *loop) doTurn(ctx context.Context) error {
	if l.version == "" {
		return l.takeSnapshot(ctx)
	}
	return l.followWatch(ctx)
}

func (l *loop) takeSnapshot(ctx context.Context) error {
	leave, err := l.o.cfg.Gate.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := l.callDetector(ctx, func(d Detector) []detect.Fault { d.Begin(l.kind, l.sel.Namespace); return nil }); err != nil {
		return err
	}
	version, err := l.o.cfg.API.ListEach(ctx, l.sel, func(object []byte) error {
		return l.callDetector(ctx, func(d Detector) []detect.Fault { return d.Observe(l.kind, object) })
	})
	if err != nil {
		return err
	}
	if err := l.callDetector(ctx, func(d Detector) []detect.Fault { return d.End(l.kind, l.sel.Namespace) }); err != nil {
		return err
	}
	l.version = version
	l.o.status.markListed(l.what)
	return nil
}

// followWatch watches until the watch ends. What it has seen is not seen again.
func (l *loop) followWatch(ctx context.Context) error {
	began, heard := time.Now(), false
	half := l.o.cfg.Timings.Watch / 2
	err := l.o.cfg.API.Watch(ctx, l.sel, l.version, half+rand.N(half+1), func(c kube.Change) error {
		if err := l.passChange(ctx, c); err != nil {
			return err
		}
		heard = heard || c.Type != kube.Opened
		l.version = c.ResourceVersion
		return nil
	})
	stood := time.Since(began)
	if stood >= l.o.cfg.Timings.Stable {
		l.failures = 0
	}
	switch {
	case errors.Is(err, kube.ErrGone):
		l.version = ""
	case err == nil && !heard && stood >= silence:
		l.version = "" // so it is for a version that the server has not reached, as after a restore
	case err == nil && stood < l.o.cfg.Timings.Brief:
		return nightcrier.Errorf(nightcrier.Unreachable, "watch %s: the server ended it at once", l.sel)
	}
	return err
}

// passChange hands one change on.
func (l *loop) passChange(ctx context.Context, c kube.Change) error {
	switch c.Type {
	case kube.Opened:
		l.o.status.markWatching(l.what)
		return l.notifySight(ctx, true)
	case kube.Bookmark:
		return nil
	case kube.Deleted:
		return l.callDetector(ctx, func(d Detector) []detect.Fault { return d.Delete(l.kind, c.Object) })
	}
	return l.callDetector(ctx, func(d Detector) []detect.Fault { return d.Observe(l.kind, c.Object) })
}

func (l *loop) callDetector(ctx context.Context, call func(Detector) []detect.Fault) error {
	return l.o.feed.callDetector(ctx, call)
}

// notifySight tells the detector whether the kind is followed, when that has changed.
func (l *loop) notifySight(ctx context.Context, is bool) error {
	if l.blind == !is {
		return nil
	}
	l.blind = !is
	return l.callDetector(ctx, func(d Detector) []detect.Fault { d.Blind(l.kind, l.sel.Namespace, !is); return nil })
}

// noteFailure writes down why the kind is not followed now, and returns for how long. Its
// own error is the end of ctx.
func (l *loop) noteFailure(ctx context.Context, err error) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	l.failures++
	t := l.o.cfg.Timings
	switch {
	case isMissingKind(err) && l.isEverywhere():
		l.version = ""
		l.o.status.markDenied(l.what, err)
		return retry.Spread(t.Denied), l.notifySight(ctx, false)
	case isMissingKind(err):
		l.version = ""
		l.o.status.markDenied(l.what, err)
		return retry.Spread(t.Denied), l.callDetector(ctx, func(d Detector) []detect.Fault {
			d.Begin(l.kind, l.sel.Namespace)
			return d.End(l.kind, l.sel.Namespace)
		})
	case isDenied(err):
		l.o.status.markDenied(l.what, err)
		return retry.Spread(t.Denied), l.notifySight(ctx, false)
	case l.failures%doubtful == 0:
		l.version = ""
	}
	wait := retry.Backoff{Min: t.BackoffMin, Max: t.BackoffMax}.Wait(l.failures)
	if after := kube.RetryAfter(err); after > wait {
		wait = after + rand.N(after/2+1) // not all at once
	}
	l.o.status.markFailed(l.what, err, l.failures, time.Now().Add(wait))
	if l.failures < persistent {
		return wait, nil
	}
	return wait, l.notifySight(ctx, false)
}

// isEverywhere reports whether every cluster has the kind: that it is not found says
// then nothing about its objects, such as a proxy's answer while the API server is
// away. (Events end no fault.)
func (l *loop) isEverywhere() bool {
	switch l.what.APIVersion {
	case "v1", "apps/v1", "batch/v1":
		return l.kind != detect.Event
	}
	return false
}

// isMissingKind reports whether the cluster has no such kind, and so no such object.
func isMissingKind(err error) bool {
	return nightcrier.CodeOf(err) == nightcrier.NotFound && !errors.Is(err, kube.ErrGone)
}

// isDenied reports whether asking again soon is of no use: the kind is not for us,
// or has an object that is too large to be read.
func isDenied(err error) bool {
	switch nightcrier.CodeOf(err) {
	case nightcrier.Refused, nightcrier.Invalid, nightcrier.Exhausted:
		return true
	}
	return false
}
