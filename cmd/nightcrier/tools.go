package main

import (
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/mcp"
	"nightcrier.dev/nightcrier/internal/oneshot"

	"github.com/spf13/cobra"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

func (p *program) toolsCommand() *cobra.Command {
	return groupCommand("tools", "Show the tools that MCP servers offer to agents", p.toolsListCommand())
}

func (p *program) toolsListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the tools of the MCP servers in tool_servers", Args: checkArgs(noArgs),
		Long: `Asks every MCP server in tool_servers for its tools, and shows what each tool says of
itself (read-only, writes, destructive), whether agents get it, and if not, why. When a
server cannot be asked, the tools of the others are shown and the command fails.`}
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.loadConfig(cmd)
		if err != nil {
			return err
		}
		all := oneshot.ListTools(cmd.Context(), cfg)
		if p.format == "json" {
			err = p.printJSON(map[string]any{"servers": all})
		} else {
			p.printTools(all)
		}
		for _, s := range all {
			if s.Error != "" && err == nil {
				err = nightcrier.Errorf(nightcrier.Unreachable, "%s", s.Error)
			}
		}
		return err
	}
	return cmd
}

func (p *program) printTools(all []mcp.Offered) {
	t := table{heading: []string{"SERVER", "TOOL", "HINTS", "AGENTS GET IT AS"}}
	for _, s := range all {
		for _, o := range s.Tools {
			as := cell{o.ShownAs, green}
			if !o.Offered {
				as = cell{"no: " + o.Why, dim}
			}
			t.addRow(plainCell(s.Server), plainCell(o.Tool), plainCell(strings.Join(o.Hints, ", ")), as)
		}
	}
	switch {
	case len(all) == 0:
		p.printMessage("tool_servers names no server.")
	case len(t.rows) > 0:
		p.printTable(t)
	case !slices.ContainsFunc(all, func(s mcp.Offered) bool { return s.Error != "" }): // which is told
		p.printMessage("No server offers a tool.")
	}
	for _, s := range all {
		for _, note := range s.Notes {
			p.printMessage("%s", text.DropHidden(note))
		}
	}
}
