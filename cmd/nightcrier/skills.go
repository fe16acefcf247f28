package main

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

func (p *program) skillsCommand() *cobra.Command {
	return groupCommand("skills", "List, show, fetch and check the skills of agents", p.skillsListCommand(), p.skillsShowCommand(), p.skillsUpdateCommand(), p.skillsCheckCommand())
}

// loadConfig reads the configuration and tells its warnings.
func (p *program) loadConfig(cmd *cobra.Command) (*config.Config, error) {
	cfg, warnings, err := p.loadWithWarnings(cmd)
	p.printWarnings(warnings)
	return cfg, err
}

// openSkills opens the configured places of skills.
func (p *program) openSkills(cmd *cobra.Command) (*skill.Library, *config.Config, error) {
	cfg, err := p.loadConfig(cmd)
	if err != nil {
		return nil, nil, err
	}
	library, err := skill.Open(cfg.Skills.Options())
	return library, cfg, err
}

// listedSkill is a skill as -o json prints it.
type listedSkill struct {
	Name        string   `json:"name"`
	Version     string   `json:"version,omitempty"`
	Digest      string   `json:"digest,omitempty"`
	From        string   `json:"from"`
	Used        bool     `json:"used"`
	Description string   `json:"description,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	Error       string   `json:"error,omitempty"`
}

func (p *program) skillsListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List all skills, where each is from, and which are used", Args: checkArgs(noArgs),
		Long: `Lists the skills of all places, in the order in which they are searched:
skills.sources, skills.cache_dir, and what is part of nightcrier. A skill that is in
several places is taken from the first. Agents get k8s-troubleshooter and the skills
that skills.include names.`}
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd, "workspace-root", "skills-sources", "skills-cache-dir", "skills-include")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		library, cfg, err := p.openSkills(cmd)
		if err != nil {
			return err
		}
		return p.printSkills(library.List(), append([]string{skill.Troubleshooter}, cfg.Skills.Include...))
	}
	return cmd
}

func (p *program) printSkills(all []skill.Listed, given []string) error {
	t := table{heading: []string{"NAME", "VERSION", "DIGEST", "USE", "FROM"}, expendable: []string{"DIGEST", "FROM"}}
	list := []listedSkill{}
	for _, s := range all {
		l := listedSkill{Name: s.Name, From: s.From, Used: s.Used && s.Err == nil}
		use := cell{"overridden", dim}
		switch {
		case s.Used && slices.Contains(given, s.Name):
			use = cell{"used", green}
		case s.Used:
			use = plainCell("not included")
		}
		if s.Err != nil {
			l.Error, use = s.Err.Error(), cell{"broken", red}
			p.printMessage("%s", l.Error)
		} else {
			l.Version, l.Digest, l.Description, l.Notes = s.Skill.Version, s.Skill.Ref().Digest, s.Skill.Description, s.Skill.Notes
		}
		list = append(list, l)
		t.addRow(plainCell(s.Name), plainCell(l.Version), plainCell(shortDigest(l.Digest)), use, plainCell(pinned.ReplaceAllString(s.From, "#$1")))
	}
	if p.format == "json" {
		return p.printJSON(map[string]any{"skills": list})
	}
	p.printTable(t)
	return nil
}

// pinned finds the full id of a commit in the name of a place.
var pinned = regexp.MustCompile(`#([0-9a-f]{12})[0-9a-f]{28,}`)

// shortDigest is as much of a digest as people compare.
func shortDigest(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(len(hex), 12)]
}

// shownSkill is a skill with its files.
type shownSkill struct {
	listedSkill
	Files []skill.File `json:"files"`
}

func (p *program) skillsShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show NAME", Short: "Show a skill as agents get it", Args: checkArgs(oneArg("skill", "which skill? `nightcrier skills list` shows them")),
		Long: `Shows what an agent would get: the list of files, and SKILL.md as it is installed,
without the rights that the skill would grant itself.`}
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd, "workspace-root", "skills-sources", "skills-cache-dir", "skills-include")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		library, _, err := p.openSkills(cmd)
		if err != nil {
			return err
		}
		s, err := library.Find(given[0])
		if err != nil {
			return err
		}
		shown := shownSkill{listedSkill{Name: s.Name, Version: s.Version, Digest: s.Ref().Digest, From: s.From, Used: true, Description: s.Description, Notes: s.Notes}, s.Files()}
		if p.format == "json" {
			return p.printJSON(shown)
		}
		p.printSkill(shown)
		return nil
	}
	return cmd
}

