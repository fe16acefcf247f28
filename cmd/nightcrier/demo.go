package main

import (
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/telemetry"

	"github.com/spf13/cobra"
)

func (p *program) demoCommand() *cobra.Command {
	o := app.DemoOptions{Version: version().Version, Stdout: p.stdout, Stderr: p.stderr, Printable: printable}
	level := ""
	cmd := &cobra.Command{Use: "demo", Short: "See recorded faults investigated, without a cluster or a key", Args: args(cobra.NoArgs)}
	cmd.Flags().BoolVar(&o.Once, "once", false, "end by itself when all incidents have ended; no questions, no browser")
	cmd.Flags().StringVar(&o.Out, "out", "", "directory to keep the workspaces in (default a temporary one)")
	cmd.Flags().StringVar(&o.Executor, "executor", "builtin", "who investigates: builtin, claude-code or script")
	cmd.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:0", "loopback address of the API")
	cmd.Flags().StringVar(&level, "log-level", "error", "what is logged to stderr")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if o.Logger, err = telemetry.NewLogger(p.stderr, telemetry.LogOptions{Level: level, Format: "text"}); err != nil {
			return usage(cmd, err)
		}
		ctx, stop := p.interruptible(cmd.Context())
		defer stop()
		return app.Demo(ctx, o)
	}
	return cmd
}
