package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// writeTime bounds each write of a stream; the stream itself has no end.
const writeTime = 30 * time.Second

type journalQuery struct {
	ID  string `path:"id" maxLength:"64" doc:"The incident's UUID"`
	Run string `query:"run" maxLength:"64" doc:"A run of the incident, the newest when absent"`
	StreamPlace
}

type runJournalQuery struct {
	ID string `path:"id" maxLength:"64" doc:"The run's UUID"`
	StreamPlace
}

// StreamPlace is where a stream goes on, and where it ends.
type StreamPlace struct {
	Follow      bool  `query:"follow" default:"true" doc:"false ends the stream behind what is there now"`
	LastEventID int64 `header:"Last-Event-ID" minimum:"0" doc:"The sequence number after which to go on"`
}

func (a *API) journalRoutes(h huma.API) {
	huma.Register(h, streamOperation("stream-incident-journal", "/incidents/{id}/journal", "The journal of an investigation, live"), a.streamIncident)
}

func streamOperation(id, path, summary string) huma.Operation {
	op := newOperation(id, http.MethodGet, path, summary)
	op.Responses["200"] = &huma.Response{Description: "A stream of journal entries",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	return op
}

func (a *API) streamIncident(ctx context.Context, in *journalQuery) (*huma.StreamResponse, error) {
	run, err := a.runOf(ctx, in)
	if err != nil {
		return nil, err
	}
	return a.streamJournal(run, in.StreamPlace), nil
}

func (a *API) streamRun(ctx context.Context, in *runJournalQuery) (*huma.StreamResponse, error) {
	run, err := a.readRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return a.streamJournal(run, in.StreamPlace), nil
}

func (a *API) streamJournal(run nightcrier.Run, from StreamPlace) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		s := &stream{api: a, w: w, rc: http.NewResponseController(w), run: run.ID, last: from.LastEventID, follow: from.Follow}
		if err := s.serveStream(r.Context()); err != nil && r.Context().Err() == nil {
			a.log.Warn("journal stream broke off", "run", run.ID, "error", err)
		}
	}}
}

// runOf finds the run to stream; its error is an answer.
func (a *API) runOf(ctx context.Context, in *journalQuery) (nightcrier.Run, error) {
	inc, err := a.readIncident(ctx, in.ID)
	if err != nil {
		return nightcrier.Run{}, err
	}
	id := in.Run
	id = cmp.Or(id, inc.RunID)
	if id == "" {
		return nightcrier.Run{}, newProblem(nightcrier.NotFound, "incident "+inc.ID+" has no run yet")
	}
	run, err := a.opt.Runs.Run(ctx, id)
	if err != nil {
		return nightcrier.Run{}, a.problemFor(ctx, err)
	}
	if run.IncidentID() != inc.ID {
		return nightcrier.Run{}, newProblem(nightcrier.NotFound, "incident "+inc.ID+" has no run "+id)
	}
	return run, nil
}

// stream sends one run's journal to one client. It reads from the store at the
// client's pace, so a slow reader holds up nobody and misses nothing.
type stream struct {
	api    *API
	w      http.ResponseWriter
	rc     *http.ResponseController
	run    string
	last   int64 // newest sequence number sent
	follow bool
}

func (s *stream) serveStream(ctx context.Context) error {
	s.beginStream()
	if err := s.sendFrame(": %s\n\n", s.run); err != nil {
		return err
	}
	return s.api.followRun(ctx, s.run, s.advanceStream, s.keepAlive)
}

// beginStream lifts the bounds that an answer has in all, and says what follows.
func (s *stream) beginStream() {
	liftBounds(s.rc)
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-store")
}

// liftBounds lets an answer take as long as it takes. Not every writer has deadlines: the one
// in process has none.
func liftBounds(rc *http.ResponseController) {
	_ = rc.SetReadDeadline(time.Time{}) // else who still listens would seem to be gone
	_ = rc.SetWriteDeadline(time.Time{})
}

func (s *stream) keepAlive() error { return s.sendFrame(": keep-alive\n\n") }

// followRun calls advance whenever something has become of a run, until that says that it is
// done, the client has gone, or the server stops; silent is called now and then meanwhile.
func (a *API) followRun(ctx context.Context, run string, advance func(context.Context) (done bool, err error), silent func() error) error {
	wake, stop := a.opt.Runs.WatchJournal(run)
	defer stop()
	keepAlive, poll := time.NewTicker(a.opt.KeepAlive), time.NewTicker(a.opt.Poll)
	defer keepAlive.Stop()
	defer poll.Stop()
	for {
		if done, err := advance(ctx); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.closing:
			return nil
		case <-wake:
		case <-poll.C:
		case <-keepAlive.C:
			if err := silent(); err != nil {
				return err
			}
		}
	}
}

// advanceStream sends what is new. It reads the run's state first: whatever was
// written before the end is then among the entries read after it.
func (s *stream) advanceStream(ctx context.Context) (done bool, err error) {
	run, err := s.api.opt.Runs.Run(ctx, s.run)
	if err != nil {
		return false, err
	}
	if err := s.sendNew(ctx); err != nil {
		return false, err
	}
	ended := run.Status == nightcrier.Finished || run.Status == nightcrier.Dropped
	if !ended {
		return !s.follow, nil
	}
	data, err := json.Marshal(run)
	if err != nil {
		return false, err
	}
	return true, s.sendFrame("event: end\ndata: %s\n\n", data)
}

func (s *stream) sendNew(ctx context.Context) error {
	return journal.EachEntry(ctx, s.api.opt.Runs, s.run, s.last+1, func(e nightcrier.JournalEntry) error {
		data, err := json.Marshal(e)
		if err == nil {
			err = s.sendFrame("id: %d\ndata: %s\n\n", e.Seq, data)
		}
		if err == nil {
			s.last = e.Seq
		}
		return err
	})
}

// sendFrame writes one frame and flushes it. JSON holds no line breaks, so a frame
// cannot be forged from inside.
func (s *stream) sendFrame(format string, args ...any) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return err
	}
	return s.rc.Flush()
}
