package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"

	"nightcrier.dev/nightcrier"
	ingest "nightcrier.dev/nightcrier/internal/ingest/github"
	"nightcrier.dev/nightcrier/internal/platform/github"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// openGitHub makes what speaks with GitHub, where it is configured.
func (a *Investigator) openGitHub(context.Context) error {
	g := &a.cfg.GitHub
	if !g.IsSet() {
		return nil
	}
	o := github.Options{BaseURL: g.BaseURL, Token: g.Token.Reveal(), AppID: int64(g.AppID), Sent: a.store}
	if g.AppID != 0 {
		key, err := os.ReadFile(g.KeyFile)
		if err != nil {
			return nightcrier.Errorf(nightcrier.Invalid, "github.private_key_file: %w", err)
		}
		o.PrivateKey = key
	}
	client, err := github.New(o)
	a.github = client
	return err
}

// GitHub speaks with GitHub; nil where it is not configured.
func (a *Investigator) GitHub() *github.Client { return a.github }

// addGitHub adds the address that GitHub posts to. Other machines see it only where its senders
// can be told.
func (a *App) addGitHub(local, public *http.ServeMux) {
	cfg := ingest.Config{Secret: a.cfg.GitHub.WebhookSecret.Reveal(), Drafts: a.cfg.GitHub.Drafts, Mention: a.cfg.GitHub.Mention,
		Start: a.startPull, Logger: a.log.With("component", "github")}
	if a.github != nil {
		cfg.MayWrite = a.github.MayWrite
	}
	hook := ingest.New(cfg)
	local.Handle("POST "+ingest.Path, hook)
	if cfg.Secret != "" {
		public.Handle("POST "+ingest.Path, hook)
	}
}

// startPull queues a run of each pipeline that is for what happened to a pull request. A delivery
// that comes again queues none: the ids follow from its payload, since nobody signs the id of a
// delivery.
func (a *App) startPull(ctx context.Context, e ingest.Event) (ingest.Started, error) {
	var started ingest.Started
	started.Reason = fmt.Sprintf("no pipeline is for the action %.64s in %s", e.Action, e.Repository)
	input, err := json.Marshal(e)
	if err != nil {
		return started, err
	}
	for _, found := range a.pipelines.Library().List() {
		if !slices.ContainsFunc(found.On, func(t pipeline.Trigger) bool { return t.IsForPull(e.Action, e.Repository, e.BaseBranch) }) {
			continue
		}
		n := store.NewRun{ID: nightcrier.DerivedID("github", e.Digest, found.Name), Pipeline: found.Name, Input: input, TriggeredBy: "github:" + e.Sender,
			Subject: nightcrier.Subject{Kind: nightcrier.SubjectPullRequest, ID: e.Repository + "#" + strconv.Itoa(e.Number), Title: e.Title}}
		if err := a.completeRun(ctx, &n); err != nil {
			started.Reason = err.Error()
			a.log.Warn("a pipeline cannot look at a pull request", "component", "github", "event", "github_pipeline", "pipeline", found.Name, "subject", n.Subject.ID, "error", err)
			continue
		}
		if n.Key == "" {
			n.Key, n.Policy = pullKey(e), store.CancelPrevious
		}
		queued, err := a.store.EnqueueRun(ctx, n)
		if err != nil {
			return started, err
		}
		a.tellEnqueued(ctx, queued)
		started.Runs = append(started.Runs, queued.Run.ID)
		if queued.Repeated {
			started.Repeated++
		}
	}
	return started, nil
}

// pullKey is what may not run twice at once where a pipeline does not say: a newer push takes the
// place of an older one, and a question that of none.
func pullKey(e ingest.Event) string {
	key := "github:" + e.Repository + "#" + strconv.Itoa(e.Number)
	if e.Comment != 0 {
		key += ":" + strconv.FormatInt(e.Comment, 10)
	}
	return key
}
