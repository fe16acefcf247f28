package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// played is a server whose runs are played, a beat at a time.
type played struct {
	*testing.T
	store  *store.Store
	api    *API
	server *httptest.Server
	run    nightcrier.Run
	// begun has each run that was started.
	begun chan nightcrier.Run
	keys  int
}

func newPlayed(t *testing.T) *played {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), store.FileName), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	p := &played{T: t, store: s, begun: make(chan nightcrier.Run, 9)}
	p.api = newFake().api(t, func(o *Options) { o.Runs, o.Start, o.Poll, o.Mask = s, p.start, time.Hour, hideWord })
	p.server = httptest.NewServer(p.api)
	t.Cleanup(func() {
		p.api.EndStreams()
		p.server.Close()
		p.must(s.Close())
	})
	return p
}

func (p *played) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *played) start(ctx context.Context, c Call) (nightcrier.Run, error) {
	if c.Pipeline != "build" {
		return nightcrier.Run{}, nightcrier.Errorf(nightcrier.NotFound, "Pipeline not found: %s (looked in x)", c.Pipeline)
	}
	e, err := p.store.EnqueueRun(ctx, store.NewRun{Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}, Pipeline: c.Pipeline, Input: c.Input, TriggeredBy: c.By, Severity: c.Priority})
	if err == nil {
		p.begun <- e.Run
	}
	return e.Run, err
}

// post asks for something in the background; what comes of it is read from the answer.
func (p *played) post(action, body, last string) *http.Response {
	p.Helper()
	return p.postAt("pipelines/build/"+action, body, last)
}

func (p *played) postAt(at, body, last string) *http.Response {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.server.URL+path(at), strings.NewReader(body))
	p.must(err)
	req.Header.Set("Content-Type", "application/json")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	p.must(err)
	p.Cleanup(func() { _ = resp.Body.Close() }) // it may be closed already
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		p.Fatalf("%s: %s", resp.Status, said)
	}
	return resp
}

// told is an event of a stream.
type told struct{ id, event, data string }

func (e told) String() string { return e.id + " " + e.event + " " + e.data }

// next reads the next event of a stream; false at its end.
func next(lines *bufio.Scanner) (e told, more bool) {
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.event = value
		case "data":
			e.data = value
		case "":
			if e.event != "" {
				return e, true
			}
		}
	}
	return e, false
}

func events(body io.Reader) (all []told) {
	lines := bufio.NewScanner(body)
	for {
		e, more := next(lines)
		if !more {
			return all
		}
		all = append(all, e)
	}
}

// hideWord is a masker that knows one secret.
func hideWord(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }

// The beats of a run, as the interpreter makes them.

func (p *played) step(s nightcrier.Step) {
	p.Helper()
	s.RunID, s.Attempt, s.Executor = p.run.ID, max(s.Attempt, 1), "llm"
	s.StartedAt = start
	if s.State.Terminal() {
		s.EndedAt = start.Add(1500 * time.Millisecond)
	}
	p.must(p.store.SaveSteps(p.Context(), s))
}

func (p *played) say(step string, it journal.Item) {
	p.Helper()
	data, err := it.JSON()
	p.must(err)
	p.keys++
	_, err = p.store.AppendJournal(p.Context(), p.run.ID, nightcrier.JournalEntry{Type: it.Type, Step: step, Time: start, Key: fmt.Sprint(p.keys), Data: data})
	p.must(err)
}

func (p *played) calls(step, tool string) {
	p.Helper()
	p.say(step, journal.OfToolCall(journal.ToolCall{Tool: tool, Command: "ls"}))
}

const (
	atWork  = nightcrier.StateRunning
	success = nightcrier.StateSuccess
	failed  = nightcrier.StateFailed
)

