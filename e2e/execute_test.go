package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// caller is one who calls runs of a server, over its address.
type caller struct {
	*testing.T
	url string
}

// post sends a call, which the context may give up. With the id of an event it asks for what came
// behind that.
func (c caller) post(ctx context.Context, path, body, last string) *http.Response {
	c.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/api/v1/pipelines/"+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = resp.Body.Close() }) // it may be closed already
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		c.Fatalf("%s: %s", resp.Status, said)
	}
	return resp
}

// streamed is an event of a stream as it was sent.
type streamed struct{ id, event, data string }

// readEvents reads at most so many events of a stream, and leaves then.
func readEvents(resp *http.Response, most int) (all []streamed) {
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var e streamed
	for len(all) < most && lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "id":
			e.id = value
		case "event":
			e.event = value
		case "data":
			e.data = value
		case "":
			if e.event != "" {
				all = append(all, e)
			}
			e = streamed{}
		}
	}
	return all
}

// executed is what execute answers, as far as it matters here.
type executed struct {
	SessionID string `json:"session_id"`
	Success   bool   `json:"success"`
	Error     string `json:"error"`
	Steps     []struct {
		Step    int             `json:"step"`
		AgentID string          `json:"agent_id"`
		Skill   string          `json:"skill"`
		Success bool            `json:"success"`
		Output  json.RawMessage `json:"output"`
	} `json:"steps"`
	StepsCompleted int `json:"steps_completed"`
	TotalSteps     int `json:"total_steps"`
}

// newBuilding is a site whose runs build a page, look at it twice at once, and ship it, by the real
// claude CLI.
func newBuilding(t *testing.T) *site {
	claude := handsOf(claudeCLI(t))
	m := fakemodel.New(t)
	s := claude.site(t, m, claude.deliver(oneFact)) // replaced below
	m.MustAdd(t, claude.cli, fakemodel.Scenario{Answer: func(r fakemodel.Request) fakemodel.Step {
		switch {
		case strings.Contains(r.Text, "You do step build of") && r.Turn == 0:
			return fakemodel.Step{Tools: []fakemodel.ToolCall{toolCall(claudeCLI(t).Calls.Write("output/app.html", "<h1>a shop</h1>"))}}
		case strings.Contains(r.Text, "You do step ship of") && r.Turn == 0:
			return fakemodel.Step{Tools: []fakemodel.ToolCall{toolCall(claudeCLI(t).Calls.Write("output/result.json", `{"url":"http://shop"}`))}}
		case r.Turn == 0:
			return fakemodel.Step{Tools: []fakemodel.ToolCall{claude.read("context/steps/build/app.html")}}
		}
		return fakemodel.Step{Text: "It is done."}
	}})
	files := map[string]string{"pipelines/page.yaml": `name: page
input_mapping: {description: prd}
phases:
  - name: make
    steps: [{id: build, skill: shop/builder, with: {what: input.prd}, deliverable: {files: ['*.html']}}]
  - name: look
    type: parallel
    steps: [{id: style, agent_id: style, skill: shop/reader}, {id: safety, agent_id: safety, skill: shop/reader}]
  - name: ship
    fan_in_from: look
    steps: [{id: ship, skill: shop/shipper, deliverable: {schema: {type: object, required: [url]}}}]
`}
	for _, name := range []string{"builder", "reader", "shipper"} {
		files["skills/shop/"+name+"/SKILL.md"] = fmt.Sprintf("---\nname: %s\ndescription: works\n---\n# Work\n\nDo it.\n", name)
	}
	s.writeLibrary(files)
	s.env["NIGHTCRIER_LISTEN"] = "127.0.0.1:0"
	return s
}

