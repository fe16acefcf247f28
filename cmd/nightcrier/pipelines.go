package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

func (p *program) pipelinesCommand() *cobra.Command {
	return groupCommand("pipelines", "List, show, check, draw and run pipelines", p.pipelinesListCommand(), p.pipelinesShowCommand(), p.pipelinesValidateCommand(), p.pipelinesGraphCommand(), p.pipelinesRunCommand())
}

// pipelineFlags are the keys that say which pipelines there are, and what they need.
func pipelineFlags(cmd *cobra.Command) {
	fewConfigFlags(cmd, "pipelines-dir", "skills-sources", "skills-cache-dir")
}

var oneName = oneArg("pipeline", "which pipeline? `nightcrier pipelines list` shows them")

// listedPipeline is a pipeline as -o json prints it.
type listedPipeline struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Steps       int    `json:"steps"`
	From        string `json:"from"`
	Digest      string `json:"digest"`
	// Lacks is what is missing to run it.
	Lacks string `json:"lacks,omitempty"`
}

func newListedPipeline(e *pipeline.Entry, r pipeline.Resolver) listedPipeline {
	_, lacks := e.PinSkills(r)
	return listedPipeline{e.Name, e.Description, e.CountSteps(), e.File, e.Digest, lacks}
}

// foundPipelines are pipelines and what is wrong with files.
type foundPipelines struct {
	Pipelines []listedPipeline   `json:"pipelines"`
	Problems  []pipeline.Problem `json:"problems"`
}

// openPipelines reads the configured directory, and opens what steps need. What is wrong
// with files is the caller's to say.
func (p *program) openPipelines(cmd *cobra.Command) (*pipeline.Library, pipeline.Resolver, []pipeline.Problem, error) {
	cfg, warnings, err := p.loadWithWarnings(cmd)
	p.printWarnings(slices.DeleteFunc(warnings, func(w config.Warning) bool { return w.Key == "pipelines_dir" || w.IsOfAgent() }))
	if err != nil {
		return nil, nil, nil, err
	}
	skills, err := skill.Open(cfg.Skills.Options())
	if err != nil {
		return nil, nil, nil, err
	}
	library, problems := pipeline.Load(cfg.PipelinesDir)
	return library, pipeline.Skills{Library: skills, Agent: cfg.AgentOfSkill}, problems, nil
}

// findPipeline returns one pipeline, and says what is wrong with the files when there is none of
// that name.
func (p *program) findPipeline(cmd *cobra.Command, name string) (*pipeline.Entry, pipeline.Resolver, error) {
	library, skills, problems, err := p.openPipelines(cmd)
	if err != nil {
		return nil, nil, err
	}
	e, err := library.Find(name)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		p.printProblems(problems)
	}
	return e, skills, err
}

func (p *program) printProblems(problems []pipeline.Problem) {
	for _, one := range problems {
		p.printMessage("%s", one)
	}
}

func (p *program) pipelinesListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List all pipelines, and what is missing to run them", Args: checkArgs(noArgs),
		Long: `Lists the pipelines of pipelines_dir and those that are part of nightcrier, which a file
with a pipeline of the same name replaces. A file with a problem is named and left out.`}
	p.formatFlag(cmd, "text", "json")
	pipelineFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		library, skills, problems, err := p.openPipelines(cmd)
		if err != nil {
			return err
		}
		found := foundPipelines{Pipelines: []listedPipeline{}, Problems: append([]pipeline.Problem{}, problems...)}
		for _, e := range library.List() {
			found.Pipelines = append(found.Pipelines, newListedPipeline(&e, skills))
		}
		p.printProblems(problems)
		if p.format == "json" {
			return p.printJSON(found)
		}
		t := table{heading: []string{"NAME", "STEPS", "STATE", "FROM", "DESCRIPTION"}, expendable: []string{"FROM"}}
		for _, l := range found.Pipelines {
			state := cell{"ready", green}
			if l.Lacks != "" {
				state = cell{"incomplete", yellow}
			}
			t.addRow(plainCell(l.Name), plainCell(strconv.Itoa(l.Steps)), state, plainCell(l.From), plainCell(l.Description))
		}
		p.printTable(t)
		return nil
	}
	return cmd
}