// play plays a run: a step, one that is tried again, one that is skipped, two beside each other
// of which one fails before it began, and one that has to be asked again.
func (p *played) play() []func() {
	log := journal.OfLog(journal.Log{Text: "at work"})
	both := []string{"left", "right"}
	return []func(){
		func() {
			_, err := p.store.AdmitNext(p.Context(), store.Limits{Total: 9, PerKey: 9})
			p.must(err)
		},
		func() { p.say("first", journal.OfState(journal.State{To: nightcrier.StateCreated})) },
		func() { p.step(nightcrier.Step{ID: "first", Uses: "x/first", State: atWork}) },
		func() { p.say("first", log) },
		func() { p.calls("first", "Bash") },
		func() {
			p.step(nightcrier.Step{ID: "first", Uses: "x/first", State: success, Output: []byte(`{"url":"http://shop"}`), Usage: nightcrier.Usage{CostUSD: 0.5}})
		},
		func() { p.step(nightcrier.Step{ID: "again", Uses: "x/again", State: atWork}) },
		func() { p.say("again", log) },
		func() { p.step(nightcrier.Step{ID: "again", Uses: "x/again", State: failed, FailureReason: "no luck"}) },
		func() { p.step(nightcrier.Step{ID: "again", Uses: "x/again", Attempt: 2, State: atWork}) },
		func() { p.calls("again~2", "Read") },
		func() { p.calls("repair", "Write") },
		func() { p.step(nightcrier.Step{ID: "again", Uses: "x/again", Attempt: 2, State: success}) },
		func() {
			p.step(nightcrier.Step{ID: "maybe", Uses: "x/maybe", State: nightcrier.StateCreated, Skipped: "not now"})
		},
		func() {
			p.step(nightcrier.Step{ID: "right", Phase: "look", Beside: both, Uses: "x/right", State: atWork})
		},
		func() { p.say("right", log) },
		func() {
			p.step(nightcrier.Step{ID: "left", Phase: "look", Beside: both, Uses: "x/left", State: atWork})
		},
		func() { p.calls("left", "Grep") },
		func() { p.calls("right", "Grep") },
		func() {
			p.step(nightcrier.Step{ID: "left", Phase: "look", Beside: both, Uses: "x/left", State: success})
		},
		func() {
			p.step(nightcrier.Step{ID: "right", Phase: "look", Beside: both, Uses: "x/right", State: failed, FailureReason: "lost"})
		},
		func() { p.step(nightcrier.Step{ID: "act", Phase: "act", Uses: "action:notify", State: atWork}) },
		func() { p.say("act", log) },
		func() {
			p.step(nightcrier.Step{ID: "act", Phase: "act", Uses: "action:notify", State: failed, FailureReason: "nobody there"})
		},
		func() {
			p.must(p.store.FinishRun(p.Context(), store.Finish{RunID: p.run.ID, Outcome: failed, FailureReason: "the step act failed", CostUSD: 0.75}))
		},
	}
}

