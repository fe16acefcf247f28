package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/github"
	"nightcrier.dev/nightcrier/internal/platform/review"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/githubtest"
)

const (
	hookSecret = "a-secret-of-these-tests"
	pullHead   = "2222222222222222222222222222222222222222"
)

// deliver sends an event as GitHub does, signed with a secret.
func (s *site) deliver(addr, secret, delivery, kind string, body []byte) (int, github.Answer) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, "http://"+addr+github.Path, bytes.NewReader(body))
	s.must(err)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Event", kind)
	req.Header.Set("X-GitHub-Delivery", delivery)
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	s.must(err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	s.must(err)
	var a github.Answer
	if resp.StatusCode < 300 { // else it is a problem
		s.must(json.Unmarshal(raw, &a))
	}
	return resp.StatusCode, a
}

// pullEvent is a delivery about pull request 7 of shop/cart.
func pullEvent(action, head string, draft bool) []byte {
	raw, err := json.Marshal(map[string]any{"action": action, "number": 7,
		"repository": map[string]any{"full_name": "shop/cart"}, "sender": map[string]any{"login": "alice", "type": "User"},
		"pull_request": map[string]any{"number": 7, "title": "Raise a", "body": "why", "state": "open", "draft": draft,
			"head": map[string]any{"ref": "change", "sha": head}, "base": map[string]any{"ref": "main", "sha": pullHead}}})
	if err != nil {
		panic(err)
	}
	return raw
}

// pullComment is a delivery of a comment on it.
func pullComment(id int, text string) []byte {
	raw, err := json.Marshal(map[string]any{"action": "created", "repository": map[string]any{"full_name": "shop/cart"}, "sender": map[string]any{"login": "alice", "type": "User"},
		"issue":   map[string]any{"number": 7, "title": "Raise a", "state": "open", "pull_request": map[string]any{}},
		"comment": map[string]any{"id": id, "body": text, "user": map[string]any{"login": "alice", "type": "User"}}})
	if err != nil {
		panic(err)
	}
	return raw
}

// startGitHub starts the product with a pipeline for pull requests, whose step is the skill look.
func (h *house) startGitHub(env string, text ...string) {
	h.Helper()
	dir := filepath.Dir(h.root)
	for name, content := range map[string]string{
		"skills/dev/look/SKILL.md":             "---\nname: look\ndescription: Looks at a pull request.\n---\nLook.\n",
		"skills/dev/look/agentura.config.yaml": "skills: [{name: look, role: agent}]\nagent: {executor: claude-code, max_iterations: 3}\n",
		"pipelines/look.yaml":                  "name: github-pr-review\non:\n  - {type: github_pr, repositories: ['shop/*']}\n  - {type: github_pr, actions: [mentioned]}\nsteps:\n  - skill: dev/look\n",
	} {
		path := filepath.Join(dir, name)
		h.must(os.MkdirAll(filepath.Dir(path), 0o700))
		h.must(os.WriteFile(path, []byte(content), 0o600))
	}
	text = append(text, "listen: 127.0.0.1:0", "pipelines_dir: "+filepath.Join(dir, "pipelines"), "skills: {cache_dir: "+filepath.Join(dir, "skills")+"}")
	vars := []string{"ANTHROPIC_API_KEY=k"}
	if env != "" {
		vars = append(vars, env)
	}
	_, err := h.load(vars, text...)
	h.must(err)
	h.run(h.withOrders)
}

func (h *house) pullRuns() []nightcrier.Run {
	h.Helper()
	list, _, err := h.Store().ListRuns(h.t.Context(), store.RunFilter{})
	h.must(err)
	return list
}

// A delivery is a run, once; what is forged, for nobody or of a draft is none; a newer push takes the
// place of an older one; a question does not.
func TestDeliveriesOfGitHub(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	gh := githubtest.Start(t)
	gh.AddPull(githubtest.Pull{Repository: "shop/cart", Number: 7, Base: pullHead, Head: pullHead})
	gh.SetPermission("shop/cart", "alice", "write")
	h.startGitHub("", "webhook_listen: 127.0.0.1:0", "github: {base_url: "+gh.URL+", token: "+gh.Token+", webhook_secret: "+hookSecret+"}")

	first := pullEvent("opened", pullHead, false)
	for i, addr := range []string{h.Addr(), h.WebhookAddr(), h.Addr()} {
		status, a := h.deliver(addr, hookSecret, "d1", "pull_request", first)
		want := map[bool]string{true: "202 accepted", false: "200 duplicate"}[i == 0]
		h.want(strconv.Itoa(status)+" "+a.Status == want && len(a.Runs) == 1, "%d: %d %+v", i, status, a)
	}
	for name, test := range map[string]struct {
		secret, kind string
		body         []byte
		status       int
		says         string
	}{
		"forged":     {"another", "pull_request", first, 401, ""},
		"a draft":    {hookSecret, "pull_request", pullEvent("opened", pullHead, true), 200, "github.drafts"},
		"labelled":   {hookSecret, "pull_request", pullEvent("labeled", pullHead, false), 200, "no pipeline is for the action labeled"},
		"a push":     {hookSecret, "push", []byte("{}"), 200, "start nothing"},
		"small talk": {hookSecret, "issue_comment", pullComment(1, "nice"), 200, "does not mention"},
	} {
		status, a := h.deliver(h.Addr(), test.secret, "d2", test.kind, test.body)
		h.want(status == test.status && strings.Contains(a.Reason, test.says), "%s: %d %+v", name, status, a)
	}
	runs := h.pullRuns()
	h.want(len(runs) == 1 && runs[0].Subject == nightcrier.Subject{Kind: nightcrier.SubjectPullRequest, ID: "shop/cart#7", Title: "Raise a"} && runs[0].TriggeredBy == "github:alice", "%+v", runs)
	input, err := h.Store().RunInput(t.Context(), runs[0].ID)
	h.must(err)
	h.want(strings.Contains(string(input), `"head_sha":"`+pullHead+`"`) && strings.Contains(string(input), `"delivery_id":"d1"`), "%s", input)

	status, asked := h.deliver(h.Addr(), hookSecret, "d3", "issue_comment", pullComment(2, "@nightcrier why?"))
	h.want(status == 202 && len(asked.Runs) == 1, "%d %+v", status, asked)
	status, pushed := h.deliver(h.Addr(), hookSecret, "d4", "pull_request", pullEvent("synchronize", strings.Repeat("3", 40), false))
	h.want(status == 202 && len(pushed.Runs) == 1, "%d %+v", status, pushed)
	h.eventually(func() string {
		for _, r := range h.pullRuns() {
			if r.ID == runs[0].ID && (r.Status == nightcrier.Dropped || r.CancelRequested) {
				return ""
			}
		}
		return "the older run goes on"
	})
}

