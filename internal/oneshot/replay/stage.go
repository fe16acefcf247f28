package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/recorded"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/run"
)

// setStage puts the recorded cluster, and the recorded model where no other is asked,
// where an agent's guards will look for them. Both are on this machine alone; done ends
// them.
func (r *replayer) setStage(dir string, cfg *config.Config, stage *app.Stage) (done func(), err error) {
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
	var can run.Access
	if err := r.tapes[replay.Prepare].Peek(run.TapeAccess, &can); err != nil && !r.o.Force {
		return done, err
	}
	r.cluster = r.rec.Cluster(r.ownRequests())
	if r.o.Another {
		r.cluster.Also = r.answerFromObjects()
	}
	if stage.Why = can.Why; can.Granted {
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
		stage.Access = &backend.Credential{Kubeconfig: raw, Namespaces: can.Namespaces, Recorded: true}
		if r.o.Another {
			cfg.Clusters[0].Kubeconfig, cfg.Clusters[0].Namespaces = api.Kubeconfig, can.Namespaces // its report's tests ask what nobody asked then
		}
	}
	if r.o.Another {
		return done, nil
	}
	stop, err := r.serveModel(dir, cfg, stage)
	undo = append(undo, stop)
	return done, err
}

// ownRequests are the requests of the steps before and after the agent's.
func (r *replayer) ownRequests() (all []journal.Request) {
	for _, step := range []string{replay.Prepare, replay.Test} {
		var list []journal.Request
		if err := r.tapes[step].Peek(run.TapeRequests, &list); err == nil {
			all = append(all, list...)
		}
	}
	return all
}

// useRecordedSkills takes those that the agent had then: their copies.
func (r *replayer) useRecordedSkills(cfg *config.Config) error {
	at := filepath.Join(r.rec.Dir(), ".claude", "skills")
	copies, err := os.ReadDir(at)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "the skills that the agent had: %w", err)
	}
	cfg.Skills = config.Skills{Sources: []skill.Source{{Path: at}}, DisableTriagePreload: cfg.Skills.DisableTriagePreload}
	for _, c := range copies {
		if c.IsDir() && c.Name() != skill.Troubleshooter {
			cfg.Skills.Include = append(cfg.Skills.Include, c.Name())
		}
	}
	return nil
}

// notAKey is what the guard holds where the model is a recorded one.
const notAKey = "nightcrier-replay-needs-no-key"

// serveModel serves the recorded model on loopback.
func (r *replayer) serveModel(dir string, cfg *config.Config, stage *app.Stage) (func() error, error) {
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
	agent := &stage.Order.Agent
	agent.BaseURL = fmt.Sprintf("http://%s", l.Addr())
	cfg.Agent.Executor, cfg.Agent.Provider = stage.Order.Agent.Executor, cmp.Or(agent.Provider, nightcrier.Anthropic)
	cfg.Agent.APIKey = config.Secret{}
	if r.model.Speaks() || stage.Order.Agent.Executor != config.Script {
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
