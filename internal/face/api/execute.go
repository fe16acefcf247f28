package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// maxCall is how much may be sent to start a run: its input, and what stands around it.
const maxCall = store.MaxRunInput + 4<<10

// Call asks for a run of a pipeline, or of one skill.
type Call struct {
	Pipeline string
	// Skill is a skill with its domain, where it has one, and stands in the place of Pipeline.
	Skill string
	// Model is asked in the place of the skill's, "" for that one.
	Model string
	// Input is a JSON object of at most 1 MiB, nil for none.
	Input json.RawMessage
	// By says who asks, Priority how much it matters, and Deadline when the run must have
	// ended, from now on; 0 means as the pipeline says.
	By       string
	Priority nightcrier.Severity
	Deadline time.Duration
	// Key is the caller's own name of the call, "" for none: made twice, it starts one run.
	Key string
}

// names says that a run of that pipeline may have come of the call.
func (c *Call) names(pipeline string) bool {
	if c.Skill == "" {
		return pipeline == c.Pipeline
	}
	_, name, _ := strings.Cut(shownSkill(nightcrier.SkillPrefix+c.Skill), "/")
	return strings.HasPrefix(pipeline, nightcrier.SkillPrefix) && strings.HasSuffix(shownSkill(pipeline), "/"+name)
}

// CallBody is a Call as it is posted. Its names are those of the older platform.
type CallBody struct {
	InputData json.RawMessage `json:"input_data,omitempty" doc:"A JSON object of at most 1 MiB, which is the input of the run"`
	UserID    string          `json:"user_id,omitempty" maxLength:"256" doc:"Who asks"`
	Priority  string          `json:"priority,omitempty" enum:"info,warning,error,critical" doc:"How much it matters, beside faults that wait; warning when absent"`
	// The older platform's names; of one skill alone.
	ModelOverride string `json:"model_override,omitempty" maxLength:"200" doc:"Of one skill: the model that is asked in the place of its own"`
	DryRun        bool   `json:"dry_run,omitempty" doc:"Of one skill that is executed: nothing is run, and the answer says what would be"`
	Deadline      string `json:"deadline,omitempty" maxLength:"32" doc:"How long it may take until it has ended, with the time in the queue, such as 90m"`
}

// Execution is what a run of a pipeline came to.
type Execution struct {
	Pipeline       string         `json:"pipeline"`
	SessionID      string         `json:"session_id" doc:"The id of the run"`
	Success        bool           `json:"success"`
	Error          string         `json:"error,omitempty" doc:"Why it did not succeed"`
	Steps          []ExecutedStep `json:"steps"`
	StepsCompleted int            `json:"steps_completed" doc:"How many steps succeeded"`
	TotalSteps     int            `json:"total_steps"`
	TotalLatencyMS float64        `json:"total_latency_ms"`
	TotalCostUSD   float64        `json:"total_cost_usd"`
	URL            string         `json:"url,omitempty" doc:"The last that a step delivered under this name"`
}

// ExecutedStep is what a step came to: with its number, or with the name of its agent where it
// was done beside others.
type ExecutedStep struct {
	Step        int             `json:"step,omitempty"`
	AgentID     string          `json:"agent_id,omitempty"`
	Skill       string          `json:"skill" doc:"action: and a name where nightcrier did it"`
	Status      string          `json:"status" doc:"success, failed, timeout, cancelled, skipped, or running"`
	Success     bool            `json:"success"`
	ExecutionID string          `json:"execution_id" doc:"The run that did it"`
	LatencyMS   float64         `json:"latency_ms"`
	CostUSD     float64         `json:"cost_usd"`
	Output      json.RawMessage `json:"output,omitempty"`
	Error       string          `json:"error,omitempty"`
	Skipped     string          `json:"skipped,omitempty" doc:"Why it was not to be done"`
}

// CallOnce names a call, so that it can be made again.
type CallOnce struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"Any text of your own, such as a UUID: the same request with the same key is answered with the run that it started before. With another request it is a conflict"`
}

// CallRequest is a call as it is sent.
type CallRequest struct {
	Name string `path:"name" maxLength:"253" doc:"The pipeline's name"`
	CallOnce
	Body CallBody
}

type streamRequest struct {
	CallRequest
	LastEventID string `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that was received. Nothing is started then: the stream of that run goes on"`
}

func (a *API) executeRoutes(h huma.API) {
	huma.Register(h, callOperation(acceptedOperation("start-run", "/pipelines/{name}/runs", "Start a run, without waiting for it")), a.startRun)
	execute := callOperation(newOperation("execute-pipeline", http.MethodPost, "/pipelines/{name}/execute", "Run a pipeline to its end"))
	execute.Responses["200"] = &huma.Response{Description: "What it came to, well or not",
		Content: map[string]*huma.MediaType{"application/json": {Schema: h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Execution](), true, "Execution")}}}
	huma.Register(h, execute, a.execute)
	stream := callOperation(streamOperation("execute-pipeline-stream", "/pipelines/{name}/execute-stream", "Run a pipeline, and see it run"))
	stream.Method, stream.Responses["200"].Description = http.MethodPost, "A stream of events of the run"
	huma.Register(h, stream, a.executeStream)
}

// callOperation is one whose body may hold the input of a run.
func callOperation(op huma.Operation) huma.Operation {
	op.MaxBodyBytes = maxCall
	return op
}

func (a *API) startRun(ctx context.Context, in *CallRequest) (*body[nightcrier.Run], error) {
	run, err := a.callPipeline(ctx, in)
	if err != nil {
		return nil, err
	}
	return &body[nightcrier.Run]{run}, nil
}

