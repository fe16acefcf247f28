package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/platform/review"
	"nightcrier.dev/nightcrier/internal/test/githubtest"
)

const (
	base = "1111111111111111111111111111111111111111"
	head = "2222222222222222222222222222222222222222"
	next = "3333333333333333333333333333333333333333"
	diff = "diff --git a/cart.go b/cart.go\n--- a/cart.go\n+++ b/cart.go\n@@ -1,3 +1,4 @@\n package cart\n-var a = 1\n+var a = 2\n+var b = 3\n func f() {}\n"
)

var ref = review.Ref{Repository: "shop/cart", Number: 7}

// clock is one that sleeping moves.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.slept = c.now.Add(d), append(c.slept, d)
	return ctx.Err() == nil
}

func (c *clock) total() (sum time.Duration) {
	for _, d := range c.slept {
		sum += d
	}
	return sum
}

// outbox is one in memory.
type outbox struct {
	now  func() time.Time
	open map[string]time.Time
}

func (o *outbox) BeginPost(_ context.Context, key string) (time.Time, error) {
	earlier := o.open[key]
	if earlier.IsZero() {
		o.open[key] = o.now()
	}
	return earlier, nil
}

func (o *outbox) EndPost(_ context.Context, key string, _ bool, _ string) error {
	delete(o.open, key)
	return nil
}

func start(t *testing.T) (*githubtest.Server, *clock) {
	t.Helper()
	s := githubtest.Start(t)
	s.AddPull(githubtest.Pull{Repository: ref.Repository, Number: ref.Number, Title: "Raise a", Body: "why", Base: base, Head: head, Diff: diff})
	return s, newClock()
}

