package mcpserver

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
)

// Bounds of what is kept for one session, in bytes and messages: notifications
// for a stream that is away, and the last answers of calls whose stream broke.
const (
	keptBytes   = 256 << 10
	keptItems   = 1000
	keptAnswers = 4
)

// uncertain is how long what was written to a stream may not have arrived: a
// connection breaks before its server notices. A client that cannot say what it
// has seen gets that twice rather than never.
const uncertain = 10 * time.Second

// replay keeps what was sent, so that a client that comes back with the id of
// the last message it has seen gets the rest, and one that comes back without
// gets what it was not sent. It is the SDK's EventStore; unlike the SDK's own,
// one session's silence costs no other its messages.
type replay struct {
	// gap is told of a session that missed something for good.
	gap func(sessionID string)
	now func() time.Time

	mu       sync.Mutex
	sessions map[string]*kept
}

// kept is one session's streams; answers are the streams of calls, the oldest
// first.
type kept struct {
	streams map[string]*stream
	answers []string
}

// stream is the last messages of one stream: the first of items has index first,
// and those up to sent have been written.
type stream struct {
	first, sent int
	bytes       int
	items       []message
}

type message struct {
	data []byte
	at   time.Time
}

func newReplay(gap func(string), now func() time.Time) *replay {
	return &replay{gap: gap, now: now, sessions: map[string]*kept{}}
}

// Open implements the SDK's EventStore.
func (r *replay) Open(_ context.Context, sessionID, streamID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streamOf(sessionID, streamID)
	return nil
}

// streamOf finds or makes a stream. r.mu is held.
func (r *replay) streamOf(sessionID, streamID string) *stream {
	k := r.sessions[sessionID]
	if k == nil {
		k = &kept{streams: map[string]*stream{}}
		r.sessions[sessionID] = k
	}
	st := k.streams[streamID]
	if st != nil {
		return st
	}
	st = &stream{sent: -1}
	k.streams[streamID] = st
	if streamID != "" {
		k.answers = append(k.answers, streamID)
		if len(k.answers) > keptAnswers {
			delete(k.streams, k.answers[0])
			k.answers = slices.Delete(k.answers, 0, 1)
		}
	}
	return st
}

// Append implements the SDK's EventStore.
func (r *replay) Append(_ context.Context, sessionID, streamID string, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.sessions[sessionID]; k == nil || k.streams[streamID] == nil {
		return nil // the session has ended, or the answer was let go
	}
	st := r.streamOf(sessionID, streamID)
	st.items, st.bytes = append(st.items, message{data, r.now()}), st.bytes+len(data)
	for len(st.items) > 1 && (st.bytes > keptBytes || len(st.items) > keptItems) {
		st.drop()
	}
	return nil
}

// drop forgets the oldest message.
func (st *stream) drop() {
	st.bytes -= len(st.items[0].data)
	st.items[0] = message{}
	st.items, st.first = st.items[1:], st.first+1
}

// noteWritten notes that a message of the notification stream was written.
func (r *replay) noteWritten(sessionID string, index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.sessions[sessionID]; k != nil && k.streams[""] != nil {
		k.streams[""].sent = max(k.streams[""].sent, index)
	}
}

// After implements the SDK's EventStore: what was dropped is an error, never a gap.
func (r *replay) After(_ context.Context, sessionID, streamID string, index int) iter.Seq2[[]byte, error] {
	items, missed, err := r.messagesAfter(sessionID, streamID, index)
	if missed {
		r.gap(sessionID)
	}
	return func(yield func([]byte, error) bool) {
		if err != nil {
			yield(nil, err)
			return
		}
		for _, m := range items {
			if !yield(m.data, nil) {
				return
			}
		}
	}
}

// messagesAfter returns the messages behind index, and whether some are missing.
func (r *replay) messagesAfter(sessionID, streamID string, index int) (items []message, missed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.sessions[sessionID]
	if k == nil || k.streams[streamID] == nil {
		return nil, false, nightcrier.Errorf(nightcrier.NotFound, "nothing is kept of this stream")
	}
	st := k.streams[streamID]
	if streamID == "" && index < 0 {
		missed = st.restartStream(r.now().Add(-uncertain))
		return slices.Clone(st.items), missed, nil
	}
	from := index + 1 - st.first
	switch {
	case from < 0:
		return nil, true, nightcrier.Errorf(nightcrier.Exhausted, "messages behind %d were dropped", index)
	case from >= len(st.items):
		return nil, false, nil
	}
	return slices.Clone(st.items[from:]), false, nil
}

// restartStream is for a client that opens the stream anew, without saying what it has
// seen: what was written before the time is forgotten, and the rest is numbered
// from 0 again. It reports whether something was dropped that had not been
// written.
func (st *stream) restartStream(before time.Time) (missed bool) {
	missed = st.first > st.sent+1
	for len(st.items) > 0 && st.first <= st.sent && st.items[0].at.Before(before) {
		st.drop()
	}
	st.first, st.sent = 0, -1
	return missed
}

// SessionClosed implements the SDK's EventStore.
func (r *replay) SessionClosed(_ context.Context, sessionID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, sessionID)
	return nil
}