// What is posted is posted once, also where the server is gone between the request and its answer.
func TestAPostOutlivesTheServer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	gh := githubtest.Start(t)
	gh.AddPull(githubtest.Pull{Repository: "shop/cart", Number: 7, Base: pullHead, Head: pullHead, Diff: "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n"})
	key := filepath.Join(t.TempDir(), "app.pem")
	h.must(os.WriteFile(key, gh.Key, 0o600))
	ref := review.Ref{Repository: "shop/cart", Number: 7}
	what := review.Review{Marker: "<!-- nightcrier:r1 -->", Head: pullHead, Verdict: review.Remark, Body: "<!-- nightcrier:r1 --> see", Comments: []review.Comment{{Path: "a", Side: review.Right, Line: 1, Body: "b?"}}}
	h.start("github: {base_url: "+gh.URL+", app_id: "+strconv.Itoa(githubtest.AppID)+", private_key_file: "+key+"}", "listen: 127.0.0.1:0")

	reached, hold := make(chan struct{}), make(chan struct{})
	gh.Fail(githubtest.Fault{Method: "POST", Part: "/reviews", Done: true, Hold: hold, Reached: reached})
	ctx, kill := context.WithCancel(t.Context())
	go func() { <-reached; kill() }()
	err := h.GitHub().PostReview(ctx, ref, what)
	h.want(err != nil, "the answer was withheld")
	close(hold)
	h.must(h.Stop(t.Context()))

	h.run(h.withOrders)
	h.must(h.GitHub().PostReview(t.Context(), ref, what))
	h.must(h.GitHub().PostReview(t.Context(), ref, what))
	h.want(len(gh.Reviews("shop/cart", 7)) == 1 && len(gh.Requests("POST", "/reviews")) == 1, "%+v", gh.Requests("POST", ""))
	told, err := h.Store().PendingNotifications(t.Context())
	h.want(err == nil && len(told) == 0, "%+v, %v", told, err)
}

// githubEffects are the rows of the keys of GitHub.
func githubEffects() map[string]func(*house) {
	delivered := func(settings, env, kind string, body []byte, status int, says string) func(*house) {
		return func(h *house) {
			h.startGitHub(env, "github: {"+settings+"}")
			got, a := h.deliver(h.Addr(), hookSecret, "d1", kind, body)
			h.want(got == status && strings.Contains(a.Status+" "+a.Reason, says), "%d %+v", got, a)
		}
	}
	// asked is a row of a key by which GitHub is asked, in the name of the one that the fake knows.
	asked := func(settings func(h *house, gh *githubtest.Server) string) func(*house) {
		return func(h *house) {
			gh := githubtest.Start(h.t)
			gh.AddPull(githubtest.Pull{Repository: "shop/cart", Number: 7, Base: pullHead, Head: pullHead})
			gh.SetPermission("shop/cart", "alice", "write")
			h.startGitHub("", "github: {base_url: "+gh.URL+", webhook_secret: "+hookSecret+settings(h, gh)+"}")
			status, a := h.deliver(h.Addr(), hookSecret, "d1", "issue_comment", pullComment(1, "@guard why?\n@nightcrier why?"))
			h.want(status == 202 && len(gh.Requests("GET", "/permission")) == 1, "%d %+v", status, a)
		}
	}
	app := func(h *house, gh *githubtest.Server) string {
		key := filepath.Join(h.t.TempDir(), "app.pem")
		h.must(os.WriteFile(key, gh.Key, 0o600))
		return ", app_id: " + strconv.Itoa(githubtest.AppID) + ", private_key_file: " + key
	}
	token := func(_ *house, gh *githubtest.Server) string { return ", token: " + gh.Token }
	return map[string]func(*house){
		"github.base_url":         asked(token),
		"github.token":            asked(token),
		"github.app_id":           asked(app),
		"github.private_key_file": asked(app),
		"github.webhook_secret":   delivered("", "GITHUB_WEBHOOK_SECRET="+hookSecret, "pull_request", pullEvent("opened", pullHead, false), 202, "accepted"),
		"github.drafts":           delivered("drafts: true, webhook_secret: "+hookSecret, "", "pull_request", pullEvent("opened", pullHead, true), 202, "accepted"),
		"github.mention":          delivered("mention: guard, webhook_secret: "+hookSecret, "", "issue_comment", pullComment(1, "@nightcrier why?"), 200, "does not mention @guard"),
	}
}