// asApp returns a client of the App, asToken one with a token.
func asApp(t *testing.T, s *githubtest.Server, c *clock, sent Outbox) *Client {
	t.Helper()
	client, err := New(Options{BaseURL: s.URL, AppID: githubtest.AppID, PrivateKey: s.Key, Now: c.Now, Sleep: c.Sleep, Sent: sent})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func asToken(t *testing.T, s *githubtest.Server, c *clock) *Client {
	t.Helper()
	client, err := New(Options{BaseURL: s.URL, Token: s.Token, Now: c.Now, Sleep: c.Sleep})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestReadsAPullRequest(t *testing.T) {
	s, c := start(t)
	s.SetFile(ref.Repository, base, "docs/AGENTS.md", "be kind")
	for name, client := range map[string]*Client{"app": asApp(t, s, c, nil), "token": asToken(t, s, c)} {
		pull, err := client.Pull(t.Context(), ref)
		if want := (review.Pull{Title: "Raise a", Body: "why", Author: "contributor", Base: base, Head: head}); err != nil || pull != want {
			t.Errorf("%s: %+v, %v", name, pull, err)
		}
		got, err := client.Diff(t.Context(), ref, "", head, 1<<20)
		if err != nil || string(got) != diff {
			t.Errorf("%s: the diff is %q, %v", name, got, err)
		}
		if got, err := client.Diff(t.Context(), ref, "", head, 10); err != nil || string(got) != "diff --git a/cart.go b/cart.go\n" {
			t.Errorf("%s: without room the diff is %q, %v", name, got, err)
		}
		if got, err := client.ReadFile(t.Context(), ref, base, "docs/AGENTS.md", 5); err != nil || string(got) != "be ki" {
			t.Errorf("%s: the file begins %q, %v", name, got, err)
		}
		for _, path := range []string{"docs", "gone"} {
			if _, err := client.ReadFile(t.Context(), ref, base, path, 5); nightcrier.CodeOf(err) != nightcrier.NotFound {
				t.Errorf("%s: %s: %v", name, path, err)
			}
		}
	}
}

func TestHostileNamesAskForNothing(t *testing.T) {
	s, c := start(t)
	client := asToken(t, s, c)
	calls := map[string]func() error{}
	for _, path := range []string{"", "/etc/passwd", "../x", "a/../b", "a//b", "a\x00b", ".."} {
		calls["path "+path] = func() error { _, err := client.ReadFile(t.Context(), ref, base, path, 5); return err }
	}
	for _, name := range []string{"shop", "shop/..", "../cart", "shop/cart/x", "shop/ca rt", "shop/cart?x=1", "shop/cart#1", "/cart"} {
		calls["repository "+name] = func() error {
			_, err := client.Pull(t.Context(), review.Ref{Repository: name, Number: 1})
			return err
		}
	}
	for _, commit := range []string{"main", "", "../../user", "2222222?x=1"} {
		calls["commit "+commit] = func() error { _, err := client.ReadFile(t.Context(), ref, commit, "a", 5); return err }
		calls["head "+commit] = func() error { _, err := client.Diff(t.Context(), ref, "", commit, 5); return err }
	}
	calls["login"] = func() error { _, err := client.MayWrite(t.Context(), ref.Repository, "a/b"); return err }
	calls["number"] = func() error { _, err := client.Pull(t.Context(), review.Ref{Repository: ref.Repository}); return err }
	for name, call := range calls {
		if err := call(); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(s.Requests("", "")); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// A name of a file cannot write headers of others.
func TestNamesAreQuotedInTheDiff(t *testing.T) {
	got := changed{Filename: "a\n+++ b/x", Status: "added"}.header()
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, `"b/a\012+++ b/x"`) {
		t.Errorf("%q", got)
	}
}

func TestDiffSince(t *testing.T) {
	s, c := start(t)
	client := asToken(t, s, c)
	s.Push(ref.Repository, ref.Number, next, diff, diff)
	if got, err := client.Diff(t.Context(), ref, head, next, 1<<20); err != nil || string(got) != diff {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := client.Diff(t.Context(), ref, "", head, 1<<20); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("the head moved: %v", err)
	}
	const forced = "4444444444444444444444444444444444444444"
	s.Push(ref.Repository, ref.Number, forced, diff, "")
	for _, since := range []string{next, base} { // one that diverged, one that nobody knows
		if _, err := client.Diff(t.Context(), ref, since, forced, 1<<20); nightcrier.CodeOf(err) != nightcrier.Conflict {
			t.Errorf("since %.4s after a force push: %v", since, err)
		}
	}
}

func TestManyFilesArePaged(t *testing.T) {
	s, c := start(t)
	var all strings.Builder
	for i := range 3100 {
		fmt.Fprintf(&all, "diff --git a/f%d b/f%d\n--- a/f%d\n+++ b/f%d\n@@ -1 +1 @@\n-a\n+b\n", i, i, i, i)
	}
	s.AddPull(githubtest.Pull{Repository: ref.Repository, Number: 8, Base: base, Head: head, Diff: all.String()})
	got, err := asToken(t, s, c).Diff(t.Context(), review.Ref{Repository: ref.Repository, Number: 8}, "", head, 1<<20)
	if n := strings.Count(string(got), "diff --git"); err != nil || n != 3000 {
		t.Errorf("%d files, %v", n, err)
	}
	if n := len(s.Requests("GET", "/files")); n != 30 {
		t.Errorf("%d pages", n)
	}
}

func aReview(marker string) review.Review {
	return review.Review{Marker: marker, Head: head, Verdict: review.Remark, Body: marker + "\nlook", Comments: []review.Comment{
		{Path: "cart.go", Side: review.Right, Line: 3, Start: 2, Body: "one"}, {Path: "cart.go", Side: review.Left, Line: 2, Body: "two"}}}
}

func aCheck(n int) review.Check {
	k := review.Check{Name: "nightcrier/reviewer", ExternalID: "run:reviewer", Head: head, Conclusion: review.Neutral, Title: "found some", Summary: "some"}
	for i := range n {
		k.Annotations = append(k.Annotations, review.Annotation{Path: "cart.go", Start: i + 1, End: i + 1, Level: "warning", Message: "m"})
	}
	return k
}

// Each is written once, however often it is asked for.
func TestWritesOnce(t *testing.T) {
	s, c := start(t)
	client := asApp(t, s, c, &outbox{now: c.Now, open: map[string]time.Time{}})
	const marker = "<!-- nightcrier:summary -->"
	// In the words of others a marker is none of ours.
	s.Write(ref.Repository, ref.Number, "mallory", marker+" mine")
	for round := range 2 {
		thread := int64(0)
		if round > 0 {
			thread = s.Reviews(ref.Repository, ref.Number)[0].Comments[0].ID
		}
		for _, err := range []error{client.PostReview(t.Context(), ref, aReview("<!-- r1 -->")),
			client.PutSummary(t.Context(), ref, review.Summary{Marker: marker, Body: fmt.Sprintf("%s round %d", marker, round)}),
			client.PutCheck(t.Context(), ref, aCheck(120)),
			client.Reply(t.Context(), ref, thread, "<!-- a1 -->", "<!-- a1 --> yes")} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	reviews, comments, checks := s.Reviews(ref.Repository, ref.Number), s.Comments(ref.Repository, ref.Number), s.Checks(ref.Repository)
	if len(reviews) != 1 || len(reviews[0].Comments) != 3 || reviews[0].Comments[0].StartLine != 2 {
		t.Errorf("reviews: %+v", reviews)
	}
	if len(comments) != 3 || comments[0].Body != marker+" mine" || comments[1].Body != marker+" round 1" {
		t.Errorf("comments: %+v", comments)
	}
	if len(checks) != 1 || len(checks[0].Output.Annotations) != 120 {
		t.Errorf("checks: %+v", checks)
	}
	s.Resolve(ref.Repository, ref.Number, reviews[0].Comments[1].ID)
	posted, err := client.Posted(t.Context(), ref)
	if want := []review.PostedComment{{Body: "one"}, {Body: "two", Resolved: true}}; err != nil || posted.Summary != marker+" round 1" || !slices.Equal(posted.Comments, want) {
		t.Errorf("posted: %+v, %v", posted, err)
	}
}

// An answer that is lost, and a crash while it was awaited, double nothing, and lose nothing.
func TestLostAnswers(t *testing.T) {
	for name, done := range map[string]bool{"it was done": true, "it was not": false} {
		s, c := start(t)
		sent := &outbox{now: c.Now, open: map[string]time.Time{}}
		client := asApp(t, s, c, sent)
		s.Fail(githubtest.Fault{Method: "POST", Part: "/reviews", Done: done})
		if err := client.PostReview(t.Context(), ref, aReview("<!-- r1 -->")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(s.Reviews(ref.Repository, ref.Number)); n != 1 {
			t.Errorf("%s: %d reviews", name, n)
		}
		if !done && c.total() < settleTime {
			t.Errorf("%s: it was repeated after %s", name, c.total())
		}
	}
}

// After a crash the next one waits until what is under way shows itself.
func TestAnIntentOfBefore(t *testing.T) {
	s, c := start(t)
	sent := &outbox{now: c.Now, open: map[string]time.Time{}}
	ctx, crash := context.WithCancel(t.Context())
	reached, hold := make(chan struct{}), make(chan struct{})
	s.Fail(githubtest.Fault{Method: "POST", Part: "/reviews", Done: true, Hold: hold, Reached: reached})
	go func() { <-reached; crash() }()
	if err := asApp(t, s, c, sent).PostReview(ctx, ref, aReview("<!-- r1 -->")); err == nil || len(sent.open) != 1 {
		t.Fatalf("%v, %d intents", err, len(sent.open))
	}
	close(hold)
	if err := asApp(t, s, c, sent).PostReview(t.Context(), ref, aReview("<!-- r1 -->")); err != nil || len(sent.open) != 0 {
		t.Errorf("%v, %d intents", err, len(sent.open))
	}
	if n := len(s.Requests("POST", "/reviews")); n != 1 {
		t.Errorf("%d posts", n)
	}
}

func TestLimitsAreHonoured(t *testing.T) {
	cases := map[string]struct {
		limit func(s *githubtest.Server, c *clock)
		least time.Duration
		code  nightcrier.Code
	}{
		"secondary, with a time":   {func(s *githubtest.Server, _ *clock) { s.LimitSecondary(2, 40) }, 80 * time.Second, ""},
		"secondary, without one":   {func(s *githubtest.Server, _ *clock) { s.LimitSecondary(1, 0) }, time.Minute, ""},
		"secondary, for too long":  {func(s *githubtest.Server, _ *clock) { s.LimitSecondary(9, 400) }, 0, nightcrier.Exhausted},
		"primary, far away":        {func(s *githubtest.Server, c *clock) { s.SetLimit(&githubtest.Limit{Reset: c.Now().Add(time.Hour)}) }, 0, nightcrier.Exhausted},
		"unavailable for a moment": {func(s *githubtest.Server, _ *clock) { s.Fail(githubtest.Fault{Times: 2, Status: 503}) }, time.Second, ""},
		"unavailable":              {func(s *githubtest.Server, _ *clock) { s.Fail(githubtest.Fault{Times: 99, Status: 503}) }, 0, nightcrier.Unreachable},
		"cut connections":          {func(s *githubtest.Server, _ *clock) { s.Fail(githubtest.Fault{Times: 2}) }, time.Second, ""},
		"a redirect is not followed": {func(s *githubtest.Server, _ *clock) {
			s.Fail(githubtest.Fault{Times: 99, Status: 301, Header: http.Header{"Location": {s.URL + "/evil"}}})
		}, 0, nightcrier.NotFound},
		"an answer without end": {func(s *githubtest.Server, _ *clock) {
			s.Fail(githubtest.Fault{Times: 99, Status: 200, Body: strings.Repeat("x", maxAnswer+1)})
		}, 0, nightcrier.Exhausted},
		"no JSON": {func(s *githubtest.Server, _ *clock) { s.Fail(githubtest.Fault{Status: 200, Body: "<html>"}) }, 0, nightcrier.Unreachable},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s, c := start(t)
			test.limit(s, c)
			told := 0
			client := asToken(t, s, c).Telling(func(string) { told++ })
			_, err := client.Pull(t.Context(), ref)
			if nightcrier.CodeOf(err) != test.code || c.total() < test.least {
				t.Errorf("%v after %s", err, c.total())
			}
			if strings.HasPrefix(name, "secondary, with") && told == 0 {
				t.Error("nobody was told")
			}
			if err != nil && strings.Contains(err.Error(), s.Token) {
				t.Errorf("the token is in %v", err)
			}
			if n := len(s.Requests("", "/evil")); n != 0 {
				t.Error("the redirect was followed")
			}
		})
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	s, c := start(t)
	s.Fail(githubtest.Fault{Method: "POST", Part: "/reviews", Status: 403, Body: `{"message":"Resource not accessible by integration"}`, Header: http.Header{"X-Accepted-GitHub-Permissions": {"pull_requests=write"}}})
	err := asApp(t, s, c, nil).PostReview(t.Context(), ref, aReview("<!-- r -->"))
	if nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), "the permission pull_requests=write is missing") {
		t.Errorf("%v", err)
	}
	off := aReview("<!-- r -->")
	off.Comments[0].Line, off.Comments[0].Start = 99, 0
	err = asApp(t, s, c, nil).PostReview(t.Context(), ref, off)
	if nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "line must be part of the diff") {
		t.Errorf("%v", err)
	}
	wrong, err := New(Options{BaseURL: s.URL, Token: "wrong-token", Now: c.Now, Sleep: c.Sleep})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Pull(t.Context(), ref); nightcrier.CodeOf(err) != nightcrier.Unreachable || strings.Contains(err.Error(), "wrong-token") {
		t.Errorf("%v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v", wrong, wrong, wrong); strings.Contains(text, "wrong-token") {
		t.Errorf("%s", text)
	}
}

// Tokens of an App are for one repository, are used again, and are renewed when they end.
func TestTokensOfAnApp(t *testing.T) {
	s, c := start(t)
	s.AddPull(githubtest.Pull{Repository: "shop/till", Number: 1, Base: base, Head: head, Diff: diff})
	client := asApp(t, s, c, nil)
	pull := func(ref review.Ref, tokens int) {
		t.Helper()
		if _, err := client.Pull(t.Context(), ref); err != nil {
			t.Error(err)
		}
		if n := len(s.Requests("POST", "/access_tokens")); n != tokens {
			t.Errorf("%d tokens were asked for, not %d", n, tokens)
		}
	}
	pull(ref, 1)
	pull(ref, 1)
	pull(review.Ref{Repository: "shop/till", Number: 1}, 2)
	s.ExpireTokens()
	pull(ref, 3)
	c.now = c.now.Add(56 * time.Minute)
	_, err := client.Pull(t.Context(), ref) // the fake's own clock refuses a signature of an hour ahead
	if n := len(s.Requests("POST", "/access_tokens")) + len(s.Requests("GET", "/installation")); err == nil || n < 7 {
		t.Errorf("an old token is used: %v, %d", err, n)
	}
	if _, err := client.Pull(t.Context(), review.Ref{Repository: "shop/secret", Number: 1}); nightcrier.CodeOf(err) != nightcrier.Unreachable && nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("%v", err)
	}
}

// What has not changed is not sent again.
func TestUnchangedAnswers(t *testing.T) {
	s, c := start(t)
	client := asToken(t, s, c)
	for range 3 {
		if pull, err := client.Pull(t.Context(), ref); err != nil || pull.Title != "Raise a" {
			t.Errorf("%+v, %v", pull, err)
		}
	}
	s.Push(ref.Repository, ref.Number, next, diff, diff)
	if pull, err := client.Pull(t.Context(), ref); err != nil || pull.Head != next {
		t.Errorf("%+v, %v", pull, err)
	}
}

func TestWhoMayWrite(t *testing.T) {
	s, c := start(t)
	client := asToken(t, s, c)
	for login, permission := range map[string]string{"alice": "write", "root": "admin", "bob": "read", "eve": "none"} {
		s.SetPermission(ref.Repository, login, permission)
		if yes, err := client.MayWrite(t.Context(), ref.Repository, login); err != nil || yes != (permission == "write" || permission == "admin") {
			t.Errorf("%s: %v, %v", login, yes, err)
		}
	}
	s.Fail(githubtest.Fault{Part: "/permission", Status: 404, Body: `{"message":"Not Found"}`})
	if yes, err := client.MayWrite(t.Context(), ref.Repository, "stranger"); yes || err != nil {
		t.Errorf("%v, %v", yes, err)
	}
}

func TestChecksByAToken(t *testing.T) {
	s, c := start(t)
	if err := asToken(t, s, c).PutCheck(t.Context(), ref, aCheck(3)); err != nil {
		t.Fatal(err)
	}
	if got := s.Statuses(ref.Repository); len(got) != 1 || got[0].State != "success" || got[0].Context != "nightcrier/reviewer" {
		t.Errorf("%+v", got)
	}
}

func TestEnterprise(t *testing.T) {
	var paths []string
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		w.Write([]byte(`{"login":"me"}`))
	}))
	t.Cleanup(h.Close)
	client, err := New(Options{BaseURL: h.URL + "/api/v3/", Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Login(t.Context())
	_, graphErr := client.listThreads(t.Context(), ref)
	if errors.Join(err, graphErr) != nil || !slices.Equal(paths, []string{"/api/v3/user", "/api/graphql"}) {
		t.Errorf("%q, %v, %v", paths, err, graphErr)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing": {}, "both": {Token: "x", AppID: 1}, "no key": {AppID: 1, PrivateKey: []byte("x")}, "plain": {BaseURL: "http://github.test", Token: "x"},
		"credential": {BaseURL: "https://u:p@github.test", Token: "x"}, "no address": {BaseURL: "github", Token: "x"},
	} {
		if _, err := New(o); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
