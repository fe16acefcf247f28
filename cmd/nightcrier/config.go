package main

import (
	"fmt"

	"nightcrier.dev/nightcrier/internal/config"

	"github.com/spf13/cobra"
)

func (p *program) configCommand() *cobra.Command {
	check := &cobra.Command{Use: "check", Short: "List every problem in the configuration", Args: checkArgs(noArgs), RunE: p.configCheck}
	print := &cobra.Command{Use: "print", Short: "Print the effective configuration and where each value comes from", Args: checkArgs(noArgs), RunE: p.configPrint}
	p.formatFlag(print, "yaml", "json", "text")
	schema := &cobra.Command{Use: "schema", Short: "Print the JSON Schema of the configuration file", Args: checkArgs(noArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := p.stdout.Write(config.Schema())
			return err
		}}
	fewConfigFlags(check, "workspace-root", "mcp-endpoint", "agent-executor")
	fewConfigFlags(print, "workspace-root", "mcp-endpoint", "agent-executor")
	return groupCommand("config", "Check and show the configuration", check, print, schema)
}

func (p *program) configCheck(cmd *cobra.Command, _ []string) error {
	warnings, err := config.Check(p.configOptions(cmd))
	p.printWarnings(warnings)
	if err != nil {
		return err
	}
	if cfg, _, err := p.loadWithWarnings(cmd); err == nil {
		if text := p.nothingWatched(cfg); text != "" {
			p.printMessage("warning: %s", text)
		}
	}
	fmt.Fprintln(p.stdout, "The configuration is valid.")
	return nil
}

func (p *program) configPrint(cmd *cobra.Command, _ []string) error {
	cfg, warnings, err := p.loadWithWarnings(cmd)
	p.printWarnings(warnings)
	if err != nil {
		return err
	}
	return config.Print(p.stdout, cfg, p.format)
}

func (p *program) printWarnings(warnings []config.Warning) {
	for _, w := range warnings {
		p.printMessage("warning: %s", w)
	}
}
