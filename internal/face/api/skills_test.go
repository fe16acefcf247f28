package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// someSkills has one skill in one domain, and one without a domain.
type someSkills struct{}

func (someSkills) ListSkills() []SkillInfo {
	return []SkillInfo{{Domain: NoDomain, Name: "alone", Health: "unknown"}, {Domain: "shop", Name: "builder", Model: "of-the-skill"}}
}

func (s someSkills) FindSkill(domain, name string) (SkillDetail, error) {
	for _, one := range s.ListSkills() {
		if one.Domain == domain && one.Name == name {
			return SkillDetail{SkillInfo: one, Triggers: []map[string]string{}, InputRequired: one.Name == "builder", PromptLength: 7}, nil
		}
	}
	return SkillDetail{}, nightcrier.Errorf(nightcrier.NotFound, "there is no skill %s/%s", domain, name)
}

func (s someSkills) ListDomains() []DomainInfo { return []DomainInfo{{Name: "shop", SkillsCount: 1}} }

func (s someSkills) FindDomain(name string) (DomainDetail, error) {
	if name != "shop" {
		return DomainDetail{}, nightcrier.Errorf(nightcrier.NotFound, "there is no domain %s", name)
	}
	return DomainDetail{DomainInfo: s.ListDomains()[0], Identity: "It sells."}, nil
}

func TestSkillsAndDomains(t *testing.T) {
	a := newFake().api(t, func(o *Options) { o.Skills = someSkills{} })
	for at, c := range map[string]struct {
		code int
		want string
	}{
		"skills":                {200, `"name":"builder"`},
		"skills/shop/builder":   {200, `"model":"of-the-skill"`},
		"skills/default/alone":  {200, `"name":"alone"`},
		"skills/shop/nothing":   {404, "there is no skill"},
		"skills/shop/..%2Fetc":  {404, "there is no skill"},
		"domains":               {200, `[{"name":"shop"`},
		"domains/shop":          {200, `"identity":"It sells."`},
		"domains/none":          {404, "there is no domain"},
		"domains/" + longName(): {422, "64"},
	} {
		rec := ask(a, "GET", path(at))
		if rec.Code != c.code || !strings.Contains(rec.Body.String(), c.want) {
			t.Errorf("%s: %d %s", at, rec.Code, rec.Body)
		}
	}
	if rec := ask(newFake().api(t), "GET", path("skills")); strings.TrimSpace(rec.Body.String()) != "[]" {
		t.Errorf("without a server: %s", rec.Body)
	}
	if rec := ask(newFake().api(t), "GET", path("skills/a/b")); rec.Code != 404 {
		t.Errorf("without a server: %d", rec.Code)
	}
}

// CheckCall refuses a model of nobody.
func (someSkills) CheckCall(_ context.Context, c Call) error {
	if c.Model == "of-nobody" {
		return nightcrier.Errorf(nightcrier.Refused, "its model %q is not one of anthropic", c.Model)
	}
	return nil
}

func longName() string { return strings.Repeat("x", 65) }

