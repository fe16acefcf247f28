package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/oneshot/skilltest"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

// reviewPipeline reviews pull requests, and diffs.
const reviewPipeline = "github-pr-review"

func (p *program) reviewCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "review", Short: "Review a diff as a pull request would be, and post nothing", Args: checkArgs(noArgs),
		Long: `Has the agents of the pipeline github-pr-review look at a diff, and shows what would be posted on a
pull request: the comments on lines, the summary and the checks. It needs no server and no GitHub, and posts nothing.

  git diff main | nightcrier review`}
	file := ""
	cmd.Flags().StringVar(&file, "diff", "-", "file with a unified diff, - for stdin")
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd, "pipelines-dir", "skills-sources", "skills-cache-dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		diff, err := p.readDiff(file)
		if err != nil {
			return usageError(cmd, err)
		}
		cfg, err := p.loadConfig(cmd)
		if err != nil {
			return err
		}
		ctx, stop := p.withInterrupt(cmd.Context())
		defer stop()
		return p.reviewDiff(ctx, cfg, diff)
	}
	return cmd
}

// readDiff reads a diff that a run can be called with.
func (p *program) readDiff(file string) (string, error) {
	from := p.stdin
	if file != "-" {
		f, err := openNamed("--diff", file, "name one that `git diff` wrote")
		if err != nil {
			return "", err
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, store.MaxRunInput+1))
	switch most := store.MaxRunInput / 2; {
	case err != nil:
		return "", unreadable("--diff", file, err)
	case len(data) == 0:
		return "", fmt.Errorf("--diff %s: is empty: there is nothing to review", file)
	case len(data) > most:
		return "", fmt.Errorf("--diff %s: has more than %d KiB: review a part of it, such as `git diff main -- DIR`", file, most>>10)
	}
	return string(data), nil
}

// reviewDiff shows what would be posted.
func (p *program) reviewDiff(ctx context.Context, cfg *config.Config, diff string) error {
	p.printMessage("Agents look at it, which takes some minutes.")
	out, err := skilltest.RunPipeline(ctx, skilltest.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Version: buildVersion().Version, Name: reviewPipeline}, map[string]any{"diff": diff, "dry_run": true})
	if err != nil {
		return err
	}
	if p.format == "json" {
		return p.printJSON(out)
	}
	var posted struct {
		Preview string `json:"preview"`
	}
	if err := json.Unmarshal(out, &posted); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "what the review came to cannot be read: %w", err)
	}
	fmt.Fprint(p.stdout, text.DropHidden(posted.Preview))
	return nil
}
