package mcpserver

//lint:file-ignore SA1019 Log messages are how faults are pushed to the clients in the field.

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"

	corev1 "k8s.io/api/core/v1"
)

// Bounds of what waits to be sent to one session.
const (
	maxWaiting      = 1000
	maxWaitingBytes = 256 << 10
)

// maxMatched bounds the labels that one subscription remembers.
const maxMatched = 2000

// labelTime bounds the read of an object's labels.
const labelTime = 5 * time.Second

// session is what we keep of an MCP session that asked for events: what it has
// subscribed to, and what waits to be sent. One goroutine sends; whoever has
// something to say only leaves it in the queue.
type session struct {
	ss  *sdk.ServerSession
	log *slog.Logger

	wake   chan struct{} // of 1
	levels chan struct{} // closed when the client has set a log level
	level  sync.Once

	mu    sync.Mutex
	subs  []*subscription
	queue []note
	bytes int
}

// note is a notification that waits.
type note struct {
	sub    *subscription
	logger string
	level  sdk.LoggingLevel
	data   json.RawMessage
	about  nightcrier.Resource // whose labels decide, when the subscription asks for some
}

// subscription is what one session wants of one cluster.
type subscription struct {
	id, mode string
	feed     *feed
	sess     *session
	filters  filters
	since    time.Time

	mu      sync.Mutex
	ended   bool
	trouble string          // why it is degraded
	matched map[string]bool // by object: do its labels fit
}

func newSession(ss *sdk.ServerSession, log *slog.Logger) *session {
	return &session{ss: ss, log: log, wake: make(chan struct{}, 1), levels: make(chan struct{})}
}

func (s *session) levelSet() { s.level.Do(func() { close(s.levels) }) }

// allSubscriptions returns the subscriptions, the oldest first.
func (s *session) allSubscriptions() []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.subs)
}

// findSubscription returns the subscription with the id, nil when this session has none.
func (s *session) findSubscription(id string) *subscription {
	for _, sub := range s.allSubscriptions() {
		if sub.id == id {
			return sub
		}
	}
	return nil
}

// queueNote queues a notification. When there is no room the oldest goes, and the
// subscription it was for says that it is incomplete.
func (s *session) queueNote(n note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, n)
	s.bytes += len(n.data)
	for len(s.queue) > maxWaiting || s.bytes > maxWaitingBytes {
		old := s.queue[0]
		s.queue[0] = note{}
		s.queue, s.bytes = s.queue[1:], s.bytes-len(old.data)
		old.sub.markDegraded("notifications were dropped because the client did not take them; subscribe again for what is broken now")
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *session) next() (note, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return note{}, false
	}
	n := s.queue[0]
	s.queue[0] = note{}
	s.queue, s.bytes = s.queue[1:], s.bytes-len(n.data)
	return n, true
}

// sendQueued delivers what is queued until ctx ends. Until the client has set a log
// level the protocol drops everything, so nothing is sent before.
func (s *session) sendQueued(ctx context.Context) {
	select {
	case <-s.levels:
	case <-ctx.Done():
		return
	}
	for {
		n, ok := s.next()
		if !ok {
			select {
			case <-s.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if n.sub.wantsObject(ctx, n.about) {
			s.deliverNote(ctx, n)
		}
	}
}

func (s *session) deliverNote(ctx context.Context, n note) {
	err := s.ss.Log(ctx, &sdk.LoggingMessageParams{Logger: n.logger, Level: n.level, Data: n.data})
	if err != nil && ctx.Err() == nil {
		n.sub.markDegraded("a notification could not be delivered; subscribe again for what is broken now")
		s.log.Warn("a notification was not delivered", "event", "mcp_undelivered", "subscription", n.sub.id, "error", err)
	}
}

// offerFault queues a fault if the subscription wants it.
func (sub *subscription) offerFault(f detect.Fault) {
	if sub.mode == modeEvents || f.Cleared && sub.mode != modeFaults || !sub.filters.selectsFault(f) {
		return
	}
	data, err := faultData(f, sub.mode, sub.feed.clusterName(), sub.id)
	if err != nil {
		sub.sess.log.Error("a fault cannot be written", "event", "mcp_encode", "error", err)
		return
	}
	about := f.Owner
	if about.IsZero() {
		about = f.Resource
	}
	sub.sess.queueNote(note{sub: sub, logger: loggerPrefix + sub.mode, level: levelFaults, data: sub.feed.maskData(data), about: about})
}

// offerEvent queues a Kubernetes event if the subscription wants it.
func (sub *subscription) offerEvent(e *corev1.Event) {
	if sub.mode != modeEvents || !sub.filters.selectsEvent(e) {
		return
	}
	data, err := eventData(e, sub.feed.clusterName(), sub.id)
	if err != nil {
		sub.sess.log.Error("an event cannot be written", "event", "mcp_encode", "error", err)
		return
	}
	sub.sess.queueNote(note{sub: sub, logger: loggerPrefix + modeEvents, level: levelEvents, data: sub.feed.maskData(data), about: involvedResource(e)})
}

// offerError tells the subscriber that its cluster is not watched any more.
func (sub *subscription) offerError(text string) {
	data, err := json.Marshal(errorNote{SubscriptionID: sub.id, Cluster: sub.feed.clusterName(), Error: text, Degraded: true})
	if err != nil {
		return // strings always marshal
	}
	sub.sess.queueNote(note{sub: sub, logger: loggerError, level: levelFaults, data: data})
}

func (sub *subscription) markDegraded(why string) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.trouble = why
}

// degradedReason says why the subscription misses something, "" when it does not.
func (sub *subscription) degradedReason() string {
	sub.mu.Lock()
	why := sub.trouble
	sub.mu.Unlock()
	if why == "" {
		why = sub.feed.outageReason(sub.mode)
	}
	return why
}

func (sub *subscription) markEnded() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.ended = true
}

// wantsObject asks for the labels of an object where the subscription selects by them.
// What is known of an object stands for its later notifications too, so that the
// end of a fault goes where its beginning went; an object whose labels cannot
// be read is not kept from anybody.
func (sub *subscription) wantsObject(ctx context.Context, about nightcrier.Resource) bool {
	sub.mu.Lock()
	ended := sub.ended
	fits, known := sub.matched[about.String()]
	sub.mu.Unlock()
	if ended || known || sub.filters.selector == nil || about.IsZero() {
		return !ended && (fits || !known)
	}
	ctx, cancel := context.WithTimeout(ctx, labelTime)
	defer cancel()
	set, err := sub.feed.labelsOf(ctx, about)
	if err != nil {
		return true
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.matched == nil || len(sub.matched) >= maxMatched {
		sub.matched = map[string]bool{}
	}
	fits = sub.filters.selector.Matches(set)
	sub.matched[about.String()] = fits
	return fits
}