func postTo(h http.Handler, target, said string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "http://localhost"+target, strings.NewReader(said))
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// Each way to start a run takes the caller's own name of the call, and none that has no end.
func TestACallHasAKey(t *testing.T) {
	var asked []string
	a := newFake().api(t, func(o *Options) {
		o.Skills = someSkills{}
		o.Start = func(_ context.Context, c Call) (nightcrier.Run, error) {
			asked = append(asked, c.Key)
			return nightcrier.Run{}, nightcrier.Errorf(nightcrier.Conflict, "not now")
		}
	})
	post := func(at, key string) int {
		req := httptest.NewRequest("POST", "http://localhost"+path(at), strings.NewReader(`{"input_data": {"a": 1}}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		rec := httptest.NewRecorder()
		a.ServeHTTP(rec, req)
		if strings.Contains(rec.Body.String(), key) {
			t.Errorf("the key is in the answer: %s", rec.Body)
		}
		return rec.Code
	}
	for i, at := range []string{"pipelines/build/runs", "pipelines/build/execute", "pipelines/build/execute-stream", "skills/shop/builder/runs", "skills/shop/builder/execute", "skills/default/alone/execute-stream"} {
		key := fmt.Sprint("key-", i)
		if code := post(at, key); code != 409 || len(asked) != i+1 || asked[i] != key {
			t.Errorf("%s: %d, the keys are %q", at, code, asked)
		}
	}
	if code := post("pipelines/build/runs", strings.Repeat("k", 256)); code != 422 {
		t.Errorf("a key without end: %d", code)
	}
}

// A call of a skill names it with its domain, where it has one.
func TestASkillIsCalled(t *testing.T) {
	var asked []Call
	a := newFake().api(t, func(o *Options) {
		o.Skills = someSkills{}
		o.Start = func(_ context.Context, c Call) (nightcrier.Run, error) {
			asked = append(asked, c)
			return nightcrier.Run{}, nightcrier.Errorf(nightcrier.Refused, "not now")
		}
	})
	for _, at := range []string{"skills/shop/builder/runs", "skills/default/alone/execute"} {
		if rec := postTo(a, path(at), `{"input_data": {"a": 1}, "user_id": "me"}`); rec.Code != statusOf[nightcrier.Refused] {
			t.Errorf("%s: %d %s", at, rec.Code, rec.Body)
		}
	}
	if len(asked) != 2 || asked[0].Skill != "shop/builder" || asked[1].Skill != "alone" || asked[0].By != "me" || string(asked[0].Input) != `{"a": 1}` {
		t.Errorf("%+v", asked)
	}
}

// How the runs of a skill went is counted, whether they named it with its domain or not.
func TestRunsOfASkillAreCounted(t *testing.T) {
	f := newFake()
	a := f.api(t, func(o *Options) { o.Skills = someSkills{} })
	for _, c := range []struct {
		sums []store.RunSum
		want string
	}{
		{nil, `"health":"unknown","executions_total":0,"accept_rate":0`},
		{[]store.RunSum{{Pipeline: "skill:alone", Runs: 1}, {Pipeline: "alone", Runs: 5, Ended: 5}}, `"health":"unknown","executions_total":1,"accept_rate":0`},
		{[]store.RunSum{{Pipeline: "skill:alone", Runs: 6, Ended: 5, Succeeded: 4}}, `"health":"healthy","executions_total":6,"accept_rate":0.8`},
		{[]store.RunSum{{Pipeline: "skill:alone", Runs: 4, Ended: 4, Succeeded: 2}}, `"health":"degraded","executions_total":4,"accept_rate":0.5`},
		{[]store.RunSum{{Pipeline: "skill:alone", Runs: 4, Ended: 4, Succeeded: 1}}, `"health":"failing","executions_total":4,"accept_rate":0.25`},
	} {
		f.sums = c.sums
		for _, at := range []string{"skills", "skills/default/alone"} {
			if rec := ask(a, "GET", path(at)); !strings.Contains(rec.Body.String(), c.want) {
				t.Errorf("%s: %s, want %s", at, rec.Body, c.want)
			}
		}
	}
}

// What a skill cannot be called with is said before anything is started, and a dry run starts nothing.
func TestCallsOfASkillThatStartNothing(t *testing.T) {
	a := newFake().api(t, func(o *Options) {
		o.Skills = someSkills{}
		o.Start = func(context.Context, Call) (nightcrier.Run, error) {
			t.Error("a run was started")
			return nightcrier.Run{}, nil
		}
	})
	for _, c := range []struct {
		at, body string
		code     int
		want     string
	}{
		{"skills/shop/builder/execute", `{}`, 422, "input_data is empty"},
		{"skills/shop/builder/execute-stream", `{"input_data": {}}`, 422, "input_data is empty"},
		{"skills/shop/builder/runs", `{"input_data": null}`, 422, "input_data is empty"},
		{"skills/default/alone/runs", `{"dry_run": true}`, 422, "answered by execute"},
		{"pipelines/build/runs", `{"model_override": "m"}`, 422, "of one skill"},
		{"pipelines/build/execute", `{"dry_run": true}`, 422, "of one skill"},
		{"skills/shop/builder/execute", `{"dry_run": true}`, 422, "input_data is empty"},
		{"skills/shop/nothing/execute", `{"dry_run": true}`, 404, "there is no skill"},
		{"skills/default/alone/execute", `{"dry_run": true, "model_override": "of-nobody"}`, 403, "of-nobody"},
		{"skills/shop/builder/execute-stream", `{"dry_run": true, "model_override": "m", "input_data": {"b": 1, "a": 2}}`, 200,
			`"output":{"domain":"shop","dry_run":true,"input_keys":["a","b"],"model":"m","prompt_length":7,"skill":"builder"}`},
	} {
		rec := postTo(a, path(c.at), c.body)
		if rec.Code != c.code || !strings.Contains(rec.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s", c.at, c.body, rec.Code, rec.Body)
		}
	}
}

// The stream of a skill has what its agent does, and what it came to; it goes on where a client was.
func TestASkillIsSeenToRun(t *testing.T) {
	p := newPlayed(t)
	p.api.opt.Skills = someSkills{}
	var call Call
	p.api.opt.Start = func(ctx context.Context, c Call) (nightcrier.Run, error) {
		call = c
		e, err := p.store.EnqueueRun(ctx, store.NewRun{Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}, Pipeline: nightcrier.SkillPrefix + c.Skill, Model: c.Model})
		p.begun <- e.Run
		return e.Run, err
	}
	resp := p.postAt("skills/shop/builder/execute-stream", `{"input_data": {"a": 1}, "model_override": "m"}`, "")
	p.run = <-p.begun
	_, err := p.store.AdmitNext(t.Context(), store.Limits{Total: 1, PerKey: 1})
	p.must(err)
	p.step(nightcrier.Step{ID: "builder", Uses: "shop/builder", State: atWork})
	p.calls("builder", "apply")
	p.step(nightcrier.Step{ID: "builder", Uses: "shop/builder", State: success, Output: []byte(`{"summary":"built"}`)})
	p.must(p.store.FinishRun(t.Context(), store.Finish{RunID: p.run.ID, Outcome: nightcrier.StateSuccess, Result: nightcrier.AgentResult{State: nightcrier.StateSuccess}}))
	var got []string
	for _, e := range events(resp.Body) {
		got = append(got, e.event+" "+e.data)
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], "iteration ") || !strings.Contains(got[0], `"tool_name":"apply"`) ||
		!strings.HasPrefix(got[1], `result {"skill_name":"builder","success":true,"output":{"summary":"built"},"model_used":"m"`) {
		t.Errorf("%q", got)
	}
	if run, err := p.store.Run(t.Context(), p.run.ID); err != nil || run.Model != "m" || call.Model != "m" {
		t.Errorf("model %q: %v", run.Model, err)
	}
	if again := events(p.postAt("skills/shop/builder/execute-stream", `{}`, p.run.ID+"/2").Body); len(again) != 1 || again[0].event != "result" {
		t.Errorf("behind what was seen comes %v", again)
	}
	for _, shown := range []string{"shop/builder", ""} {
		rows := ask(p.api, "GET", path("executions")+"?skill="+shown).Body.String()
		if !strings.Contains(rows, `"skill":"shop/builder"`) {
			t.Errorf("executions of %q: %s", shown, rows)
		}
	}
}
