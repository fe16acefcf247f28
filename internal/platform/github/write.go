package github

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/platform/review"
)

var _ review.Writer = (*Client)(nil)

// Outbox records what is written before it is: an intent whose end nobody recorded may have come
// to GitHub.
type Outbox interface {
	// BeginPost records the intent, and returns when one of the same key was begun before and did
	// not end; zero where there is none.
	BeginPost(ctx context.Context, key string) (earlier time.Time, err error)
	// EndPost records that what was intended is there, or surely is not.
	EndPost(ctx context.Context, key string, there bool, detail string) error
}

type noOutbox struct{}

func (noOutbox) BeginPost(context.Context, string) (time.Time, error) { return time.Time{}, nil }
func (noOutbox) EndPost(context.Context, string, bool, string) error  { return nil }

// What was sent and not answered shows within settleTime, or never was done. It is looked for
// every settleStep.
const (
	settleTime = 20 * time.Second
	settleStep = 4 * time.Second
	endTime    = 10 * time.Second
)

// postOnce makes what find does not find, once over any crash. What may be under way from before is
// given the time to show itself.
func (c *Client) postOnce(ctx context.Context, key string, find func() (bool, error), post func() error) error {
	earlier, err := c.sent.BeginPost(ctx, key)
	if err != nil {
		return err
	}
	found, err := c.seek(ctx, earlier, find)
	for try := 1; err == nil && !found; try++ {
		begun := c.now()
		if err = post(); !errors.Is(err, errLost) || try == maxTries {
			break
		}
		c.tell("GitHub did not answer; looking whether it was done nevertheless")
		found, err = c.seek(ctx, begun, find)
	}
	if errors.Is(err, errLost) || nightcrier.CodeOf(err) == nightcrier.Interrupted {
		return err // the intent stays open: whoever comes next looks first
	}
	detail := ""
	if err != nil {
		detail = err.Error()
	}
	ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	return errors.Join(err, c.sent.EndPost(ended, key, err == nil, detail))
}

// seek looks for something, and where it may have been begun a moment ago until that has settled.
func (c *Client) seek(ctx context.Context, begun time.Time, find func() (bool, error)) (bool, error) {
	for {
		found, err := find()
		if found || err != nil || begun.IsZero() || c.now().Sub(begun) >= settleTime {
			return found, err
		}
		if !c.sleep(ctx, settleStep) {
			return false, nightcrier.Errorf(nightcrier.Interrupted, "stopped while looking for what was posted")
		}
	}
}

// postedComment is a review's comment as GitHub takes it.
type postedComment struct {
	Path      string      `json:"path"`
	Body      string      `json:"body"`
	Side      review.Side `json:"side"`
	Line      int         `json:"line"`
	StartSide review.Side `json:"start_side,omitempty"`
	StartLine int         `json:"start_line,omitempty"`
}

// PostReview implements review.Writer.
func (c *Client) PostReview(ctx context.Context, ref review.Ref, r review.Review) error {
	at, err := pullPath(ref, "/pulls/#/reviews")
	if err != nil {
		return err
	}
	if r.Marker == "" || !strings.Contains(r.Body, r.Marker) {
		return nightcrier.Errorf(nightcrier.Internal, "a review does not hold the marker that it is found by")
	}
	login, err := c.Login(ctx)
	if err != nil {
		return err
	}
	find := func() (bool, error) {
		all, err := listPages[comment](ctx, c, ref.Repository, at, nil)
		return slices.ContainsFunc(all, func(v comment) bool { return v.User.Login == login && strings.Contains(v.Body, r.Marker) }), err
	}
	in := struct {
		CommitID string          `json:"commit_id"`
		Event    review.Verdict  `json:"event"`
		Body     string          `json:"body"`
		Comments []postedComment `json:"comments,omitempty"`
	}{CommitID: r.Head, Event: r.Verdict, Body: r.Body}
	for _, one := range r.Comments {
		p := postedComment{Path: one.Path, Body: one.Body, Side: one.Side, Line: one.Line}
		if one.Start != 0 && one.Start != one.Line {
			p.StartLine, p.StartSide = one.Start, one.Side
		}
		in.Comments = append(in.Comments, p)
	}
	return c.postOnce(ctx, postKey("review", ref, r.Marker), find, func() error { return c.send(ctx, http.MethodPost, ref.Repository, at, in, nil) })
}

func postKey(kind string, ref review.Ref, marker string) string {
	return "github:" + kind + ":" + ref.Repository + "#" + strconv.Itoa(ref.Number) + ":" + marker
}

// bodyOf is the text of a comment.
type bodyOf struct {
	Body string `json:"body"`
}

// PutSummary implements review.Writer.
func (c *Client) PutSummary(ctx context.Context, ref review.Ref, s review.Summary) error {
	at, err := pullPath(ref, "/issues/#/comments")
	if err != nil {
		return err
	}
	if s.Marker == "" || !strings.HasPrefix(s.Body, s.Marker) {
		return nightcrier.Errorf(nightcrier.Internal, "a summary does not begin with the marker that it is found by")
	}
	var have comment
	find := func() (bool, error) {
		own, err := c.ownComments(ctx, ref)
		i := slices.IndexFunc(own, func(one comment) bool { return strings.HasPrefix(one.Body, s.Marker) })
		if i >= 0 {
			have = own[i]
		}
		return i >= 0, err
	}
	post := func() error { return c.send(ctx, http.MethodPost, ref.Repository, at, bodyOf{s.Body}, &have) }
	if err := c.postOnce(ctx, postKey("summary", ref, s.Marker), find, post); err != nil || have.Body == s.Body {
		return err
	}
	return c.send(ctx, http.MethodPatch, ref.Repository, "/repos/"+ref.Repository+"/issues/comments/"+strconv.FormatInt(have.ID, 10), bodyOf{s.Body}, nil)
}

// Reply answers in a thread of a pull request, once for each marker, which the body holds. The thread
// is that of a comment on a line; 0 answers below the pull request itself.
func (c *Client) Reply(ctx context.Context, ref review.Ref, thread int64, marker, body string) error {
	place, list := "/issues/#/comments", "/issues/#/comments"
	if thread != 0 {
		place, list = "/pulls/#/comments/"+strconv.FormatInt(thread, 10)+"/replies", "/pulls/#/comments"
	}
	at, err := pullPath(ref, place)
	if err != nil {
		return err
	}
	there, err := pullPath(ref, list)
	if err != nil {
		return err
	}
	if marker == "" || !strings.Contains(body, marker) {
		return nightcrier.Errorf(nightcrier.Internal, "an answer does not hold the marker that it is found by")
	}
	login, err := c.Login(ctx)
	if err != nil {
		return err
	}
	find := func() (bool, error) {
		all, err := listPages[comment](ctx, c, ref.Repository, there, nil)
		return slices.ContainsFunc(all, func(one comment) bool { return one.User.Login == login && strings.Contains(one.Body, marker) }), err
	}
	return c.postOnce(ctx, postKey("reply", ref, marker), find, func() error { return c.send(ctx, http.MethodPost, ref.Repository, at, bodyOf{body}, nil) })
}