// One run is the same sequence for who executes it, who sees its stream, who follows its journal,
// and who lost the connection again and again. Who goes away cancels nothing.
func TestOneRunIsTheSameForAll(t *testing.T) {
	t.Parallel()
	s := newBuilding(t)
	a := s.app(nil)
	c := caller{t, "http://" + a.Addr()}

	gone := readEvents(c.post(t.Context(), "page/execute-stream", `{"input_data":{"description":"a shop"}}`, ""), 1)
	left, _, _ := strings.Cut(gone[0].id, "/")

	answered := make(chan executed, 1)
	go func() {
		var x executed
		if err := json.NewDecoder(c.post(t.Context(), "page/execute", `{"input_data":{"description":"a shop"},"user_id":"who waits"}`, "").Body).Decode(&x); err != nil {
			t.Error(err)
		}
		answered <- x
	}()
	var rows []struct {
		ID string `json:"execution_id"`
	}
	s.eventually(func() string {
		resp, err := http.Get(c.url + "/api/v1/executions?triggered_by=who+waits")
		s.must(err)
		defer resp.Body.Close()
		s.must(json.NewDecoder(resp.Body).Decode(&rows))
		if len(rows) != 1 {
			return "nothing is executed"
		}
		return ""
	})
	id := rows[0].ID

	tail := exec.Command(binary(t), "runs", "tail", id, "-o", "jsonl", "--server", c.url)
	var lines, said bytes.Buffer
	tail.Stdout, tail.Stderr = &lines, &said
	s.must(tail.Start())
	watched := make(chan []streamed, 1)
	go func() { watched <- readEvents(c.post(t.Context(), "page/execute-stream", `{}`, id+"/0"), 1000) }()

	var broken []streamed
	for last := id + "/0"; len(broken) == 0 || broken[len(broken)-1].event != "pipeline_done"; last = broken[len(broken)-1].id {
		broken = append(broken, readEvents(c.post(t.Context(), "page/execute-stream", `{}`, last), 2)...)
	}
	whole, x := <-watched, <-answered
	if err := tail.Wait(); err != nil {
		t.Errorf("runs tail: %v, %s", err, said.String())
	}
	after := readEvents(c.post(t.Context(), "page/execute-stream", `{}`, id+"/0"), 1000)
	if !slices.Equal(whole, broken) || !slices.Equal(whole, after) {
		t.Errorf("who saw all of it was told\n%v\nwho reconnected\n%v\nwho came later\n%v", whole, broken, after)
	}
	if x.SessionID != id || !x.Success || x.StepsCompleted != 4 || x.TotalSteps != 4 {
		t.Errorf("execute: %+v", x)
	}
	compareEvents(t, whole, x, lines.Bytes())

	s.eventually(func() string {
		run, err := a.Store().Run(t.Context(), left)
		s.must(err)
		if run.Status != nightcrier.Finished {
			return "the run that was left is " + string(run.Status)
		}
		if run.Outcome != nightcrier.StateSuccess || run.CancelRequested {
			t.Errorf("the run that was left: %+v", run)
		}
		return ""
	})
}

// compareEvents holds a run's events against what execute answered, and against its journal.
func compareEvents(t *testing.T, all []streamed, x executed, journaled []byte) {
	t.Helper()
	var ended, did, steps, called []string
	for i, e := range all {
		var of struct {
			Step    int    `json:"step"`
			AgentID string `json:"agent_id"`
			Skill   string `json:"skill"`
			Success bool   `json:"success"`
			Tool    string `json:"tool_name"`
		}
		if err := json.Unmarshal([]byte(e.data), &of); err != nil || e.id != fmt.Sprintf("%s/%d", x.SessionID, i+1) {
			t.Errorf("event %d is %v, %v", i+1, e, err)
		}
		switch e.event {
		case "step_completed", "agent_completed":
			ended = append(ended, fmt.Sprint(of.Step, of.AgentID, of.Skill, of.Success))
		case "iteration":
			did = append(did, of.Tool)
		}
	}
	for _, s := range x.Steps {
		steps = append(steps, fmt.Sprint(s.Step, s.AgentID, s.Skill, s.Success))
	}
	for line := range bytes.Lines(journaled) {
		var e nightcrier.JournalEntry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == nightcrier.EntryToolCall {
			call, err := journal.Decode[journal.ToolCall](e)
			if err != nil {
				t.Fatal(err)
			}
			called = append(called, call.Tool)
		}
	}
	if !slices.Equal(ended, steps) {
		t.Errorf("the events have %q, the answer %q", ended, steps)
	}
	if len(did) < 4 || !slices.Equal(did, called) {
		t.Errorf("the events have %q, the journal %q", did, called)
	}
}
