package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// A run's timeline is read from the store and rendered once, by its feed, however many
// watch it: on the night that matters, everybody has the page open.

const (
	// keptFrames is how many of the newest frames a feed keeps. Who is further behind reads
	// the store.
	keptFrames = 512
	// pollTime is how often a feed looks without being woken: a process that wrote may be
	// another.
	pollTime = time.Second
	// writeTime bounds each write of a stream; the stream itself has no end.
	writeTime = 30 * time.Second
)

// stream sends server-sent events to one client.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func newStream(w http.ResponseWriter) *stream {
	s := &stream{w, http.NewResponseController(w)}
	_ = s.rc.SetReadDeadline(time.Time{}) // not every writer has deadlines: the one in process has none
	_ = s.rc.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	return s
}

func (s *stream) send(frame string) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.w.Write([]byte(frame)); err != nil {
		return err
	}
	return s.rc.Flush()
}

// feeds are those of the runs that somebody watches.
type feeds struct {
	mu   sync.Mutex
	open map[string]*feed
}

// feed is one run as its watchers see it.
type feed struct {
	users int // guarded by feeds.mu
	stop  func()

	mu     sync.Mutex // guards what follows
	frames []frameOf  // of the newest entries, in order
	state  string     // the newest frame of how the run stands
	ended  bool
	// changed is closed, and made anew, when any of it is.
	changed chan struct{}
}

// frameOf is one entry as it is sent.
type frameOf struct {
	seq  int64
	text string
}

// joinFeed returns the feed of a run, and begins it for the first watcher.
func (u *UI) joinFeed(run nightcrier.Run, from int64) (f *feed, leave func()) {
	u.feeds.mu.Lock()
	defer u.feeds.mu.Unlock()
	f = u.feeds.open[run.ID]
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &feed{stop: cancel, changed: make(chan struct{})}
		u.feeds.open[run.ID] = f
		go u.pump(ctx, f, run.ID, from)
	}
	f.users++
	return f, func() {
		u.feeds.mu.Lock()
		defer u.feeds.mu.Unlock()
		if f.users--; f.users == 0 {
			f.stop()
			delete(u.feeds.open, run.ID)
		}
	}
}

// pump reads what becomes of a run until nobody watches or it has ended.
func (u *UI) pump(ctx context.Context, f *feed, run string, last int64) {
	wake, stop := u.opt.Runs.WatchJournal(run)
	defer stop()
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	for {
		ended, err := u.advanceFeed(ctx, f, run, &last)
		if err != nil && ctx.Err() == nil {
			u.log.Warn("a run cannot be followed", "run", run, "error", err)
		}
		if ended {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-u.closing:
			return
		case <-wake:
		case <-poll.C:
		}
	}
}

// advanceFeed adds what is new. It reads the run's state first: whatever was written before
// the end is then among the entries read after it.
func (u *UI) advanceFeed(ctx context.Context, f *feed, id string, last *int64) (ended bool, err error) {
	v, err := u.readRun(ctx, id)
	if err != nil {
		return false, err
	}
	var fresh []frameOf
	err = journal.EachEntry(ctx, u.opt.Runs, id, *last+1, func(e nightcrier.JournalEntry) error {
		*last = e.Seq
		frame, err := u.entryFrame(e)
		if frame != "" {
			fresh = append(fresh, frameOf{e.Seq, frame})
		}
		return err
	})
	if err != nil {
		return false, err
	}
	state, err := u.frame("state", "runstate", v)
	if err != nil {
		return false, err
	}
	f.publish(fresh, state, !v.Run.Status.Open())
	return !v.Run.Status.Open(), nil
}

// publish hands on what is new, if anything is.
func (f *feed) publish(fresh []frameOf, state string, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(fresh) == 0 && state == f.state && ended == f.ended {
		return
	}
	f.frames = append(f.frames, fresh...)
	if more := len(f.frames) - keptFrames; more > 0 {
		f.frames = append([]frameOf(nil), f.frames[more:]...)
	}
	f.state, f.ended = state, ended
	close(f.changed)
	f.changed = make(chan struct{})
}

// after returns the frames behind last; missed says that some between were dropped already.
func (f *feed) after(last int64) (frames []frameOf, state string, ended, missed bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := len(f.frames)
	for at > 0 && f.frames[at-1].seq > last {
		at--
	}
	missed = at == 0 && len(f.frames) == keptFrames
	return f.frames[at:len(f.frames):len(f.frames)], f.state, f.ended, missed, f.changed
}

// entryFrame is an entry of the journal as it is sent, "" for one not worth a line.
func (u *UI) entryFrame(e nightcrier.JournalEntry) (string, error) {
	v := u.tailEntry(e)
	if v.Text == "" {
		return "", nil
	}
	frame, err := u.frame("entry", "entry", v)
	return fmt.Sprintf("id: %d\n%s", e.Seq, frame), err
}

// frame is an event whose data is a part of the page. JSON holds no line breaks, so that a
// frame cannot be forged from inside.
func (u *UI) frame(event, part string, data any) (string, error) {
	html, err := u.fragment(part, data)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(html)
	return "event: " + event + "\ndata: " + string(text) + "\n\n", err
}

// followRun sends a run's timeline, from behind the entry that the browser has last.
func (u *UI) followRun(w http.ResponseWriter, r *http.Request) error {
	run, err := u.runOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	last, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64) // 0 for none
	if id, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64); err == nil {
		last = id
	}
	f, leave := u.joinFeed(run, last)
	defer leave()
	s := newStream(w)
	if err := s.send("retry: 1000\n\n"); err != nil {
		return nil
	}
	if err := u.watchFeed(r.Context(), run.ID, f, s, last); err != nil && r.Context().Err() == nil {
		u.log.Warn("a stream broke off", "run", run.ID, "error", err)
	}
	return nil
}

// watchFeed sends what a feed has until the run ends, the client goes, or the server stops.
func (u *UI) watchFeed(ctx context.Context, run string, f *feed, s *stream, last int64) error {
	keep := time.NewTicker(u.opt.KeepAlive)
	defer keep.Stop()
	caughtUp, shown := false, ""
	for {
		frames, state, ended, missed, changed := f.after(last)
		if missed || !caughtUp { // what the feed has not, or no longer, is in the store
			if err := u.catchUp(ctx, run, s, &last); err != nil {
				return err
			}
			caughtUp = true
			continue
		}
		out := ""
		for _, fr := range frames {
			out, last = out+fr.text, fr.seq
		}
		if state != shown {
			out, shown = out+state, state
		}
		if ended {
			return s.send(out + "event: end\ndata: {}\n\n")
		}
		if out != "" {
			if err := s.send(out); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-u.closing:
			return nil
		case <-changed:
		case <-keep.C:
			if err := s.send(": keep-alive\n\n"); err != nil {
				return err
			}
		}
	}
}

// catchUp sends one client what stands in the store behind last.
func (u *UI) catchUp(ctx context.Context, run string, s *stream, last *int64) error {
	return journal.EachEntry(ctx, u.opt.Runs, run, *last+1, func(e nightcrier.JournalEntry) error {
		frame, err := u.entryFrame(e)
		if err == nil && frame != "" {
			err = s.send(frame)
		}
		*last = e.Seq
		return err
	})
}
