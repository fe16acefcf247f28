package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/oneshot/skilltest"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

func (p *program) skillsCommand() *cobra.Command {
	return groupCommand("skills", "List, show, write, check and fetch the skills of agents", p.skillsListCommand(), p.skillsShowCommand(), p.skillsNewCommand(), p.skillsValidateCommand(), p.skillsTestCommand(), p.skillsUpdateCommand())
}

var oneSkill = oneArg("skill", "which skill? `nightcrier skills list` shows them")

// loadConfig reads the configuration for a command that starts no agent, and tells its warnings but
// those of what an agent lacks.
func (p *program) loadConfig(cmd *cobra.Command) (*config.Config, error) {
	cfg, warnings, err := p.loadWithWarnings(cmd)
	p.printWarnings(slices.DeleteFunc(warnings, config.Warning.IsOfAgent))
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
	Name        string `json:"name"`
	Domain      string `json:"domain,omitempty"`
	Role        string `json:"role,omitempty"`
	Executor    string `json:"executor,omitempty"`
	Version     string `json:"version,omitempty"`
	Digest      string `json:"digest,omitempty"`
	From        string `json:"from"`
	Used        bool   `json:"used"`
	Description string `json:"description,omitempty"`
	// Lacks is why a step cannot execute it, Error why it cannot be used at all.
	Lacks    string          `json:"lacks,omitempty"`
	Error    string          `json:"error,omitempty"`
	Findings []skill.Finding `json:"findings,omitempty"`
}

func (p *program) newListedSkill(s *skill.Skill, cfg *config.Config) listedSkill {
	set := s.Settings
	l := listedSkill{
		Name: s.Name, Domain: set.Domain, Role: set.Role, Executor: set.Executor, Version: s.Version, Digest: s.Ref().Digest, From: s.From, Used: true,
		Description: s.Description, Findings: s.Findings,
	}
	if _, err := (pipeline.Skills{Agent: cfg.AgentOfSkill}).Pin(s); err != nil {
		l.Lacks = err.Error()
	}
	return l
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
		return p.printSkills(library.List(), append([]string{skill.Troubleshooter}, cfg.Skills.Include...), cfg)
	}
	return cmd
}

func (p *program) printSkills(all []skill.Listed, given []string, cfg *config.Config) error {
	t := table{heading: []string{"NAME", "ROLE", "EXECUTOR", "STATE", "DIGEST", "FROM"}, expendable: []string{"DIGEST", "FROM"}}
	list := []listedSkill{}
	lacking := 0
	for _, s := range all {
		l, state := listedSkill{Name: s.Name, From: s.From}, cell{"broken", red}
		if s.Err != nil {
			l.Error = s.Err.Error()
			p.printMessage("%s", l.Error)
		} else {
			l = p.newListedSkill(s.Skill, cfg)
			state = cell{"ready", green}
			if l.Lacks != "" {
				state = cell{"cannot run", yellow}
			}
			if slices.Contains(given, s.Name) {
				state = cell{"given to agents", green}
			}
		}
		if l.Used = s.Used && s.Err == nil; !s.Used {
			state = cell{"overridden", dim}
		}
		if state.text == "cannot run" {
			lacking++
		}
		list = append(list, l)
		t.addRow(plainCell(path.Join(l.Domain, l.Name)), plainCell(l.Role), plainCell(l.Executor), state, plainCell(shortDigest(l.Digest)), plainCell(pinned.ReplaceAllString(s.From, "#$1")))
	}
	if p.format == "json" {
		return p.printJSON(map[string]any{"skills": list})
	}
	p.printTable(t)
	if lacking > 0 {
		fmt.Fprintln(p.stdout, "\n`nightcrier skills show NAME` says why one cannot run.")
	}
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
	Settings skill.Settings `json:"settings"`
	Phases   []skill.Phase  `json:"phases,omitempty"`
	Layers   []skill.Layer  `json:"layers,omitempty"`
	Files    []skill.File   `json:"files"`
	// Prompt is what an agent is told of it.
	Prompt string `json:"prompt"`
}

func (p *program) skillsShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show NAME", Short: "Show a skill as agents get it", Args: checkArgs(oneSkill),
		Long: `Shows what an agent would get: how it is executed, the list of files, and SKILL.md as it is
installed, without the rights that the skill would grant itself. With --prompt it shows
instead what the agent is told: what stands above the skill, and the skill.`}
	prompt := false
	cmd.Flags().BoolVar(&prompt, "prompt", false, "show what an agent is told, with what stands above the skill")
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd, "workspace-root", "skills-sources", "skills-cache-dir", "skills-include")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		library, cfg, err := p.openSkills(cmd)
		if err != nil {
			return err
		}
		s, err := library.Find(given[0])
		if err != nil {
			return err
		}
		shown := shownSkill{p.newListedSkill(s, cfg), s.Settings, s.Phases(), s.Layers, s.Files(), s.Instructions()}
		if p.format == "json" {
			return p.printJSON(shown)
		}
		p.printSkill(shown, prompt)
		return nil
	}
	return cmd
}

