package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"

	"github.com/spf13/cobra"
)

func (p *program) pipelinesRunCommand() *cobra.Command {
	var given []string
	detach := false
	cmd := &cobra.Command{Use: "run NAME", Short: "Run a pipeline, and follow it to its end", Args: checkArgs(oneName),
		Long: `Has the server run a pipeline, and follows the run to its end. What interrupts this command
does not stop the run: ` + "`nightcrier runs cancel ID`" + ` does.

The exit code is 0 when the run succeeded, 3 when an agent did not deliver what it had to, 5 when
the budget was used up, and 1 when the run ended in another way.`}
	body := api.CallBody{UserID: "nightcrier pipelines run"}
	cmd.Flags().StringArrayVar(&given, "input", nil, "input of the run: a file with a JSON object, - for stdin, or name=value, also several times")
	cmd.Flags().StringVar(&body.Priority, "priority", "", "how much it matters: info, warning, error, critical (default warning)")
	cmd.Flags().StringVar(&body.Deadline, "deadline", "", "how long it may take, with the time in the queue, such as 90m")
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
		run, err := c.StartRun(ctx, name[0], body)
		switch {
		case err != nil:
			return err
		case detach:
			return p.printRun(run, "Queued. `nightcrier runs tail "+run.ID+"` follows it.")
		}
		return p.followRun(ctx, c, run.ID)
	}
	return cmd
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

func readInputFile(stdin io.Reader, file string) (json.RawMessage, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, unreadable("--input", file, err)
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
	err := c.RunJournal(ctx, id, client.JournalQuery{Follow: true}, func(e nightcrier.JournalEntry) error {
		shown := journal.Tail(e, nil)
		switch {
		case p.format == "jsonl":
			return printLines(p.stdout, []nightcrier.JournalEntry{e})
		case p.format == "json":
		case line == nil:
			p.printEntry(shown)
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
		p.printWholeRun(run)
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
