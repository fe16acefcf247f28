package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/knowledge"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/oneshot/skilltest"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

// writerSkill says in words what an index shows.
const writerSkill = "platform/service-writer"

func (p *program) indexCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "index REPO", Short: "Write down what a repository shows of its service", Args: checkArgs(oneArg("repository", "which repository? Name its directory")),
		Long: `Reads a repository and writes SERVICE.md, MODULES.md, API_SURFACE.md and TEST_MAP.md into its
.agentura/services/NAME, each within its size: languages, modules, routes, tests and workloads, by their names alone. Nothing in the
repository is run, links are not followed, secrets are masked, and what people wrote there is left alone. Where knowledge.describe is
set, a model says in words what was found. Agents are given the files of the repositories that knowledge.repositories names.`}
	name, dryRun := "", false
	cmd.Flags().StringVar(&name, "name", "", "name of the service (default that of the directory)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what is found, and write nothing")
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		cfg, err := p.loadConfig(cmd)
		if err != nil {
			return err
		}
		dir, err := filepath.Abs(given[0])
		if err != nil {
			return err
		}
		if name == "" {
			name = strings.ToLower(filepath.Base(dir))
		}
		ctx, stop := p.withInterrupt(cmd.Context())
		defer stop()
		return p.indexRepo(ctx, cfg, dir, name, dryRun)
	}
	return cmd
}

// indexRepo reads a repository, and writes what was found unless that is only to be shown.
func (p *program) indexRepo(ctx context.Context, cfg *config.Config, dir, name string, dryRun bool) error {
	found, err := knowledge.ScanRepo(dir, name)
	if err == nil {
		err = found.Check()
	}
	if err != nil {
		return err
	}
	mask := mask.Fresh(cfg.Secrets()...).String
	if dryRun {
		return p.printScan(found, mask)
	}
	var about map[string]string
	if cfg.Knowledge.Describe {
		if about, err = p.describeScan(ctx, cfg, found, mask); err != nil {
			return err
		}
	}
	pages := found.Pages(about, mask)
	written, err := knowledge.WritePages(dir, name, pages)
	if err != nil {
		return err
	}
	if p.format == "json" {
		return p.printJSON(map[string]any{"service": name, "pages": pages})
	}
	for i, file := range written {
		fmt.Fprintf(p.stdout, "wrote %s, %d bytes\n", text.DropHidden(path.Join(dir, file)), len(pages[i].Text))
	}
	p.printMessage("Name the repository in knowledge.repositories, and agents are given this.")
	return nil
}

// printScan shows what was found.
func (p *program) printScan(s *knowledge.Scan, mask func(string) string) error {
	if p.format == "json" {
		raw, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return p.printJSON(json.RawMessage(mask(string(raw))))
	}
	for _, page := range s.Pages(nil, mask) {
		fmt.Fprintf(p.stdout, "%s, %d bytes\n\n%s\n\n", page.File, len(page.Text), page.Text)
	}
	return nil
}

// describeScan has a model say in words what was found, by the keys of the pages.
func (p *program) describeScan(ctx context.Context, cfg *config.Config, s *knowledge.Scan, mask func(string) string) (map[string]string, error) {
	raw, err := json.Marshal(s.Shorten())
	if err != nil {
		return nil, err
	}
	var input map[string]any
	if err := json.Unmarshal([]byte(mask(string(raw))), &input); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "what was found: %w", err)
	}
	out, err := skilltest.RunSkill(ctx, skilltest.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Version: buildVersion().Version, Name: writerSkill}, input)
	if err != nil {
		return nil, err
	}
	var said struct{ Service, Modules, API, Tests string }
	if err := json.Unmarshal(out, &said); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "what %s says: %w", writerSkill, err)
	}
	return map[string]string{"service_context": said.Service, "modules_context": said.Modules, "api_context": said.API, "test_context": said.Tests}, nil
}
