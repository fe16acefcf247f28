package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/kept"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/recorded"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage"
	"nightcrier.dev/nightcrier/internal/triage/runbook"
)

// setStage puts the recorded cluster, and the recorded model where no other is asked,
// where an agent's guards will look for them. Both are on this machine alone; done ends
// them.
func (r *replayer) setStage(dir string, cfg *config.Config) (done func(), err error) {
	var undo []func() error
	done = func() {
		for _, f := range undo {
			_ = f() // nothing is lost by it
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	if err := r.useRecordedSkills(cfg); err != nil {
		return done, err
	}
	r.cluster = r.rec.Cluster()
	if r.o.Another {
		r.cluster.Also = r.answerFromObjects()
	}
	can := r.begun.Access
	if r.why = can.Why; can.Granted {
		up := guardkube.Upstream{Base: &url.URL{Scheme: "https", Host: replay.Host}, Transport: r.cluster, Recorded: true}
		api, err := recorded.Serve(up, r.begun.Incident.Namespace(), r.o.Logger)
		if err != nil {
			return done, err
		}
		undo = append(undo, api.Close)
		raw, err := os.ReadFile(api.Kubeconfig)
		if err != nil {
			return done, nightcrier.Errorf(nightcrier.Internal, "kubeconfig of the recorded cluster: %w", err)
		}
		r.access = &backend.Credential{Kubeconfig: raw, Namespaces: can.Namespaces, Recorded: true}
		if r.o.Another {
			cfg.Clusters[0].Kubeconfig, cfg.Clusters[0].Namespaces = api.Kubeconfig, can.Namespaces // its report's tests ask what nobody asked then
		}
	}
	if r.o.Another {
		return done, nil
	}
	stop, err := r.serveModel(dir, cfg)
	undo = append(undo, stop)
	return done, err
}

// readRecorded has runs find the record in the place of what was outside of the recorded one.
func (r *replayer) readRecorded(c *triage.Triage) {
	c.Clusters, c.Memory = recordedClusters{c.Clusters, r}, recordedMemory{r}
	if r.skill != nil {
		all := skill.Put(append([]*skill.Skill{c.Skill}, c.Include...), r.skill)
		c.Skill, c.Include = all[0], all[1:]
	}
}

// recordedOrder is what the recorded run was told to do, as far as that is done: its steps are
// those of the configured pipeline, and its time is not over.
func (r *replayer) recordedOrder(now run.Order) run.Order {
	then := r.begun.Order
	then.Pipeline, then.Unready, then.Input, then.Delivered, then.Deadline = now.Pipeline, now.Unready, nil, nil, now.Deadline
	return then
}

// recordedClusters are the one cluster of the record. Live is the recorded API server, which
// answers what the record has no tape for.
type recordedClusters struct {
	live triage.Clusters
	*replayer
}

// Look implements triage.Clusters.
func (c recordedClusters) Look(l triage.Look) (triage.View, error) {
	then := c.tapes[l.Step]
	if then == nil {
		view, err := c.live.Look(l)
		view.Now = c.timeThen()
		return view, err
	}
	step, err := kept.BeginStep(l.Workspace, l.RunID, l.Step, c.o.Version, l.Mask)
	if err != nil {
		return triage.View{}, err
	}
	view, err := step.Again(then)
	return triage.View{Cluster: view, Close: step.Close}, err
}

// Access implements triage.Clusters.
func (c recordedClusters) Access(context.Context, string, string) (*backend.Credential, string) {
	return c.access, c.why
}

// Context implements triage.Clusters.
func (c recordedClusters) Context(string) string { return c.begun.Context }

// Labels implements triage.Clusters. What was found by them is in the record.
func (c recordedClusters) Names() []string { return nil }

func (c recordedClusters) Labels(string) map[string]string { return nil }

// timeThen is when the facts were collected.
func (r *replayer) timeThen() (at time.Time) {
	_ = r.tapes[replay.Prepare].Peek(replay.Now, &at) // a tape without it answers nothing
	return at
}

// recordedMemory is what people had written for the case, and what an earlier incident had
// come to.
type recordedMemory struct{ *replayer }

// For implements triage.Memory.
func (m recordedMemory) For(context.Context, runbook.Case) ([]nightcrier.Runbook, []error) {
	return slices.Clone(m.facts.Runbooks), nil
}

// Recall implements triage.Memory.
func (m recordedMemory) Recall(_ context.Context, _ string, cause nightcrier.RootCause) (store.Recollection, error) {
	then := m.facts.Recalled
	if then == nil || then.Cause != cause.Cause || then.Object != cause.Object {
		return store.Recollection{}, nightcrier.Errorf(nightcrier.NotFound, "no earlier incident of this diagnosis is on record")
	}
	return store.Recollection{Incident: nightcrier.Incident{ID: then.IncidentID, CreatedAt: then.At, RootCause: then.Summary}, Notes: then.Notes}, nil
}

// triageScript is the one that is configured here, "" for none: a record does not say what is
// run.
func (r *replayer) triageScript() string {
	_, path, _ := r.o.Config.Skills.Find() // without skills here there is none
	return path
}

// readJSON reads a file of a record.
func readJSON(rec *replay.Record, name string, into any) error {
	raw, err := rec.File(name)
	if err == nil && raw == nil {
		err = fmt.Errorf("%s is missing", name)
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "%s in %s: %w", name, rec.Dir(), err)
	}
	return nil
}

// useRecordedSkills takes those that the agent had then: their copies.
func (r *replayer) useRecordedSkills(cfg *config.Config) error {
	at, copies, err := r.rec.List(".claude", "skills")
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "the skills that the agent had: %w", err)
	}
	cfg.Skills = config.Skills{Sources: []skill.Source{{Path: at}}, DisableTriagePreload: cfg.Skills.DisableTriagePreload}
	for _, c := range copies {
		if !c.IsDir() {
			return nightcrier.Errorf(nightcrier.Invalid, "the skills that the agent had: %s is no directory", filepath.Join(at, c.Name()))
		}
		if c.Name() != skill.Troubleshooter {
			cfg.Skills.Include = append(cfg.Skills.Include, c.Name())
		}
	}
	return nil
}

