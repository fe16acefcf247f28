package github

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/platform/review"
	"nightcrier.dev/nightcrier/internal/text"
)

// GitHub takes so many annotations at once, and so much of what a commit's status says, in characters.
const (
	maxAnnotations = 50
	maxStatus      = 140
)

// checkRun is a check as GitHub takes it.
type checkRun struct {
	Name       string            `json:"name,omitempty"`
	HeadSHA    string            `json:"head_sha,omitempty"`
	ExternalID string            `json:"external_id,omitempty"`
	Status     string            `json:"status"`
	Conclusion review.Conclusion `json:"conclusion"`
	Output     checkOutput       `json:"output"`
}

type checkOutput struct {
	Title       string       `json:"title"`
	Summary     string       `json:"summary"`
	Annotations []annotation `json:"annotations,omitempty"`
}

type annotation struct {
	Path    string `json:"path"`
	Start   int    `json:"start_line"`
	End     int    `json:"end_line"`
	Level   string `json:"annotation_level"`
	Title   string `json:"title,omitempty"`
	Message string `json:"message"`
}

// knownCheck is a check run that is there.
type knownCheck struct {
	ID         int64
	ExternalID string `json:"external_id"`
	App        struct{ ID int64 }
	Output     struct {
		Count int `json:"annotations_count"`
	}
}

// PutCheck implements review.Writer. Only Apps may write checks; by a token it is the status of
// the commit, which has no annotations.
func (c *Client) PutCheck(ctx context.Context, ref review.Ref, k review.Check) error {
	if !isCommit(k.Head) {
		return nightcrier.Errorf(nightcrier.Invalid, "%.64q is no commit", k.Head)
	}
	at, err := pullPath(ref, "")
	if err != nil {
		return err
	}
	if c.access.appID() == 0 {
		return c.putStatus(ctx, ref, at, k)
	}
	var have knownCheck
	find := func() (bool, error) {
		var in struct {
			CheckRuns []knownCheck `json:"check_runs"`
		}
		_, err := c.get(ctx, ref.Repository, at+"/commits/"+k.Head+"/check-runs", url.Values{"check_name": {k.Name}, "per_page": {strconv.Itoa(pageSize)}, "filter": {"all"}}, &in)
		for _, one := range in.CheckRuns {
			if one.ExternalID == k.ExternalID && one.App.ID == c.access.appID() {
				have = one
				return true, err
			}
		}
		return false, err
	}
	run := checkRun{Name: k.Name, HeadSHA: k.Head, ExternalID: k.ExternalID, Status: "completed", Conclusion: k.Conclusion, Output: checkOutput{Title: k.Title, Summary: k.Summary}}
	all := make([]annotation, 0, len(k.Annotations))
	for _, a := range k.Annotations {
		all = append(all, annotation(a))
	}
	post := func() error {
		run.Output.Annotations = all[:min(len(all), maxAnnotations)]
		return c.send(ctx, http.MethodPost, ref.Repository, at+"/check-runs", run, &have)
	}
	if err := c.postOnce(ctx, postKey("check", ref, k.ExternalID), find, post); err != nil {
		return err
	}
	// GitHub adds the annotations of each further request to those that are there.
	run.Name, run.HeadSHA, run.ExternalID = "", "", ""
	for from := have.Output.Count; from < len(all); from += maxAnnotations {
		run.Output.Annotations = all[from:min(len(all), from+maxAnnotations)]
		if err := c.send(ctx, http.MethodPatch, ref.Repository, at+"/check-runs/"+strconv.FormatInt(have.ID, 10), run, nil); err != nil {
			return err
		}
	}
	return nil
}

// putStatus sets the status of a commit; the newest of a name counts.
func (c *Client) putStatus(ctx context.Context, ref review.Ref, at string, k review.Check) error {
	state := "success"
	if k.Conclusion == review.Failure {
		state = "failure"
	}
	in := map[string]string{"state": state, "context": k.Name, "description": text.CutRunes(k.Title, maxStatus)}
	return c.send(ctx, http.MethodPost, ref.Repository, at+"/statuses/"+k.Head, in, nil)
}
