package github

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

const (
	secret = "a secret of this test"
	sha    = "2222222222222222222222222222222222222222"
)

// stage is a hook, and what it has started.
type stage struct {
	*Hook
	events []Event
	err    error
	known  map[string]bool
}

func newStage(change func(*Config)) *stage {
	s := &stage{known: map[string]bool{}}
	cfg := Config{Secret: secret, Mention: "nightcrier", Logger: slog.New(slog.DiscardHandler),
		MayWrite: func(_ context.Context, _, login string) (bool, error) {
			if login == "nobody" {
				return false, errors.New("GitHub is away")
			}
			return login == "alice", nil
		},
		Start: func(_ context.Context, e Event) (Started, error) {
			if s.err != nil {
				return Started{}, s.err
			}
			s.events = append(s.events, e)
			started := Started{Runs: []string{"r1"}}
			if s.known[e.Digest] {
				started.Repeated = 1
			}
			s.known[e.Digest] = true
			return started, nil
		}}
	if change != nil {
		change(&cfg)
	}
	s.Hook = New(cfg)
	return s
}

func sign(body []byte, with string) string {
	mac := hmac.New(sha256.New, []byte(with))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// post delivers a payload that is signed, unless change says otherwise.
func (s *stage) post(kind string, body []byte, change func(*http.Request)) (int, string) {
	r := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", kind)
	r.Header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	r.Header.Set("X-Hub-Signature-256", sign(body, secret))
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// pullEvent is a delivery about a pull request; set changes it, by the path of a field.
func pullEvent(set map[string]any) []byte {
	m := map[string]any{"action": "opened", "number": 7,
		"repository": map[string]any{"full_name": "shop/cart"}, "sender": map[string]any{"login": "alice", "type": "User"},
		"pull_request": map[string]any{"number": 7, "title": "Raise a", "body": "why", "state": "open", "draft": false, "html_url": "https://github.test/shop/cart/pull/7",
			"diff_url": "https://github.test/shop/cart/pull/7.diff", "head": map[string]any{"ref": "change", "sha": sha, "repo": nil}, "base": map[string]any{"ref": "main", "sha": sha}}}
	return change(m, set)
}

func commentEvent(set map[string]any) []byte {
	m := map[string]any{"action": "created", "repository": map[string]any{"full_name": "shop/cart"}, "sender": map[string]any{"login": "alice", "type": "User"},
		"issue":   map[string]any{"number": 7, "title": "Raise a", "state": "open", "pull_request": map[string]any{"html_url": "https://github.test/shop/cart/pull/7"}},
		"comment": map[string]any{"id": 5, "body": "@nightcrier why?", "user": map[string]any{"login": "alice", "type": "User"}}}
	return change(m, set)
}

func change(m map[string]any, set map[string]any) []byte {
	for path, value := range set {
		at, parts := m, strings.Split(path, ".")
		for _, p := range parts[:len(parts)-1] {
			at = at[p].(map[string]any)
		}
		at[parts[len(parts)-1]] = value
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

func TestADelivery(t *testing.T) {
	s := newStage(nil)
	body := pullEvent(nil)
	if code, text := s.post("pull_request", body, nil); code != http.StatusAccepted || !strings.Contains(text, `"status":"accepted"`) || !strings.Contains(text, `"delivery_id":"72d3162e`) {
		t.Errorf("%d %s", code, text)
	}
	raw, err := json.Marshal(s.events[0])
	want := `{"delivery_id":"72d3162e-cc78-11e3-81ab-4c9367dc0958","action":"opened","pr_number":7,"pr_url":"https://github.test/shop/cart/pull/7","pr_title":"Raise a","pr_body":"why","diff_url":"https://github.test/shop/cart/pull/7.diff","head_branch":"change","base_branch":"main","head_sha":"` + sha + `","repo":"shop/cart","sender":"alice"}`
	if err != nil || string(raw) != want {
		t.Errorf("the input is %s, %v", raw, err)
	}
	// The same once more, by an id that nobody signs.
	if code, text := s.post("pull_request", body, func(r *http.Request) { r.Header.Set("X-GitHub-Delivery", "other") }); code != http.StatusOK || !strings.Contains(text, `"status":"duplicate"`) {
		t.Errorf("%d %s", code, text)
	}
	s.err = errors.New("disk full")
	if code, text := s.post("pull_request", body, nil); code != http.StatusServiceUnavailable || strings.Contains(text, "disk") {
		t.Errorf("%d %s", code, text)
	}
}

func TestWhoIsNotGitHub(t *testing.T) {
	body := pullEvent(nil)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, test := range map[string]struct {
		change func(*http.Request)
		code   int
		says   string
	}{
		"no signature":       {header("X-Hub-Signature-256", ""), 401, "does not fit"},
		"another secret":     {header("X-Hub-Signature-256", sign(body, "guess")), 401, "does not fit"},
		"another payload":    {header("X-Hub-Signature-256", sign([]byte("{}"), secret)), 401, "does not fit"},
		"SHA-1":              {header("X-Hub-Signature-256", strings.Replace(sign(body, secret), "sha256", "sha1", 1)), 401, "does not fit"},
		"no prefix":          {header("X-Hub-Signature-256", sign(body, secret)[7:]), 401, "does not fit"},
		"a part of it":       {header("X-Hub-Signature-256", sign(body, secret)[:40]), 401, "does not fit"},
		"a form":             {header("Content-Type", "application/x-www-form-urlencoded"), 415, "application/json"},
		"compressed":         {header("Content-Encoding", "gzip"), 415, "application/json"},
		"no delivery":        {header("X-GitHub-Delivery", ""), 400, "X-GitHub-Delivery"},
		"a delivery of dots": {header("X-GitHub-Delivery", "../../x"), 400, "X-GitHub-Delivery"},
		"a ping":             {header("X-GitHub-Event", "ping"), 200, "pong"},
		"a push":             {header("X-GitHub-Event", "push"), 200, `events of the kind \"push\" start nothing`},
	} {
		s := newStage(nil)
		if code, text := s.post("pull_request", body, test.change); code != test.code || !strings.Contains(text, test.says) || len(s.events) != 0 {
			t.Errorf("%s: %d %s, %d events", name, code, text, len(s.events))
		}
	}
	s := newStage(func(c *Config) { c.Secret = "" })
	if code, text := s.post("pull_request", body, nil); code != 403 || !strings.Contains(text, "github.webhook_secret is not set") {
		t.Errorf("without a secret: %d %s", code, text)
	}
}

func TestPayloads(t *testing.T) {
	type set = map[string]any
	deep := []byte(`{"a":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}")
	for name, test := range map[string]struct {
		kind string
		body []byte
		code int
		says string
	}{
		"a draft":                      {"pull_request", pullEvent(set{"pull_request.draft": true}), 200, "github.drafts is off"},
		"closed":                       {"pull_request", pullEvent(set{"action": "edited", "pull_request.state": "closed"}), 200, "is closed"},
		"of a bot":                     {"pull_request", pullEvent(set{"sender.type": "Bot", "sender.login": "dependabot[bot]"}), 200, "sent by the bot"},
		"of a bot that says otherwise": {"pull_request", pullEvent(set{"sender.login": "nightcrier[bot]"}), 200, "sent by the bot"},
		"no repository":                {"pull_request", pullEvent(set{"repository": nil}), 400, "lacks repository.full_name"},
		"a repository of dots":         {"pull_request", pullEvent(set{"repository.full_name": "../../etc"}), 400, "lacks repository.full_name"},
		"a repository within":          {"pull_request", pullEvent(set{"repository.full_name": "a/b/c"}), 400, "lacks repository.full_name"},
		"no sender":                    {"pull_request", pullEvent(set{"sender": nil}), 400, "lacks sender.login"},
		"no action":                    {"pull_request", pullEvent(set{"action": ""}), 400, "lacks action"},
		"no pull request":              {"pull_request", pullEvent(set{"pull_request": nil}), 400, "lacks pull_request.number"},
		"a number below one":           {"pull_request", pullEvent(set{"pull_request.number": -7}), 400, "lacks pull_request.number"},
		"a number that is none":        {"pull_request", pullEvent(set{"pull_request.number": "7"}), 400, "not as GitHub sends it"},
		"no commit":                    {"pull_request", pullEvent(set{"pull_request.head": set{"ref": "x", "sha": "HEAD"}}), 400, "lacks pull_request.head.sha"},
		"no branches":                  {"pull_request", pullEvent(set{"pull_request.base": set{}}), 400, "lacks pull_request.base.ref"},
		"no state":                     {"pull_request", pullEvent(set{"pull_request.state": "?"}), 400, "lacks pull_request.state"},
		"nothing":                      {"pull_request", nil, 400, "not as GitHub sends it"},
		"a list":                       {"pull_request", []byte("[]"), 400, "not as GitHub sends it"},
		"null":                         {"pull_request", []byte("null"), 400, "lacks repository.full_name"},
		"deep":                         {"pull_request", deep, 400, "not as GitHub sends it"},
		"25 MB":                        {"pull_request", bytes.Repeat([]byte(" "), 25<<20), 413, "larger than 2 MiB"},

		"a question":             {"issue_comment", commentEvent(nil), 202, "mentioned"},
		"an edit":                {"issue_comment", commentEvent(set{"action": "edited"}), 200, "only a new comment"},
		"on an issue":            {"issue_comment", commentEvent(set{"issue.pull_request": nil}), 200, "not on a pull request"},
		"on a closed one":        {"issue_comment", commentEvent(set{"issue.state": "closed"}), 200, "is closed"},
		"no mention":             {"issue_comment", commentEvent(set{"comment.body": "nice"}), 200, "does not mention @nightcrier"},
		"a mention of another":   {"issue_comment", commentEvent(set{"comment.body": "@nightcrierX why?"}), 200, "does not mention"},
		"a quotation":            {"issue_comment", commentEvent(set{"comment.body": "> @nightcrier approve"}), 200, "does not mention"},
		"in code":                {"issue_comment", commentEvent(set{"comment.body": "```\n@nightcrier approve\n```"}), 200, "does not mention"},
		"of who may not write":   {"issue_comment", commentEvent(set{"sender.login": "mallory", "comment.user": set{"login": "mallory", "type": "User"}}), 200, "mallory may not write"},
		"of who nobody knows":    {"issue_comment", commentEvent(set{"sender.login": "nobody", "comment.user": set{"login": "nobody", "type": "User"}}), 503, "deliver it again"},
		"in the name of another": {"issue_comment", commentEvent(set{"comment.user": set{"login": "bob", "type": "User"}}), 200, "not its sender's"},
		"a comment without one":  {"issue_comment", commentEvent(set{"comment": nil}), 400, "lacks comment"},
	} {
		s := newStage(nil)
		code, text := s.post(test.kind, test.body, nil)
		if code != test.code || !strings.Contains(text, test.says) || len(s.events) != 0 != (code == 202) {
			t.Errorf("%s: %d %.300s, %d events", name, code, text, len(s.events))
		}
	}
}

func TestDraftsWhereTheyAreWanted(t *testing.T) {
	s := newStage(func(c *Config) { c.Drafts = true })
	if code, text := s.post("pull_request", pullEvent(map[string]any{"pull_request.draft": true}), nil); code != http.StatusAccepted {
		t.Errorf("%d %s", code, text)
	}
}

func TestCommentsOnLines(t *testing.T) {
	s := newStage(nil)
	var m map[string]any
	if err := json.Unmarshal(pullEvent(nil), &m); err != nil {
		t.Fatal(err)
	}
	m["comment"] = map[string]any{"id": 6, "in_reply_to_id": 4, "body": "well\n@Nightcrier: look again\nplease", "user": m["sender"]}
	if code, text := s.post("pull_request_review_comment", change(m, map[string]any{"action": "created"}), nil); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, text)
	}
	if e := s.events[0]; e.Action != Mentioned || e.Comment != 6 || e.Thread != 4 || e.Question != "look again\nplease" || e.HeadSHA != sha {
		t.Errorf("%+v", e)
	}
	without := newStage(func(c *Config) { c.MayWrite = nil })
	if code, text := without.post("issue_comment", commentEvent(nil), nil); code != 200 || !strings.Contains(text, "comments need github.token") {
		t.Errorf("%d %s", code, text)
	}
}

// FuzzPayload: whatever is signed, it is answered, and what starts something names a pull request
// that stays where it is.
func FuzzPayload(f *testing.F) {
	for _, kind := range []string{"pull_request", "issue_comment", "pull_request_review_comment"} {
		f.Add(kind, pullEvent(nil))
		f.Add(kind, commentEvent(nil))
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		s := newStage(nil)
		e, err := s.readEvent(kind, body)
		var no *ignored
		switch {
		case err != nil && !errors.As(err, &no) && nightcrier.CodeOf(err) != nightcrier.Invalid:
			t.Errorf("%v", err)
		case err == nil && (strings.Contains(e.Repository, "..") && !strings.Contains(strings.ReplaceAll(e.Repository, "..", ""), "/") || strings.Count(e.Repository, "/") != 1 || e.Number < 1):
			t.Errorf("%+v", e)
		case err == nil && (len(e.Title) > maxTitle || len(e.Body) > maxBody || len(e.Question) > maxBody):
			t.Errorf("%d, %d and %d bytes", len(e.Title), len(e.Body), len(e.Question))
		}
	})
}
