package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"nightcrier.dev/nightcrier"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Questions is where people ask about incidents.
type Questions interface {
	// AskIncident has a question answered; the answer is in the conversation once its run has ended.
	AskIncident(ctx context.Context, incidentID, question, by string) (nightcrier.Question, error)
	// Questions are those about an incident, with the answers that there are.
	Questions(ctx context.Context, incidentID string) (nightcrier.Conversation, error)
}

// NewQuestion is a question to be asked.
type NewQuestion struct {
	Question string `json:"question" doc:"What is asked, in words; at most 2000 bytes"`
	By       string `json:"by,omitempty" maxLength:"256" doc:"Who asks"`
}

type questionRequest struct {
	ID   string `path:"id" maxLength:"64" doc:"The incident's UUID"`
	Body NewQuestion
}

// The events of an answer beside iteration.
const (
	questionAsked    = "asked"
	questionAnswered = "answer"
)

func (a *API) questionRoutes(h huma.API) {
	ask := streamOperation("ask-incident", "/incidents/{id}/ask", "Ask about an incident, and see it answered")
	ask.Method, ask.Responses["200"].Description = http.MethodPost, "A stream of events, of which the last is the answer"
	ask.MaxBodyBytes = 16 << 10
	huma.Register(h, ask, a.askIncident)
	huma.Register(h, newOperation("list-questions", http.MethodGet, "/incidents/{id}/questions", "What was asked about an incident, and answered"), a.listQuestions)
}

// askIncident sends the question as it is kept, what is done to answer it, and the answer. Who goes
// away has asked all the same.
func (a *API) askIncident(ctx context.Context, in *questionRequest) (*huma.StreamResponse, error) {
	if a.opt.Questions == nil {
		return nil, newProblem(nightcrier.Unreachable, "no server runs here, and only a server can have a question answered; start one with `nightcrier serve`")
	}
	if err := nightcrier.CheckID(in.ID); err != nil {
		return nil, a.problemFor(ctx, err)
	}
	q, err := a.opt.Questions.AskIncident(context.WithoutCancel(ctx), in.ID, in.Body.Question, cmp.Or(in.Body.By, "api"))
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		if err := a.streamAnswer(r.Context(), w, in.ID, q); err != nil && r.Context().Err() == nil {
			a.log.Warn("stream of an answer broke off", "incident_id", in.ID, "run", q.RunID, "error", err)
		}
	}}, nil
}

func (a *API) streamAnswer(ctx context.Context, w http.ResponseWriter, incidentID string, q nightcrier.Question) error {
	s := &stream{api: a, w: w, rc: http.NewResponseController(w), run: q.RunID}
	s.beginStream()
	send := func(event string, data any) error {
		raw, err := json.Marshal(data)
		if err != nil {
			return err
		}
		return s.sendFrame("event: %s\ndata: %s\n\n", event, raw)
	}
	if err := send(questionAsked, q); err != nil {
		return err
	}
	seq := newSequence(a.opt.Runs, q.RunID, func(_ int, event string, data any) error {
		if event != iteration {
			return nil
		}
		return send(event, data)
	})
	if err := a.followRun(ctx, q.RunID, seq.advance, s.keepAlive); err != nil {
		return err
	}
	if seq.over == nil { // the server stops; the run goes on when it is back
		return nil
	}
	conv, err := a.opt.Questions.Questions(ctx, incidentID)
	if err != nil {
		return err
	}
	for _, answered := range conv.Questions {
		if answered.Seq == q.Seq {
			return send(questionAnswered, answered)
		}
	}
	return nil
}

func (a *API) listQuestions(ctx context.Context, in *incidentID) (*body[nightcrier.Conversation], error) {
	if _, err := a.readIncident(ctx, in.ID); err != nil {
		return nil, err
	}
	read := a.opt.Incidents.Conversation
	if a.opt.Questions != nil {
		read = a.opt.Questions.Questions
	}
	conv, err := read(ctx, in.ID)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		conv, err = nightcrier.Conversation{ID: in.ID, IncidentID: in.ID, Questions: []nightcrier.Question{}}, nil
	}
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[nightcrier.Conversation]{conv}, nil
}
