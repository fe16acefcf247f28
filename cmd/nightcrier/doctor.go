package main

import (
	"errors"

	"nightcrier.dev/nightcrier/internal/check/doctor"
	"nightcrier.dev/nightcrier/internal/oneshot"

	"github.com/spf13/cobra"
)

func (p *program) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "doctor", Short: "Check the setup: what would not work, and how to fix it", Args: checkArgs(noArgs)}
	o := doctor.Options{ListTools: oneshot.ListTools}
	cmd.Flags().BoolVar(&o.AllAgents, "all-agents", false, "check every supported agent CLI, not only the configured one")
	cmd.Flags().BoolVar(&o.CheckKey, "check-key", false, "ask the provider whether it accepts the model key: one call that costs nothing")
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd, "workspace-root", "mcp-endpoint", "agent-executor", "cluster-kubeconfig")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, warnings, err := p.loadWithWarnings(cmd)
		p.printWarnings(warnings)
		if err != nil {
			return err
		}
		ctx, stop := p.withInterrupt(cmd.Context())
		defer stop()
		return p.printChecks(doctor.Run(ctx, cfg, o))
	}
	return cmd
}

// printChecks prints what was found; errFound when something failed.
func (p *program) printChecks(checks []doctor.Check) (err error) {
	t := table{}
	for _, c := range checks {
		colour := map[string]string{"ok": green, "warn": yellow, "fail": red}[c.Status]
		t.addRow(cell{c.Status, colour}, plainCell(c.Code), plainCell(c.Name), plainCell(c.Detail))
		if c.Hint != "" {
			t.addRow(plainCell(""), cell{"→ " + c.Hint, dim})
		}
		if c.Status == "fail" {
			err = errFound
		}
	}
	if p.format == "json" {
		return errors.Join(p.printJSON(map[string]any{"checks": checks}), err)
	}
	p.printTable(t)
	return err
}