func (p *program) printSkill(s shownSkill) {
	t := table{}
	for _, row := range [][2]string{{"skill", s.Name}, {"version", s.Version}, {"digest", s.Digest}, {"from", s.From}} {
		if row[1] != "" {
			t.addRow(cell{row[0], dim}, plainCell(row[1]))
		}
	}
	for _, note := range s.Notes {
		t.addRow(cell{"note", yellow}, plainCell(note))
	}
	main := ""
	for _, f := range s.Files {
		t.addRow(cell{"file", dim}, plainCell(fmt.Sprintf("%s, %d bytes", f.Path, f.Bytes)))
		if f.Path == "SKILL.md" {
			main = f.Text
		}
	}
	p.printTable(t)
	fmt.Fprintf(p.stdout, "\n%s\n", text.DropHidden(strings.TrimSpace(main)))
}

func (p *program) skillsUpdateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "update", Short: "Fetch the repositories of skills.sources at their pinned commits", Args: checkArgs(noArgs),
		Long: `Fetches the repositories of skills.sources at their pinned commits into the workspace
root, and lists the files that differ from the previous commit. This is the only command
that fetches; a server uses what was fetched from its next start on. Nothing in a
repository is run: no hook, no filter, no submodule; links in it are refused.`}
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd, "workspace-root", "skills-sources", "skills-cache-dir", "skills-include")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.loadConfig(cmd)
		if err != nil {
			return err
		}
		ctx, stop := p.withInterrupt(cmd.Context())
		defer stop()
		options := cfg.Skills.Options()
		repositories := slices.DeleteFunc(options.Sources, func(s skill.Source) bool { return s.Git == "" })
		if len(repositories) == 0 {
			p.printMessage("skills.sources names no repository.")
		}
		updates, failed := []skill.Update{}, error(nil)
		for _, src := range repositories {
			u, err := options.Fetched.Update(ctx, src)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			updates = append(updates, u)
		}
		return errors.Join(p.printUpdates(updates), failed)
	}
	return cmd
}

func (p *program) printUpdates(updates []skill.Update) error {
	if p.format == "json" {
		return p.printJSON(map[string]any{"updates": updates})
	}
	for _, u := range updates {
		what := "is here already"
		switch {
		case u.Fetched && u.Before == "":
			what = "fetched"
		case u.Fetched:
			what = fmt.Sprintf("fetched; %d files differ from %.12s", len(u.Changes), u.Before)
		}
		fmt.Fprintln(p.stdout, text.DropHidden(u.Source.String()+": "+what))
		for _, change := range u.Changes {
			fmt.Fprintln(p.stdout, "  "+text.FoldLine(change))
		}
	}
	return nil
}

func (p *program) skillsCheckCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "check DIR", Short: "Check a skill that you write", Args: checkArgs(oneArg("directory", "which skill? Name its directory")),
		Long: `Checks the skill in a directory, for its author: what makes it unusable (exit code 6),
and what agents would not get of it, such as tools that it grants itself.`}
	p.formatFlag(cmd, "text", "json")
	cmd.RunE = func(_ *cobra.Command, given []string) error {
		found, err := skill.Inspect(given[0])
		if err != nil {
			return nightcrier.Errorf(nightcrier.NotFound, "%w", err)
		}
		return p.printFindings(path.Clean(given[0]), found)
	}
	return cmd
}

// printFindings prints what was found; errFound when the skill cannot be used.
func (p *program) printFindings(dir string, found []skill.Finding) (err error) {
	t := table{}
	for _, f := range found {
		mark := cell{"warn", yellow}
		if f.Fatal {
			mark, err = cell{"fail", red}, errFound
		}
		t.addRow(mark, plainCell(f.File), plainCell(f.Text))
	}
	switch {
	case p.format == "json":
		return errors.Join(p.printJSON(map[string]any{"findings": append([]skill.Finding{}, found...)}), err)
	case len(found) == 0:
		fmt.Fprintln(p.stdout, text.DropHidden(dir+": no problem was found."))
	default:
		p.printTable(t)
	}
	return err
}
