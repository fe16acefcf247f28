// Package github takes the webhooks of a GitHub App or repository. What is signed with the secret
// that GitHub and we share becomes an [Event]; what starts nothing is answered with the reason.
package github

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Mentioned is the action of a comment that speaks to us.
const Mentioned = "mentioned"

// Bounds of what is kept of a text that somebody wrote, in bytes.
const (
	maxTitle = 1 << 10
	maxBody  = 64 << 10
)

// Event is what happened to a pull request. Its JSON is the input of the run that it starts.
type Event struct {
	DeliveryID string `json:"delivery_id"`
	Action     string `json:"action"`
	Number     int    `json:"pr_number"`
	URL        string `json:"pr_url"`
	Title      string `json:"pr_title"`
	Body       string `json:"pr_body"`
	DiffURL    string `json:"diff_url"`
	HeadBranch string `json:"head_branch"`
	BaseBranch string `json:"base_branch"`
	HeadSHA    string `json:"head_sha"`
	Repository string `json:"repo"`
	Sender     string `json:"sender"`
	// Comment is the comment that mentions us, 0 for none; Question what it says. Thread is what is
	// answered in: 0 is the pull request itself.
	Comment  int64  `json:"comment_id,omitempty"`
	Thread   int64  `json:"thread_id,omitempty"`
	Question string `json:"question,omitempty"`
	// Digest is that of the payload: what is delivered again has the same.
	Digest string `json:"-"`
}

// payload is what is read of a delivery.
type payload struct {
	Action     string
	Number     int
	Repository *struct {
		FullName string `json:"full_name"`
	}
	Sender      *account
	PullRequest *pull `json:"pull_request"`
	Issue       *struct {
		Number      int
		Title, Body string
		State       string
		PullRequest *struct {
			URL string `json:"html_url"`
		} `json:"pull_request"`
	}
	Comment *struct {
		ID        int64
		Body      string
		InReplyTo int64 `json:"in_reply_to_id"`
		User      *account
	}
}

type account struct{ Login, Type string }

type pull struct {
	Number      int
	Title, Body string
	State       string
	Draft       bool
	URL         string `json:"html_url"`
	DiffURL     string `json:"diff_url"`
	Head, Base  struct{ Ref, SHA string }
}

// isBot reports whether an account is a program's.
func (a *account) isBot() bool {
	return !strings.EqualFold(a.Type, "User") || strings.HasSuffix(strings.ToLower(a.Login), "[bot]")
}

// ignored is why a delivery starts nothing.
type ignored struct{ reason string }

func (i *ignored) Error() string { return i.reason }

func ignore(format string, args ...any) error { return &ignored{fmt.Sprintf(format, args...)} }

func lacks(field string) error {
	return nightcrier.Errorf(nightcrier.Invalid, "the payload lacks %s, or it is none that GitHub sends", field)
}

// readEvent reads a delivery of a kind. The error is an ignored one for what starts nothing, else it
// names what is wrong with the payload.
func (h *Hook) readEvent(kind string, body []byte) (Event, error) {
	switch kind {
	case "pull_request", "issue_comment", "pull_request_review_comment":
	default:
		return Event{}, ignore("events of the kind %.64q start nothing", kind)
	}
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return Event{}, nightcrier.Errorf(nightcrier.Invalid, "the payload is not as GitHub sends it: %.200s", err)
	}
	e := Event{Action: p.Action}
	switch {
	case p.Repository == nil || !isRepository(p.Repository.FullName):
		return e, lacks("repository.full_name")
	case p.Sender == nil || !isLogin(p.Sender.Login):
		return e, lacks("sender.login")
	case p.Action == "":
		return e, lacks("action")
	case p.Sender.isBot():
		return e, ignore("it was sent by the bot %s", p.Sender.Login)
	}
	e.Repository, e.Sender = p.Repository.FullName, p.Sender.Login
	if kind == "pull_request" {
		return e, h.readPull(&e, &p)
	}
	return e, h.readComment(&e, &p)
}

