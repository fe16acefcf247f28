package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/check/doctor"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/telemetry"
	"nightcrier.dev/nightcrier/internal/face/ui"
	"nightcrier.dev/nightcrier/internal/oneshot"

	"github.com/spf13/cobra"
)

const (
	// stopTime bounds a stop, the end of all agents at a second signal included.
	stopTime = 2 * time.Minute
	// secondSignal is how long a second signal is waited for where agents run: a
	// stop that leaves them working takes next to no time.
	secondSignal = 3 * time.Second
)

func (p *program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "serve", Short: "Watch clusters and investigate their faults", Args: checkArgs(noArgs),
		Long: `Watches the configured clusters until it is told to stop.

The first SIGTERM or Ctrl-C stops taking work and leaves running agents working: the
next server takes them over. A second one stops the agents too.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runServer(cmd) }}
	configFlags(cmd)
	return cmd
}

// runServer runs the server until a signal, or until the store is lost.
func (p *program) runServer(cmd *cobra.Command) error {
	var masking telemetry.Masking
	cfg, log, err := p.loadLogging(cmd, &masking)
	if err != nil {
		return err
	}
	if text := p.nothingWatched(cfg); text != "" {
		log.Warn(text, "component", "config", "event", "no_clusters")
	}
	a, err := app.New(app.Options{Config: cfg, Logger: log, Version: buildVersion().Version, Masking: &masking, Doctor: doctorOf(cfg)})
	if err != nil {
		return err
	}
	if err := a.Start(cmd.Context()); err != nil {
		return err
	}
	if link := a.PageLink(); link != "" && p.messageWidth > 0 { // a log is read by others
		p.printMessage("The page; this link logs one browser in within 15 minutes, and `nightcrier page` prints another: %s", link)
	}
	select {
	case s := <-p.signals:
		return errors.Join(p.stopServer(cmd.Context(), a, log, s), interruptedError(s))
	case <-a.Lost():
		lost := nightcrier.Errorf(nightcrier.Conflict, "the store belongs to another process now; this one ends")
		return errors.Join(lost, a.Stop(cmd.Context()))
	}
}

// stopServer leaves agents working, unless a second signal comes in time.
func (p *program) stopServer(ctx context.Context, a *app.App, log *slog.Logger, first os.Signal) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	chance := time.After(secondSignal)
	leased, err := a.Store().LeasedRuns(ctx)
	log.Info("stopping; agents go on working", "component", "app", "event", "stopping", "signal", first.String(), "agents", len(leased))
	if err := errors.Join(err, a.Stop(ctx)); err != nil || len(leased) == 0 {
		return err
	}
	fmt.Fprintf(p.stderr, "nightcrier: agents go on working; a second signal within %s stops them\n", secondSignal)
	select {
	case <-chance:
		return nil
	case <-p.signals:
	}
	log.Warn("stopping agents", "component", "app", "event", "stopping_agents")
	return a.StopWorkers(ctx, "the server was told twice to stop")
}

// interruptedError is the exit of a foreground server that Ctrl-C has stopped; a
// service manager's SIGTERM is an ordinary end.
func interruptedError(s os.Signal) error {
	if s == os.Interrupt {
		return errSilent{nightcrier.Interrupted}
	}
	return nil
}

// usualFile is how the documentation calls the configuration file.
const usualFile = "nightcrier.yaml"

// nothingWatched says what to do where no cluster is configured, "" where one is.
func (p *program) nothingWatched(cfg *config.Config) string {
	if len(cfg.Clusters) > 0 {
		return ""
	}
	text := "no cluster is configured, so nothing is watched: name one in the file given with --config, or set K8S_CLUSTER_MCP_ENDPOINT"
	if _, err := os.Stat(usualFile); err == nil && p.configFile == "" && p.envVariable("NIGHTCRIER_CONFIG") == "" {
		text += "; " + usualFile + " in this directory is read only with --config " + usualFile
	}
	return text
}

// logFormat is the configured one, or the one for whoever reads the log.
func (p *program) logFormat(cfg *config.Config) string {
	switch {
	case cfg.Log.Format != "auto":
		return cfg.Log.Format
	case p.messageWidth > 0:
		return "people"
	}
	return "json"
}

// newLogger logs what a command that is no server has to say beside its result.
func (p *program) newLogger(level string) (*slog.Logger, error) {
	o := telemetry.LogOptions{Level: level, Format: "text", Colour: p.messageColour, Width: p.messageWidth}
	if p.messageWidth > 0 {
		o.Format = "people"
	}
	return telemetry.NewLogger(p.stderr, o)
}

// loadLogging reads the configuration and makes the logger that it asks for;
// warnings become log lines.
func (p *program) loadLogging(cmd *cobra.Command, masking *telemetry.Masking) (*config.Config, *slog.Logger, error) {
	cfg, warnings, err := p.loadWithWarnings(cmd)
	if err != nil {
		p.printWarnings(warnings)
		return nil, nil, err
	}
	log, err := telemetry.NewLogger(p.stderr, telemetry.LogOptions{Level: cfg.Log.Level, Format: p.logFormat(cfg), Colour: p.messageColour, Width: p.messageWidth, Mask: masking.String})
	if err != nil {
		return nil, nil, err
	}
	for _, w := range warnings {
		log.Warn(w.String(), "component", "config", "event", "config_warning")
	}
	return cfg, log, nil
}

// doctorOf has doctor look at a configuration, for the page.
func doctorOf(cfg *config.Config) func(context.Context) []ui.Check {
	return func(ctx context.Context) (all []ui.Check) {
		for _, c := range doctor.Run(ctx, cfg, doctor.Options{ListTools: oneshot.ListTools}) {
			all = append(all, ui.Check{Status: c.Status, Name: c.Code + " " + c.Name, Detail: c.Detail, Hint: c.Hint})
		}
		return all
	}
}