func (p *program) printSkill(s shownSkill, wholePrompt bool) {
	t, set := table{}, s.Settings
	bounds := []string{}
	if set.MaxTurns > 0 {
		bounds = append(bounds, text.CountNoun(set.MaxTurns, "turn"))
	}
	if set.Timeout > 0 {
		bounds = append(bounds, set.Timeout.String())
	}
	if set.BudgetUSD > 0 {
		bounds = append(bounds, fmt.Sprintf("$%.2f", set.BudgetUSD))
	}
	var tools []string
	for _, b := range set.Tools {
		tools = append(tools, b.Server+" ("+strings.Join(b.Tools, ", ")+")")
	}
	for _, row := range [][2]string{{"skill", path.Join(s.Domain, s.Name)}, {"description", s.Description}, {"role", set.Role}, {"executor", set.Executor}, {"model", set.Model},
		{"bounds", strings.Join(bounds, ", ")}, {"tools", strings.Join(tools, ", ")}, {"version", s.Version}, {"digest", s.Digest}, {"from", s.From}} {
		if row[1] != "" {
			t.addRow(cell{row[0], dim}, plainCell(row[1]))
		}
	}
	if s.Lacks != "" {
		t.addRow(cell{"cannot run", yellow}, plainCell(s.Lacks))
	}
	for _, f := range s.Findings {
		t.addRow(cell{string(f.Level), levelStyle[f.Level]}, plainCell(f.String()))
	}
	for _, phase := range s.Phases {
		t.addRow(cell{fmt.Sprintf("phase %d", phase.Number), dim}, plainCell(phase.Name))
	}
	for _, l := range s.Layers {
		t.addRow(cell{"above it", dim}, plainCell(l.Path))
	}
	main := s.Prompt
	for _, f := range s.Files {
		t.addRow(cell{"file", dim}, plainCell(fmt.Sprintf("%s, %d bytes", f.Path, f.Bytes)))
		if f.Path == "SKILL.md" && !wholePrompt {
			main = f.Text
		}
	}
	p.printTable(t)
	fmt.Fprintf(p.stdout, "\n%s\n", text.DropHidden(strings.TrimSpace(main)))
}

// levelStyle is how what was found about a skill is marked.
var levelStyle = map[skill.Level]string{skill.Fail: red, skill.Refuse: red, skill.Warn: yellow, skill.Hint: dim}

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

func (p *program) skillsNewCommand() *cobra.Command {
	o := skill.NewOptions{}
	cmd := &cobra.Command{Use: "new DOMAIN/NAME", Short: "Write a skill to begin with", Args: checkArgs(oneArg("skill", "what is it called? Write its domain and its name, such as shop/builder")),
		Long: `Writes a new directory with SKILL.md, agentura.config.yaml and a first evaluation, which
` + "`nightcrier skills validate`" + ` accepts as they are. Nothing that is there is changed.`}
	cmd.Flags().StringVar(&o.Dir, "dir", "skills", "directory of skills, which skills.sources names or is to name")
	cmd.Flags().StringVar(&o.Executor, "executor", "claude-code", "who executes it: claude-code, codex, gemini, goose")
	cmd.Flags().StringVar(&o.Description, "description", "", "what it does, and when to use it")
	cmd.RunE = func(_ *cobra.Command, given []string) error {
		made, err := skill.WriteNew(given[0], o)
		if err != nil {
			return err
		}
		for _, file := range made {
			fmt.Fprintln(p.stdout, "wrote "+text.DropHidden(file))
		}
		dir := path.Dir(made[0])
		p.printMessage("Now say in %s what it does. `nightcrier skills validate %s` checks it, `nightcrier run %s` runs it.", made[0], dir, given[0])
		return nil
	}
	return cmd
}

func (p *program) skillsValidateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "validate PATH...", Short: "Check skills that you write", Args: checkArgs(someSkill),
		Long: `Checks the skill in a directory, or all that are below it, for their author: what makes one
unusable or keeps it from being executed, by file and line (exit code 6), what is not used as it
stands there, such as tools that it grants itself, and what would make it better. A SKILL.md stands for
its directory.`}
	p.formatFlag(cmd, "text", "json")
	cmd.RunE = func(_ *cobra.Command, given []string) error {
		var dirs []string
		for _, dir := range given {
			below, err := skill.FindDirs(dir)
			if err != nil {
				return nightcrier.Errorf(nightcrier.NotFound, "%w", err)
			}
			dirs = append(dirs, below...)
		}
		found := []foundInSkill{}
		for _, dir := range dirs {
			one, err := skill.Inspect(dir)
			if err != nil {
				return nightcrier.Errorf(nightcrier.NotFound, "%w", err)
			}
			found = append(found, foundInSkill{dir, append([]skill.Finding{}, one...)})
		}
		return p.printFindings(found)
	}
	return cmd
}

