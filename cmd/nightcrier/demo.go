package main

import (
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier/internal/oneshot"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"

	"github.com/spf13/cobra"
)

func (p *program) demoCommand() *cobra.Command {
	o := oneshot.DemoOptions{Version: buildVersion().Version, Stdout: p.stdout, Stderr: p.stderr, Page: p.demoPage, Row: p.demoRow}
	level, open := "", false
	cmd := &cobra.Command{Use: "demo", Short: "See how recorded faults are investigated, without cluster or key", Args: checkArgs(noArgs)}
	cmd.Flags().BoolVar(&o.Once, "once", false, "exit when all incidents have ended, instead of serving the page and the API until Ctrl-C")
	cmd.Flags().StringVar(&o.Out, "out", "", "directory to keep the workspaces in (default none: the reports alone are kept, in a temporary directory that is named at the end)")
	cmd.Flags().StringVar(&o.Executor, "executor", "builtin", "agent that investigates: "+strings.Join(config.Executors(), ", "))
	cmd.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:0", "loopback address to serve the API on")
	cmd.Flags().StringVar(&o.PageListen, "page-listen", "127.0.0.1:0", "loopback address to serve the page on")
	cmd.Flags().BoolVar(&open, "open", false, "open the page in a browser")
	cmd.Flags().StringVar(&level, "log-level", "error", "lowest level that is logged to stderr")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if o.Logger, err = p.newLogger(level); err != nil {
			return usageError(cmd, err)
		}
		o.Open = func(link string) {
			if open {
				p.openInBrowser(link)
			}
		}
		if o.Once && !open {
			o.PageListen = "" // nobody could look at it in time
		}
		ctx, stop := p.withInterrupt(cmd.Context())
		defer stop()
		return oneshot.Demo(ctx, o)
	}
	return cmd
}

// demoPage is a report in full, and on a terminal, where that would push the others out
// of sight, its card.
func (p *program) demoPage(r *nightcrier.Report, md []byte) string {
	if p.width == 0 {
		return p.resultScreen().Report(md)
	}
	return p.resultScreen().Card(report.NewCard(r), report.Beside{Rest: "among the reports below"})
}

// demoRow prints one incident on one line, and on a terminal, where that would
// hardly fit, what became of it below.
func (p *program) demoRow(status, severity, cluster, object, what string) {
	row := strings.TrimRight(text.DropHidden(fmt.Sprintf("%-13s  %-8s  %-13s  %-30s", status, severity, cluster, object)), " ")
	if p.width == 0 {
		fmt.Fprintf(p.stdout, "%-70s  %s\n", row, text.DropHidden(what))
		return
	}
	fmt.Fprintln(p.stdout, p.paintCell(cell{row, "1"}))
	for _, line := range wrapText(text.DropHidden(what), p.width-4) {
		fmt.Fprintln(p.stdout, "    "+line)
	}
}
