package app

import (
	"context"

	"nightcrier.dev/nightcrier/internal/agent"
)

// lookAtAgent tells of a server's agent in the background: some CLIs take seconds.
func (a *App) lookAtAgent(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	told := make(chan struct{})
	go func() {
		defer close(told)
		a.tellAgent(ctx)
	}()
	a.onStop("agent", func(context.Context) error {
		cancel()
		<-told
		return nil
	})
	return nil
}

// tellAgent logs once which CLI investigations will use, so that a change of it
// shows, and warns of a version that was not tested.
func (a *App) tellAgent(ctx context.Context) {
	cli, err := agent.For(a.cfg.Agent.Executor)
	if err != nil || cli.Command == "" {
		return
	}
	log := a.log.With("component", "app", "event", "agent_cli", "executor", cli.Name)
	found, err := cli.Find(ctx, a.cfg.Agent.Command)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.Warn("the agent's CLI cannot be used", "error", err, "hint", cli.Install())
	case !cli.Tested(found.Version):
		log.Warn("the agent's CLI is of a version that was not tested", "path", found.Path, "version", found.Version, "tested", cli.Versions)
	default:
		log.Info("the agent's CLI", "path", found.Path, "version", found.Version)
	}
	if a.cfg.Agent.Shell && agent.LacksKubectl(cli.Name) {
		log.Warn("kubectl is not in PATH: agents look into clusters with our tools, without a shell", "hint", "install kubectl, or set agent.shell to false")
	}
}