// someSkill wants one argument or more.
func someSkill(_ *cobra.Command, given []string) error {
	if len(given) == 0 {
		return errors.New("which skill? Name its directory, or one with skills below it")
	}
	return nil
}

// foundInSkill is what was found about the skill of a directory.
type foundInSkill struct {
	Dir      string          `json:"dir"`
	Findings []skill.Finding `json:"findings"`
}

// printFindings prints what was found, of several skills how much; errFound when one cannot be executed.
func (p *program) printFindings(found []foundInSkill) (err error) {
	t := table{}
	for _, one := range found {
		counts, worst := map[skill.Level]int{}, cell{"ok", green}
		for _, f := range one.Findings {
			if counts[f.Level]++; f.Level == skill.Fail || f.Level == skill.Refuse {
				err, worst = errFound, cell{string(f.Level), red}
			}
			where := f.Place()
			if len(found) > 1 {
				where = path.Join(one.Dir, where)
			}
			if len(found) == 1 || f.Level == skill.Fail || f.Level == skill.Refuse {
				t.addRow(cell{string(f.Level), levelStyle[f.Level]}, plainCell(where), plainCell(f.Text))
			}
		}
		said := text.CountNoun(counts[skill.Warn], "warning") + ", " + text.CountNoun(counts[skill.Hint], "hint")
		if len(one.Findings) == 0 {
			said = "no problem was found"
		}
		if worst.text == "ok" && (len(found) > 1 || len(one.Findings) == 0) {
			t.addRow(worst, plainCell(one.Dir), plainCell(said))
		}
	}
	if p.format == "json" {
		return errors.Join(p.printJSON(map[string]any{"skills": found}), err)
	}
	p.printTable(t)
	return err
}

func (p *program) skillsTestCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "test SKILL", Short: "Run the evaluations of a skill", Args: checkArgs(oneSkill),
		Long: `Executes a skill, by its name or its directory, once for each file of its evals, as a server
would, but with tools that only say what the evaluation has them say, and checks what comes of it. It
costs what its model costs. The exit code is 6 when one does not pass.`}
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd, "skills-sources", "skills-cache-dir", "agent-executor")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		cfg, warnings, err := p.loadWithWarnings(cmd)
		p.printWarnings(warnings)
		if err != nil {
			return err
		}
		name := given[0]
		if _, err := os.Stat(filepath.Join(name, "SKILL.md")); err == nil {
			dir, err := filepath.Abs(name)
			if err != nil {
				return err
			}
			name = filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
			cfg.Skills.Sources = append([]skill.Source{{Path: filepath.Dir(filepath.Dir(dir))}}, cfg.Skills.Sources...)
		}
		library, err := skill.Open(cfg.Skills.Options())
		if err != nil {
			return err
		}
		s, err := library.Find(name)
		if err != nil {
			return err
		}
		ctx, stop := p.withInterrupt(cmd.Context())
		defer stop()
		return p.runEvals(ctx, skilltest.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Version: buildVersion().Version, Skill: s, Name: name})
	}
	return cmd
}

// runEvals prints what comes of each evaluation; errFound when one does not pass.
func (p *program) runEvals(ctx context.Context, o skilltest.Options) error {
	evals, err := o.Skill.Evals()
	if err != nil {
		return err
	}
	if len(evals) == 0 {
		return nightcrier.Errorf(nightcrier.NotFound, "the skill %s has no evaluation: write one into its evals, such as evals/first.yaml", o.Name)
	}
	line := p.beginProgress()
	defer line.endLine()
	results, failed := []skilltest.Result{}, error(nil)
	t := table{heading: []string{"EVAL", "RESULT", "ATTEMPTS", "TOOK", "COST", "TOOLS", "DETAIL"}, expendable: []string{"TOOLS"}}
	for i, e := range evals {
		line.showProgress(triage.Progress{About: e.Name, Doing: fmt.Sprintf("%d of %d", i+1, len(evals))})
		r, err := skilltest.RunEval(ctx, o, e)
		if err != nil {
			return err
		}
		mark := cell{"passed", green}
		if !r.Passed {
			mark, failed = cell{"failed", red}, errFound
		}
		results = append(results, r)
		t.addRow(plainCell(e.Name), mark, plainCell(fmt.Sprint(r.Attempts)), plainCell(r.Took.Round(100*time.Millisecond).String()), plainCell(fmt.Sprintf("$%.4f", r.CostUSD)),
			plainCell(strings.Join(r.Called, ", ")), plainCell(strings.Join(r.Failures, "; ")))
	}
	line.endLine()
	if p.format == "json" {
		return errors.Join(p.printJSON(map[string]any{"evals": results}), failed)
	}
	p.printTable(t)
	return failed
}
