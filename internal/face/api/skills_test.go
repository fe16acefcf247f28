package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// someSkills has one skill in one domain, and one without a domain.
type someSkills struct{}

func (someSkills) ListSkills() []SkillInfo {
	return []SkillInfo{{Domain: NoDomain, Name: "alone"}, {Domain: "shop", Name: "builder", Model: "of-the-skill"}}
}

func (s someSkills) FindSkill(domain, name string) (SkillDetail, error) {
	for _, one := range s.ListSkills() {
		if one.Domain == domain && one.Name == name {
			return SkillDetail{SkillInfo: one, Triggers: []map[string]string{}}, nil
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

func longName() string { return strings.Repeat("x", 65) }

func postTo(h http.Handler, target, said string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "http://localhost"+target, strings.NewReader(said))
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
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