// shownPipeline is a pipeline with all that it defines.
type shownPipeline struct {
	listedPipeline
	Definition pipeline.Definition `json:"definition"`
}

func (p *program) pipelinesShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show NAME", Short: "Show a pipeline, with what was left to defaults", Args: checkArgs(oneName)}
	p.formatFlag(cmd, "text", "json")
	pipelineFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		e, skills, err := p.findPipeline(cmd, given[0])
		if err != nil {
			return err
		}
		shown := shownPipeline{newListedPipeline(e, skills), e.Definition}
		if p.format == "json" {
			return p.printJSON(shown)
		}
		p.printPipeline(shown)
		return nil
	}
	return cmd
}

func (p *program) printPipeline(s shownPipeline) {
	d, t := s.Definition, table{}
	bounds := [2]string{}
	if d.Deadline > 0 {
		bounds[0] = d.Deadline.String()
	}
	if d.BudgetUSD > 0 {
		bounds[1] = fmt.Sprintf("$%.2f", d.BudgetUSD)
	}
	key := d.Concurrency.Key
	if key != "" {
		key += " (" + string(d.Concurrency.Policy) + ")"
	}
	for _, row := range [][2]string{{"pipeline", d.Name}, {"description", d.Description}, {"from", s.From}, {"digest", s.Digest}, {"on", describeTriggers(d.On)},
		{"one at once", key}, {"deadline", bounds[0]}, {"budget", bounds[1]}} {
		if row[1] != "" {
			t.addRow(cell{row[0], dim}, plainCell(row[1]))
		}
	}
	for _, n := range d.Notifications {
		t.addRow(cell{"tells", dim}, plainCell(n.String()))
	}
	if s.Lacks != "" {
		t.addRow(cell{"lacks", yellow}, plainCell(s.Lacks))
	}
	p.printTable(t)
	fmt.Fprintf(p.stdout, "\n%s", text.DropHidden(pipeline.DrawText(&d)))
}

// describeTriggers says in one line what starts a pipeline.
func describeTriggers(on []pipeline.Trigger) string {
	var all []string
	for _, t := range on {
		words := append([]string{t.Type}, t.Actions...)
		all = append(all, strings.TrimSpace(strings.Join(append(words, t.Cron, t.TimeZone), " ")))
	}
	return strings.Join(all, ", ")
}

func (p *program) pipelinesValidateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "validate [PATH...]", Short: "Check pipelines that you write",
		Long: `Checks files, or all files of directories, for their author: what makes one unusable, by
file and line (exit code 6), and what is missing to run it. Without a path it checks
pipelines_dir and what is part of nightcrier.`}
	p.formatFlag(cmd, "text", "json")
	pipelineFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		library, skills, problems, err := p.openPipelines(cmd)
		if err != nil {
			return err
		}
		entries := library.List()
		if len(paths) > 0 {
			if entries, problems, err = readPipelines(paths); err != nil {
				return err
			}
		}
		found := foundPipelines{Pipelines: []listedPipeline{}, Problems: append([]pipeline.Problem{}, problems...)}
		for _, e := range entries {
			found.Pipelines = append(found.Pipelines, newListedPipeline(&e, skills))
		}
		return p.printValidation(found)
	}
	return cmd
}

// readPipelines reads files and directories that somebody names.
func readPipelines(paths []string) (all []pipeline.Entry, problems []pipeline.Problem, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, nightcrier.Errorf(nightcrier.NotFound, "%w: name a file of a pipeline, or a directory of them", err)
		}
		if !info.IsDir() {
			e, wrong := pipeline.LoadFile(path)
			if problems = append(problems, wrong...); e != nil {
				all = append(all, *e)
			}
			continue
		}
		library, wrong := pipeline.Load(path)
		problems = append(problems, wrong...)
		for _, e := range library.List() {
			if !e.IsEmbedded() {
				all = append(all, e)
			}
		}
	}
	return all, problems, nil
}