// One run is the same sequence to who waits for its end, who sees it live, who comes back at any
// event, who asks when it is over, and who reads its journal.
func TestOneRunIsOneSequence(t *testing.T) {
	p := newPlayed(t)
	live := p.post("execute-stream", `{"input_data":{"app":"shop"},"user_id":"ann"}`, "")
	p.run = <-p.begun
	seen := make(chan []told, 1)
	go func() { seen <- events(live.Body) }()
	var broken []told // is cut off at each beat, and comes back
	for _, beat := range p.play() {
		beat()
		last := ""
		if len(broken) > 0 {
			last = broken[len(broken)-1].id
		}
		broken = append(broken, p.whatIsThere(last)...)
	}
	all := <-seen
	if got := len(p.begun); got != 0 {
		t.Errorf("%d more runs were started", got)
	}
	want := []string{
		`step_started {"skill":"x/first","status":"running","step":1}`,
		`iteration {"step":1,"iteration":1,"tool_name":"Bash","tool_input":{"command":"ls"},"tool_output":"","timestamp":"2026-05-01T10:00:00Z"}`,
		`step_completed {"step":1,"skill":"x/first","success":true,"execution_id":"RUN","latency_ms":1500,"cost_usd":0.5,"artifacts_dir":"","deployed":true,"port":null,"url":"http://shop"}`,
		`step_started {"skill":"x/again","status":"running","step":2}`,
		`iteration {"step":2,"iteration":1,"tool_name":"Read","tool_input":{"command":"ls"},"tool_output":"","timestamp":"2026-05-01T10:00:00Z"}`,
		`iteration {"step":1,"iteration":2,"tool_name":"Write","tool_input":{"command":"ls"},"tool_output":"","timestamp":"2026-05-01T10:00:00Z"}`,
		`step_completed {"step":2,"skill":"x/again","success":true,"execution_id":"RUN","latency_ms":1500,"cost_usd":0,"artifacts_dir":"","deployed":false,"port":null,"url":null}`,
		`step_completed {"step":3,"skill":"x/maybe","success":false,"skipped":"not now","execution_id":"RUN","latency_ms":0,"cost_usd":0,"artifacts_dir":"","deployed":false,"port":null,"url":null}`,
		`phase_started {"agents":["left","right"],"phase":"look","type":"parallel"}`,
		`agent_started {"agent_id":"right","skill":"x/right"}`,
		`agent_started {"agent_id":"left","skill":"x/left"}`,
		`iteration {"agent_id":"left","iteration":1,"tool_name":"Grep","tool_input":{"command":"ls"},"tool_output":"","timestamp":"2026-05-01T10:00:00Z"}`,
		`iteration {"agent_id":"right","iteration":1,"tool_name":"Grep","tool_input":{"command":"ls"},"tool_output":"","timestamp":"2026-05-01T10:00:00Z"}`,
		`agent_completed {"agent_id":"left","skill":"x/left","success":true,"execution_id":"RUN","latency_ms":1500,"cost_usd":0}`,
		`agent_completed {"agent_id":"right","skill":"x/right","success":false,"error":"lost","execution_id":"RUN","latency_ms":1500,"cost_usd":0}`,
		`phase_completed {"phase":"look"}`,
		`phase_started {"phase":"act","type":"sequential"}`,
		`step_started {"skill":"action:notify","status":"running","step":6}`,
		`step_completed {"step":6,"skill":"action:notify","success":false,"error":"nobody there","execution_id":"RUN","latency_ms":1500,"cost_usd":0,"artifacts_dir":"","deployed":false,"port":null,"url":null}`,
		`phase_completed {"phase":"act"}`,
	}
	for i, e := range all {
		line := strings.ReplaceAll(e.event+" "+e.data, p.run.ID, "RUN")
		if e.id != fmt.Sprintf("%s/%d", p.run.ID, i+1) || i < len(want) && line != want[i] {
			t.Errorf("event %d is %s %s", i+1, e.id, line)
		}
	}
	if len(all) != len(want)+1 || all[len(want)].event != pipelineDone {
		t.Fatalf("%d events: %v", len(all), all)
	}
	if !slices.Equal(broken, all) {
		t.Errorf("who was cut off at each beat saw\n%v\nand who was not\n%v", broken, all)
	}
	for i := range all {
		if got := events(p.post("execute-stream", `{}`, all[i].id).Body); !slices.Equal(got, all[i+1:]) {
			t.Errorf("behind event %d are %v", i+1, got)
		}
	}
	p.compareWithExecution(all)
	p.compareWithJournal(all)
}

// whatIsThere reads a stream up to what the server has to say now.
func (p *played) whatIsThere(last string) (all []told) {
	p.Helper()
	q := newSequence(p.store, p.run.ID, nil)
	count := 0
	q.send = func(n int, _ string, _ any) error { count = n; return nil }
	_, err := q.advance(p.Context())
	p.must(err)
	if last == "" {
		last = p.run.ID + "/0"
	}
	resp := p.post("execute-stream", `{}`, last)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	var at int
	_, err = fmt.Sscan(strings.TrimPrefix(last, p.run.ID+"/"), &at)
	p.must(err)
	for ; at < count; at++ {
		e, more := next(lines)
		if !more {
			p.Fatalf("the stream ended behind %v", all)
		}
		all = append(all, e)
	}
	return all
}