// readPull reads what happened to a pull request.
func (h *Hook) readPull(e *Event, p *payload) error {
	if err := e.fill(p.PullRequest); err != nil {
		return err
	}
	switch {
	case p.PullRequest.State != "open" && p.PullRequest.State != "closed":
		return lacks("pull_request.state")
	case p.PullRequest.State == "closed":
		return ignore("the pull request is closed")
	case p.PullRequest.Draft && !h.cfg.Drafts:
		return ignore("it is a draft, and github.drafts is off")
	}
	return nil
}

// fill takes over what is known of the pull request.
func (e *Event) fill(p *pull) error {
	switch {
	case p == nil || p.Number < 1:
		return lacks("pull_request.number")
	case !isCommit(p.Head.SHA):
		return lacks("pull_request.head.sha")
	case p.Base.Ref == "" || p.Head.Ref == "":
		return lacks("pull_request.base.ref and head.ref")
	}
	e.Number, e.HeadSHA = p.Number, p.Head.SHA
	e.Title, e.Body = text.CutLine(p.Title, maxTitle), text.CutBytes(p.Body, maxBody)
	e.URL, e.DiffURL = text.CutLine(p.URL, maxTitle), text.CutLine(p.DiffURL, maxTitle)
	e.HeadBranch, e.BaseBranch = text.CutLine(p.Head.Ref, maxTitle), text.CutLine(p.Base.Ref, maxTitle)
	return nil
}

// readComment reads a comment, which says something to us where it mentions us.
func (h *Hook) readComment(e *Event, p *payload) error {
	switch {
	case p.Comment == nil || p.Comment.ID < 1 || p.Comment.User == nil:
		return lacks("comment")
	case p.Action != "created":
		return ignore("only a new comment says something to us, this one is %.32s", p.Action)
	case p.Comment.User.Login != e.Sender:
		return ignore("the comment is not its sender's")
	}
	question, ok := h.questionIn(p.Comment.Body)
	if !ok {
		return ignore("the comment does not mention @%s", h.cfg.Mention)
	}
	e.Action, e.Comment, e.Question = Mentioned, p.Comment.ID, text.CutBytes(question, maxBody)
	if p.Issue == nil {
		e.Thread = p.Comment.ID
		if p.Comment.InReplyTo > 0 {
			e.Thread = p.Comment.InReplyTo
		}
		return e.fill(p.PullRequest)
	}
	switch {
	case p.Issue.Number < 1:
		return lacks("issue.number")
	case p.Issue.PullRequest == nil:
		return ignore("the comment is on an issue, not on a pull request")
	case p.Issue.State == "closed":
		return ignore("the pull request is closed")
	}
	e.Number, e.URL = p.Issue.Number, text.CutLine(p.Issue.PullRequest.URL, maxTitle)
	e.Title, e.Body = text.CutLine(p.Issue.Title, maxTitle), text.CutBytes(p.Issue.Body, maxBody)
	return nil
}

// questionIn returns what follows a mention of us at the beginning of a line, outside of quotations
// and code.
func (h *Hook) questionIn(body string) (string, bool) {
	fenced := false
	for rest := body; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		bare := strings.TrimSpace(line)
		if strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~") {
			fenced = !fenced
		}
		if !fenced && h.mention.MatchString(bare) {
			said := h.mention.ReplaceAllString(bare, "") + "\n" + after
			return strings.TrimSpace(said), true
		}
		rest = after
	}
	return "", false
}

// mentionOf matches our name at the beginning of a line.
func mentionOf(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)^@` + regexp.QuoteMeta(name) + `(?:\[bot\])?(?:[:,]|\s|$)`)
}

// isCommit takes the whole name of one.
func isCommit(s string) bool {
	return (len(s) == 40 || len(s) == 64) && !strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// isRepository takes owner/name, of which neither leads elsewhere.
func isRepository(s string) bool {
	owner, name, ok := strings.Cut(s, "/")
	return ok && isPart(owner) && isPart(name)
}

func isLogin(s string) bool { return isPart(strings.TrimSuffix(s, "[bot]")) }

func isPart(s string) bool {
	return s != "" && len(s) <= 100 && !slices.Contains([]string{".", ".."}, s) && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	})
}