// printValidation prints what was found; errFound when a file cannot be used.
func (p *program) printValidation(found foundPipelines) (err error) {
	if len(found.Problems) > 0 {
		err = errFound
	}
	if p.format == "json" {
		return errors.Join(p.printJSON(found), err)
	}
	t := table{}
	for _, one := range found.Problems {
		t.addRow(cell{"fail", red}, plainCell(one.String()))
	}
	for _, l := range found.Pipelines {
		line := fmt.Sprintf("%s: %s, %s", l.From, l.Name, text.CountNoun(l.Steps, "step"))
		if l.Lacks != "" {
			t.addRow(cell{"warn", yellow}, plainCell(line+"; it cannot run: "+l.Lacks))
			continue
		}
		t.addRow(cell{"ok", green}, plainCell(line))
	}
	if len(t.rows) == 0 {
		p.printMessage("there is no file that ends with .yaml or .yml")
		return err
	}
	p.printTable(t)
	return err
}

func (p *program) pipelinesGraphCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "graph NAME", Short: "Draw the steps of a pipeline", Args: checkArgs(oneName),
		Long: `Draws the steps of a pipeline for a terminal or, with -o mermaid, as a flowchart that
GitHub and others show in a page.`}
	p.formatFlag(cmd, "text", "mermaid")
	pipelineFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		e, _, err := p.findPipeline(cmd, given[0])
		if err != nil {
			return err
		}
		drawn := pipeline.DrawText(&e.Definition)
		if p.format == "mermaid" {
			drawn = pipeline.DrawMermaid(&e.Definition)
		}
		fmt.Fprint(p.stdout, text.DropHidden(drawn))
		return nil
	}
	return cmd
}

const followsRun = `What interrupts this command does not stop the run: ` + "`nightcrier runs cancel ID`" + ` does.

The exit code is 0 when the run succeeded, 3 when an agent did not deliver what it had to, 5 when
the budget was used up, and 1 when the run ended in another way.`

func (p *program) pipelinesRunCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "run NAME", Short: "Run a pipeline, and follow it to its end", Args: checkArgs(oneName),
		Long: "Has the server run a pipeline, and follows the run to its end. " + followsRun}
	p.callRun(cmd, "nightcrier pipelines run", (*client.Client).StartRun)
	return cmd
}

// runCommand runs one skill.
func (p *program) runCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "run SKILL", Short: "Run one skill, and follow it to its end", Args: checkArgs(oneSkill),
		Long: `Has the server execute a skill, with its domain or without: a run of one step, with all that a
step of a pipeline has, which this command follows to its end. ` + followsRun}
	p.callRun(cmd, "nightcrier run", (*client.Client).StartSkill)
	return cmd
}

// callRun has a command start a run of what its argument names.
func (p *program) callRun(cmd *cobra.Command, by string, start func(*client.Client, context.Context, string, string, api.CallBody) (nightcrier.Run, error)) {
	var given []string
	detach, key := false, ""
	body := api.CallBody{UserID: by}
	cmd.Flags().StringArrayVar(&given, "input", nil, "input of the run: a file with a JSON object, - for stdin, or name=value, also several times")
	cmd.Flags().StringVar(&body.Priority, "priority", "", "how much it matters: info, warning, error, critical (default warning)")
	cmd.Flags().StringVar(&body.Deadline, "deadline", "", "how long it may take, with the time in the queue, such as 90m")
	cmd.Flags().StringVar(&key, "idempotency-key", "", "a text of your own: the same command with it again follows the run that it started before")
	cmd.Flags().BoolVar(&detach, "detach", false, "start the run, and do not wait for it")
	cmd.Flags().StringVar(&p.server, "server", "", "address of the server, http://host:port (default the server of workspace_root)")
	configFlags(cmd, "workspace-root")
	p.formatFlag(cmd, "text", "jsonl", "json")
	cmd.RunE = func(cmd *cobra.Command, name []string) (err error) {
		if body.InputData, err = readRunInput(p.stdin, given); err != nil {
			return usageError(cmd, err)
		}
		ctx, stop := p.withInterrupt(cmd.Context())
		defer stop()
		c, end, err := p.connectClient(ctx, cmd)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, end()) }()
		run, err := start(c, ctx, name[0], key, body)
		switch {
		case err != nil:
			return err
		case detach:
			return p.printRun(run, "`nightcrier runs tail "+run.ID+"` follows it.")
		}
		return p.followRun(ctx, c, run.ID)
	}
}