// compareWithExecution holds the events against the answer of who waits for the end, and against
// the execution.
func (p *played) compareWithExecution(all []told) {
	p.Helper()
	q := newSequence(p.store, p.run.ID, func(int, string, any) error { return nil })
	done, err := q.advance(p.Context())
	p.must(err)
	var end Execution
	p.must(json.Unmarshal([]byte(all[len(all)-1].data), &end))
	if !done || end.Success || end.StepsCompleted != 3 || end.TotalSteps != 6 || end.TotalCostUSD != 0.75 || end.URL != "http://shop" || end.SessionID != p.run.ID {
		p.Errorf("it came to %+v", end)
	}
	var detail ExecutionDetail
	p.must(json.Unmarshal(ask(p.api, "GET", path("executions", p.run.ID)).Body.Bytes(), &detail))
	if x := detail.Execution; x.Outcome != isError || x.TriggeredBy != "ann" || string(x.InputSummary) != `{"app":"shop"}` || x.Error != "the step act failed" || x.ModelUsed != "llm" {
		p.Errorf("the execution is %+v", x)
	}
	var ended []ExecutedStep
	for _, e := range all {
		if e.event == stepCompleted || e.event == agentCompleted {
			var s ExecutedStep
			p.must(json.Unmarshal([]byte(e.data), &s))
			ended = append(ended, s)
		}
	}
	if len(ended) != len(q.over.Steps) {
		p.Fatalf("%d steps ended, the answer has %d", len(ended), len(q.over.Steps))
	}
	for i, s := range q.over.Steps {
		s.Output, s.Status = nil, ""
		if fmt.Sprint(s) != fmt.Sprint(ended[i]) {
			p.Errorf("step %d: %+v, and the stream said %+v", i, s, ended[i])
		}
	}
}

// compareWithJournal holds what agents did against the journal as `runs tail` reads it.
func (p *played) compareWithJournal(all []told) {
	p.Helper()
	var did, journaled []string
	for _, e := range all {
		if e.event == iteration {
			var it iterated
			p.must(json.Unmarshal([]byte(e.data), &it))
			did = append(did, it.ToolName)
		}
	}
	for line := range strings.Lines(ask(p.api, "GET", path("runs", p.run.ID, "journal")).Body.String()) {
		var e nightcrier.JournalEntry
		if data, is := strings.CutPrefix(line, "data: "); is && json.Unmarshal([]byte(data), &e) == nil && e.Type == nightcrier.EntryToolCall {
			call, err := journal.Decode[journal.ToolCall](e)
			p.must(err)
			journaled = append(journaled, call.Tool)
		}
	}
	if !slices.Equal(did, journaled) {
		p.Errorf("the events have %q, the journal %q", did, journaled)
	}
}

