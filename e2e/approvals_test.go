package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// The tokens of who may decide.
const (
	annToken = "token-of-ann-0123456789"
	bobToken = "token-of-bob-0123456789"
)

// asking starts the product with a pipeline that asks people and nobody else, and is known as who
// has a token.
func (h *house) asking(keys string, more ...func(*app.Options)) func(token string) *client.Client {
	h.Helper()
	dir := filepath.Join(filepath.Dir(h.root), "pipelines")
	h.must(os.MkdirAll(dir, 0o700))
	h.must(os.WriteFile(filepath.Join(dir, "release.yaml"), []byte("name: release\non: manual\nconcurrency: {key: '\"shop\"'}\nsteps:\n"+
		"- {id: ask, approval: {prompt: '\"Release \" + input.app + \"?\"'}, with: {app: input.app}}\n"), 0o600))
	_, err := h.load([]string{"ANN=" + annToken, "BOB=" + bobToken}, "listen: 127.0.0.1:0", "pipelines_dir: "+dir, "approvals: "+keys)
	h.must(err)
	h.run(func(o *app.Options) {
		for _, change := range more {
			change(o)
		}
	})
	return func(token string) *client.Client {
		c, err := client.HTTP("http://" + h.Addr())
		h.must(err)
		c.Token = token
		return c
	}
}

// asked has ann start the pipeline, and waits until it asks.
func (h *house) asked(c *client.Client) nightcrier.Approval {
	h.Helper()
	run, err := c.StartRun(h.t.Context(), "release", "", api.CallBody{InputData: []byte(`{"app": "shop"}`)})
	h.must(err)
	wake, stop := h.Store().WatchJournal(run.ID)
	defer stop()
	for {
		list, _, err := h.Store().Approvals(h.t.Context(), store.ApprovalFilter{RunID: run.ID})
		h.must(err)
		if len(list) > 0 {
			return list[0]
		}
		<-wake
	}
}

// ended waits for the end of a run.
func (h *house) runEnded(id string) nightcrier.Run {
	h.Helper()
	wake, stop := h.Store().WatchJournal(id)
	defer stop()
	for {
		run, err := h.Store().Run(h.t.Context(), id)
		h.must(err)
		if !run.Status.Open() {
			return run
		}
		<-wake
	}
}

func approvalEffects() map[string]func(*house) {
	return map[string]func(*house){
		"approvals.approvers": func(h *house) {
			as := h.asking("{approvers: {ann: ANN, bob: BOB}}")
			a := h.asked(as(annToken))
			h.want(a.RequestedBy == "ann" && a.Prompt == "Release shop?", "it asks %+v", a)
			_, err := as("").Approve(h.t.Context(), a.ID, api.ApproveBody{Digest: a.Digest})
			_, own := as(annToken).Approve(h.t.Context(), a.ID, api.ApproveBody{Digest: a.Digest})
			h.want(nightcrier.CodeOf(err) == nightcrier.Refused && nightcrier.CodeOf(own) == nightcrier.Refused, "nobody may: %v, ann may: %v", err, own)
			_, err = as(bobToken).Approve(h.t.Context(), a.ID, api.ApproveBody{Digest: a.Digest})
			h.must(err)
			run := h.runEnded(a.RunID)
			h.want(run.Outcome == nightcrier.StateSuccess, "it ended as %s: %s", run.Outcome, run.FailureReason)
		},
		"approvals.needed": func(h *house) {
			a := h.asked(h.asking("{approvers: {ann: ANN, bob: BOB}, needed: 2}")("")) // by nobody known
			h.want(a.Needed == 2, "%d are needed", a.Needed)
		},
		"approvals.expires": func(h *house) {
			a := h.asked(h.asking("{approvers: {bob: BOB}, expires: 1s}")(""))
			run := h.runEnded(a.RunID)
			h.want(run.Outcome == nightcrier.StateTimeout, "it ended as %s: %s", run.Outcome, run.FailureReason)
		},
	}
}

// A run that waits for people survives its server, keeps nobody off its key, and is decided once.
func TestAnApprovalOverARestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	as := h.asking("{approvers: {ann: ANN, bob: BOB}}")
	a := h.asked(as(annToken))
	own, err := as(annToken).StartRun(t.Context(), "release", "", api.CallBody{UserID: "bob", InputData: []byte(`{"app": "cart"}`)})
	h.want(err == nil && own.TriggeredBy == "ann", "ann started a run as %s: %v", own.TriggeredBy, err)
	_, err = as("").StartRun(t.Context(), "release", "", api.CallBody{UserID: "bob"})
	h.want(nightcrier.CodeOf(err) == nightcrier.Refused, "nobody known started a run as bob: %v", err)
	other := h.asked(as(annToken)) // the same key
	h.must(h.Stop(t.Context()))
	as = h.asking("{approvers: {ann: ANN, bob: BOB}}")
	for id, want := range map[string]nightcrier.State{a.ID: nightcrier.StateSuccess, other.ID: nightcrier.StateFailed} {
		got, err := as(bobToken).Approval(t.Context(), id)
		h.must(err)
		approve := func() error {
			_, err := as(bobToken).Approve(t.Context(), id, api.ApproveBody{Digest: got.Digest, Reason: "go"})
			return err
		}
		refuse := func() error {
			_, err := as(bobToken).Refuse(t.Context(), id, api.RefuseBody{Digest: got.Digest, Reason: "not on a Friday"})
			return err
		}
		first, second := approve, refuse
		if want == nightcrier.StateFailed {
			first, second = refuse, approve
		}
		h.must(first())
		run := h.runEnded(got.RunID)
		h.want(run.Outcome == want, "it ended as %s: %s", run.Outcome, run.FailureReason)
		h.must(first()) // changes nothing
		err = second()
		h.want(nightcrier.CodeOf(err) == nightcrier.Conflict, "it was decided otherwise: %v", err)
	}
	detail, err := as("").Approvals(t.Context(), client.ApprovalQuery{Status: "pending", Run: a.RunID})
	h.want(err == nil && len(detail.Approvals) == 0, "left are %+v, %v", detail, err)
}