// readRunInput reads what a run is called with: a file, stdin, or names and values.
func readRunInput(stdin io.Reader, given []string) (json.RawMessage, error) {
	values := map[string]any{}
	for _, one := range given {
		name, value, isValue := strings.Cut(one, "=")
		switch {
		case isValue && name != "":
			var v any
			if json.Unmarshal([]byte(value), &v) != nil {
				v = value // a text needs no quotes
			}
			values[name] = v
		case len(given) > 1:
			return nil, fmt.Errorf("--input %s: give one file, or name=value", one)
		default:
			return readInputFile(stdin, one)
		}
	}
	if len(values) == 0 {
		return nil, nil
	}
	return json.Marshal(values)
}

// openNamed opens a file that a flag names.
func openNamed(flag, file, hint string) (*os.File, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s %.100q: there is no such file: %s", flag, file, hint)
	}
	if err != nil {
		return nil, unreadable(flag, file, err)
	}
	return f, nil
}

func readInputFile(stdin io.Reader, file string) (json.RawMessage, error) {
	from := stdin
	if file != "-" {
		f, err := openNamed("--input", file, "name one with a JSON object, or write name=value")
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, store.MaxRunInput+1))
	switch {
	case err != nil:
		return nil, unreadable("--input", file, err)
	case len(data) > store.MaxRunInput:
		return nil, fmt.Errorf("--input %s: has more than %d bytes: hand over where it is", file, store.MaxRunInput)
	case !json.Valid(data) || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")):
		return nil, fmt.Errorf("--input %s: is no JSON object", file)
	}
	return data, nil
}

// followRun shows a run until it has ended, and says by its error how it did.
func (p *program) followRun(ctx context.Context, c *client.Client, id string) error {
	line := p.beginProgress()
	defer line.endLine()
	line.showProgress(triage.Progress{About: id, Doing: "queued"})
	names := runNames.steps
	err := c.RunJournal(ctx, id, client.JournalQuery{Follow: true}, func(e nightcrier.JournalEntry) error {
		switch shown := journal.Tail(e, nil); {
		case p.format == "jsonl":
			return printLines(p.stdout, []nightcrier.JournalEntry{e})
		case p.format == "json":
		case line == nil:
			p.printEntry(e, &names)
		case shown.Text != "":
			line.showProgress(triage.Progress{About: e.Step, Doing: shown.Label + " " + shown.Text})
		}
		return nil
	})
	line.endLine()
	if nightcrier.CodeOf(err) == nightcrier.Interrupted {
		return hinted{err, "the run goes on: `nightcrier runs cancel " + id + "` stops it, `nightcrier runs tail " + id + "` follows it"}
	}
	if err != nil {
		return err
	}
	run, err := c.Run(ctx, id)
	switch {
	case err != nil:
		return err
	case p.format == "json":
		err = p.printJSON(run)
	case p.format == "text":
		p.printWholeRun(run, nil)
	}
	return cmp.Or(err, failureOf(run))
}

// failureOf is how a run ended that did not succeed, as an exit code.
func failureOf(run nightcrier.Run) error {
	switch {
	case run.Outcome == nightcrier.StateSuccess:
		return nil
	case run.FailureClass == nightcrier.FailInvalidOutput:
		return errSilent{nightcrier.NoReport}
	case run.FailureClass == nightcrier.FailBudget:
		return errSilent{nightcrier.Refused}
	}
	return errSilent{nightcrier.Internal}
}