// Who waits gets all of it at the end; who goes away has cancelled nothing.
func TestExecuteWaitsForTheEnd(t *testing.T) {
	p := newPlayed(t)
	gone, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(gone, http.MethodPost, p.server.URL+path("pipelines/build/execute"), strings.NewReader(`{"input_data":{"app":"shop"}}`))
	p.must(err)
	req.Header.Set("Content-Type", "application/json")
	answered := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		answered <- err
	}()
	left := <-p.begun
	leave()
	if err := <-answered; err == nil {
		t.Error("it was answered before its end")
	}
	if run, err := p.store.Run(t.Context(), left.ID); err != nil || run.CancelRequested || run.Status != nightcrier.Queued {
		t.Errorf("of the run that nobody waits for is left %+v, %v", run, err)
	}
	waits := make(chan Execution, 1)
	go func() {
		var x Execution
		resp := p.post("execute", `{"input_data":{"app":"shop"}}`, "")
		if err := json.NewDecoder(resp.Body).Decode(&x); err != nil {
			t.Error(err)
		}
		waits <- x
	}()
	p.run = <-p.begun
	_, err = p.store.RequestCancelRun(t.Context(), left.ID, "the test")
	p.must(err)
	for _, beat := range p.play() {
		beat()
	}
	if x := <-waits; x.SessionID != p.run.ID || x.Pipeline != "build" || x.Success || x.Error != "the step act failed" || len(x.Steps) != 6 || x.Steps[4].AgentID != "right" || string(x.Steps[0].Output) != `{"url":"http://shop"}` {
		t.Errorf("%+v", x)
	}
	if end := events(p.post("execute-stream", `{}`, left.ID+"/0").Body); len(end) != 1 || !strings.Contains(end[0].data, `"success":false,"error":"cancelled: the test"`) {
		t.Errorf("of a run that never began is told %v", end)
	}
	var rows []ExecutionRow
	p.must(json.Unmarshal(ask(p.api, "GET", path("executions?outcome=error&skill=build&triggered_by=api")).Body.Bytes(), &rows))
	if len(rows) != 2 || rows[0].ExecutionID != p.run.ID || rows[1].ExecutionID != left.ID {
		t.Errorf("executions: %+v", rows)
	}
	var sums Analytics
	p.must(json.Unmarshal(ask(p.api, "GET", path("analytics")).Body.Bytes(), &sums))
	if sums.TotalExecutions != 2 || sums.AcceptRate != 0 || sums.ExecutionsBy["build"] != 2 || sums.AvgLatencyMS <= 0 || len(sums.Recent) != 2 || sums.Recent[0].ExecutionID != p.run.ID {
		t.Errorf("analytics: %+v", sums)
	}
}