// callPipeline starts a run; its error is an answer.
func (a *API) callPipeline(ctx context.Context, in *CallRequest) (nightcrier.Run, error) {
	return a.startCall(ctx, Call{Pipeline: in.Name, Key: in.Key}, in.Body)
}

// startCall starts what is asked for; its error is an answer.
func (a *API) startCall(ctx context.Context, c Call, body CallBody) (nightcrier.Run, error) {
	if a.opt.Start == nil {
		return nightcrier.Run{}, newProblem(nightcrier.Unreachable, "no server runs here, and only a server can run a pipeline; start one with `nightcrier serve`")
	}
	if c.Skill == "" && (body.ModelOverride != "" || body.DryRun) {
		return nightcrier.Run{}, newUnprocessable("model_override and dry_run are of one skill: leave them out, or execute a skill")
	}
	c.Model, c.Input, c.By, c.Priority = body.ModelOverride, body.InputData, cmp.Or(body.UserID, "api"), nightcrier.Warning
	if body.Priority != "" {
		c.Priority, _ = nightcrier.ParseSeverity(body.Priority)
	}
	if len(c.Input) > store.MaxRunInput {
		return nightcrier.Run{}, newProblem(nightcrier.Invalid, fmt.Sprintf("input_data has %d bytes; at most %d are taken: hand over where it is", len(c.Input), store.MaxRunInput))
	}
	if body.Deadline != "" {
		d, err := time.ParseDuration(body.Deadline)
		if err != nil || d <= 0 {
			return nightcrier.Run{}, newProblem(nightcrier.Invalid, a.opt.Mask(fmt.Sprintf("deadline is %q: write how long the run may take, such as 90m", body.Deadline)))
		}
		c.Deadline = d
	}
	// Who goes away meanwhile has asked all the same.
	run, err := a.opt.Start(context.WithoutCancel(ctx), c)
	if err != nil {
		return run, a.problemFor(ctx, err)
	}
	return run, nil
}

// execute answers when the run has ended. Who does not wait for that cancels nothing.
func (a *API) execute(ctx context.Context, in *CallRequest) (*huma.StreamResponse, error) {
	run, err := a.callPipeline(ctx, in)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		a.answerExecution(r, w, run.ID, func(e *Execution) any { return e })
	}}, nil
}

// answerExecution waits for the end of a run, and answers with what it came to, in the shape that
// is asked for.
func (a *API) answerExecution(r *http.Request, w http.ResponseWriter, run string, shape func(*Execution) any) {
	liftBounds(http.NewResponseController(w))
	q := newSequence(a.opt.Runs, run, func(int, string, any) error { return nil })
	err := a.followRun(r.Context(), run, q.advance, func() error { return nil })
	switch {
	case r.Context().Err() != nil:
	case err != nil:
		writeProblem(w, a.problemFor(r.Context(), err).(*Problem))
	case q.over == nil:
		writeProblem(w, newProblem(nightcrier.Interrupted, "the server stops; run "+run+" goes on when it is back, and /api/v1/executions/"+run+" tells how"))
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(shape(q.over)) // a client that is gone cannot be told
	}
}

// executeStream sends what becomes of a run, of a new one or of that which the client saw
// before. Who goes away cancels nothing.
func (a *API) executeStream(ctx context.Context, in *streamRequest) (*huma.StreamResponse, error) {
	run, seen, err := a.streamedRun(ctx, in.LastEventID, Call{Pipeline: in.Name, Key: in.Key}, in.Body)
	if err != nil {
		return nil, err
	}
	return a.streamEvents(run.ID, seen, func(_ *sequence, event string, data any) (string, any) { return event, data }), nil
}

// streamEvents sends the events of a run behind those that were seen, in the shape that is asked for; one
// of no name is left out.
func (a *API) streamEvents(run string, seen int, shape func(*sequence, string, any) (string, any)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		s := &stream{api: a, w: w, rc: http.NewResponseController(w), run: run}
		s.beginStream()
		var q *sequence
		q = newSequence(a.opt.Runs, run, func(n int, event string, data any) error {
			event, data = shape(q, event, data)
			if n <= seen || event == "" {
				return nil
			}
			raw, err := json.Marshal(data)
			if err != nil {
				return err
			}
			return s.sendFrame("id: %s/%d\nevent: %s\ndata: %s\n\n", run, n, event, raw)
		})
		err := s.sendFrame(": run %s\n\n", run)
		if err == nil {
			err = a.followRun(r.Context(), run, q.advance, s.keepAlive)
		}
		if err != nil && r.Context().Err() == nil {
			a.log.Warn("stream of a run broke off", "run", run, "error", err)
		}
	}}
}

// streamedRun is the run whose events are asked for, and how many were seen; its error is an
// answer.
func (a *API) streamedRun(ctx context.Context, last string, c Call, body CallBody) (nightcrier.Run, int, error) {
	if last == "" {
		run, err := a.startCall(ctx, c, body)
		return run, 0, err
	}
	id, number, _ := strings.Cut(last, "/")
	seen, err := strconv.Atoi(number)
	if err != nil || seen < 0 {
		return nightcrier.Run{}, 0, newProblem(nightcrier.Invalid, fmt.Sprintf("Last-Event-ID is %q: send the id of an event of such a stream, or leave it out to start a run", last))
	}
	run, err := a.readRun(ctx, id)
	if err == nil && !c.names(run.Pipeline) {
		err = newProblem(nightcrier.NotFound, "run "+id+" is one of the pipeline "+run.Pipeline)
	}
	return run, seen, err
}