// notAKey is what the guard holds where the model is a recorded one.
const notAKey = "nightcrier-replay-needs-no-key"

// serveModel serves the recorded model on loopback.
func (r *replayer) serveModel(dir string, cfg *config.Config) (func() error, error) {
	var err error
	if r.model, err = r.rec.Model(r.workspaceThen(), r.workspaceDir(dir), time.Now().Format(time.DateOnly)); err != nil {
		return doNothing, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return doNothing, nightcrier.Errorf(nightcrier.Exhausted, "listen: %w", err)
	}
	srv := &http.Server{Handler: r.model, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			r.o.Logger.Error("the recorded model cannot be asked any more", "error", err)
		}
	}()
	order := &r.begun.Order
	order.Agent.BaseURL = fmt.Sprintf("http://%s", l.Addr())
	cfg.Agent.Executor, cfg.Agent.Provider = order.Agent.Executor, cmp.Or(order.Agent.Provider, nightcrier.Anthropic)
	cfg.Agent.APIKey = config.Secret{}
	if r.model.Speaks() || order.Agent.Executor != config.Script {
		cfg.Agent.APIKey = config.NewSecret(notAKey)
	}
	return func() error { return srv.Shutdown(context.Background()) }, nil
}

// workspaceThen is where the files were. What else a record calls so would be replaced
// wherever it stands.
func (r *replayer) workspaceThen() string {
	name := "incident-" + r.begun.Incident.ID
	if then := r.begun.Workspace; filepath.IsAbs(then) && filepath.Base(then) == name {
		return then
	}
	return filepath.Join(filepath.Dir(r.rec.Dir()), name)
}

func doNothing() error { return nil }