func TestCallsThatAreRefused(t *testing.T) {
	p := newPlayed(t)
	send := func(a *API, target, body, last string) *httptest.ResponseRecorder {
		req := httptest.NewRequest("POST", "http://localhost"+target, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Last-Event-ID", last)
		rec := httptest.NewRecorder()
		a.ServeHTTP(rec, req)
		return rec
	}
	run, err := p.start(t.Context(), Call{Pipeline: "build"})
	p.must(err)
	idle := newFake().api(t)
	for name, c := range map[string]struct {
		api                *API
		target, body, last string
		status             int
		detail             string
	}{
		"an unknown pipeline":     {p.api, "pipelines/x/execute", `{}`, "", 404, "Pipeline not found: x (looked in"},
		"of a stream":             {p.api, "pipelines/x/execute-stream", `{}`, "", 404, "Pipeline not found: x"},
		"without a server":        {idle, "pipelines/build/runs", `{}`, "", 503, "nightcrier serve"},
		"a wrong deadline":        {p.api, "pipelines/build/runs", `{"deadline":"soon"}`, "", 400, "such as 90m"},
		"a wrong priority":        {p.api, "pipelines/build/runs", `{"priority":"now"}`, "", 422, "priority"},
		"an unknown field":        {p.api, "pipelines/build/runs", `{"input":{}}`, "", 422, "input"},
		"too long an input":       {p.api, "pipelines/build/runs", `{"input_data":{"a":"` + strings.Repeat("x", store.MaxRunInput) + `"}}`, "", 400, "at most 1048576"},
		"far too long an input":   {p.api, "pipelines/build/runs", `{"input_data":{"a":"` + strings.Repeat("x", 2*store.MaxRunInput) + `"}}`, "", 413, ""},
		"an id of nothing":        {p.api, "pipelines/build/execute-stream", `{}`, "7", 400, "Last-Event-ID"},
		"an id of a foreign run":  {p.api, "pipelines/other/execute-stream", `{}`, run.ID + "/1", 404, "one of the pipeline build"},
		"an id of an unknown run": {p.api, "pipelines/build/execute-stream", `{}`, none + "/1", 404, "run"},
	} {
		rec := send(c.api, path(c.target), c.body, c.last)
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.detail) {
			t.Errorf("%s: %d %.300s", name, rec.Code, rec.Body)
		}
	}
	if rec := send(p.api, path("pipelines/build/runs"), `{"input_data":{"a":1},"deadline":"5m","priority":"critical"}`, ""); rec.Code != 202 || !strings.Contains(rec.Body.String(), `"severity":"critical"`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// What is wrong with a request is said without what may be a secret in it, and in short.
func TestRefusalsQuoteNoSecret(t *testing.T) {
	p := newPlayed(t)
	deep := strings.Repeat(`{"hunter2":`, 100_000)
	for target, bodies := range map[string][]string{
		"pipelines/hunter2/execute":        {`{}`},
		"pipelines/hunter2/execute-stream": {`{}`},
		"pipelines/build/runs":             {`{"hunter2":1}`, `{"input":{"password":"hunter2"}}`, `{"priority":"hunter2"}`, `{"deadline":"hunter2"}`, `{"user_id":["hunter2"]}`, `hunter2`, deep},
	} {
		for _, body := range bodies {
			req := httptest.NewRequest("POST", "http://localhost"+path(target), strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			p.api.ServeHTTP(rec, req)
			if rec.Code < 400 || rec.Code >= 500 || strings.Contains(rec.Body.String(), "hunter2") || rec.Body.Len() > 4<<10 {
				t.Errorf("%s %.60s: %d %.300s", target, body, rec.Code, rec.Body)
			}
		}
	}
}

func TestTriggersAreListed(t *testing.T) {
	a := newFake().api(t, func(o *Options) {
		o.Triggers = func(context.Context) (Triggers, error) {
			return Triggers{Running: true, LastSync: start, List: []Trigger{{Skill: "pipeline:nightly", Schedule: "0 3 * * * UTC", NextRun: start, Missed: 2}}}, nil
		}
	})
	for target, want := range map[string]string{
		"triggers":        `[{"domain":"","skill":"pipeline:nightly","schedule":"0 3 * * * UTC","next_run":"2026-05-01T10:00:00Z","missed":2}]`,
		"triggers/status": `{"running":true,"timezone":"UTC","job_count":1,"last_sync":"2026-05-01T10:00:00Z"}`,
	} {
		if got := strings.TrimSpace(ask(a, "GET", path(target)).Body.String()); got != want {
			t.Errorf("%s: %s", target, got)
		}
	}
	if got := strings.TrimSpace(ask(newFake().api(t), "GET", path("triggers")).Body.String()); got != "[]" {
		t.Errorf("without a server: %s", got)
	}
}

// What an agent calls a URL is one only where a page may lead to it.
func TestWhereAStepCanBeReached(t *testing.T) {
	for said, want := range map[string]string{
		`{"url": "https://shop.example.com/a?b=c"}`: "https://shop.example.com/a?b=c", `{"url": "http://10.0.0.1:80"}`: "http://10.0.0.1:80",
		`{"url": "javascript:alert(document.cookie)"}`: "", `{"url": " javascript:alert(1)"}`: "", `{"url": "JAVASCRIPT:alert(1)//http://x"}`: "", `{"url": "data:text/html,<script>"}`: "",
		`{"url": "//evil.example"}`: "", `{"url": "http:evil"}`: "", `{"url": "vbscript:x"}`: "", `{"url": 7}`: "", `["url"]`: "", `{"url": "http://a\u0000"}`: "",
	} {
		if got := urlIn(json.RawMessage(said)); got != want {
			t.Errorf("%s is %q", said, got)
		}
		if d := deployedBy(json.RawMessage(said)); d.Deployed != (want != "") {
			t.Errorf("%s is deployed: %t", said, d.Deployed)
		}
	}
}
