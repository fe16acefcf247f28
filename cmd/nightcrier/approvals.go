package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

var approvalNames = named{"an approval", "approvals", 0, func(ctx context.Context, c *client.Client, most int) (ids []string, err error) {
	list, err := c.Approvals(ctx, client.ApprovalQuery{Limit: most})
	for _, a := range list.Approvals {
		ids = append(ids, a.ID)
	}
	return ids, err
}}

func (p *program) approvalsCommand() *cobra.Command {
	return groupCommand("approvals", "List, read and decide what runs ask people",
		p.listApprovalsCommand(), p.showApprovalCommand(), p.approveCommand(), p.refuseCommand())
}

func (p *program) listApprovalsCommand() *cobra.Command {
	var q client.ApprovalQuery
	var all bool
	cmd := &cobra.Command{Use: "list", Short: "List what waits for a decision, newest first", Args: checkArgs(noArgs)}
	cmd.Flags().BoolVar(&all, "all", false, "also what is decided, has expired or was withdrawn")
	cmd.Flags().StringVar(&q.Run, "run", "", "only what this run asks")
	limitFlag(cmd, &q.Limit, "approvals")
	p.formatFlag(cmd, "text", "json", "jsonl")
	return p.runWithClientOf(approvalNames, cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if !all {
			q.Status = string(nightcrier.ApprovalPending)
		}
		list, err := c.Approvals(ctx, q)
		if err != nil {
			return err
		}
		return p.printApprovals(list)
	})
}

func (p *program) printApprovals(list api.ApprovalList) error {
	switch p.format {
	case "json":
		return p.printJSON(list)
	case "jsonl":
		return printLines(p.stdout, list.Approvals)
	}
	if len(list.Approvals) == 0 {
		p.printMessage("Nothing waits for a decision.")
		return nil
	}
	t := table{heading: []string{"ID", "AGE", "PIPELINE", "STEP", "STATUS", "WHO", "ASKED"}, expendable: []string{"PIPELINE", "STEP", "WHO", "ASKED"}}
	ids := make([]string, len(list.Approvals))
	for i, a := range list.Approvals {
		ids[i] = a.ID
	}
	for i, id := range p.shownIDs(ids) {
		a := list.Approvals[i]
		t.addRow(plainCell(id), p.ageCell(a.AskedAt), plainCell(a.Pipeline), plainCell(a.Step), approvalCell(a), plainCell(strings.Join(a.Entitled(), ", ")), plainCell(a.Prompt))
	}
	p.printTable(t)
	if list.NextCursor != "" {
		p.printMessage("There are more; --limit shows up to 1000.")
	}
	return nil
}

func approvalCell(a nightcrier.Approval) cell {
	switch a.Status {
	case nightcrier.ApprovalPending:
		return cell{string(a.Status), yellow}
	case nightcrier.ApprovalGranted:
		return cell{string(a.Status), green}
	}
	return cell{string(a.Status), red}
}

func approvalCommand(use, short string) *cobra.Command {
	return &cobra.Command{Use: use + " ID", Short: short, Args: checkArgs(oneArg("ID", "which one? Take its ID from `nightcrier approvals list`"))}
}

func (p *program) showApprovalCommand() *cobra.Command {
	cmd := approvalCommand("show", "Show one with the exact call, and who may decide")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClientOf(approvalNames, cmd, func(ctx context.Context, c *client.Client, given []string) error {
		a, err := c.Approval(ctx, given[0])
		if err != nil {
			return err
		}
		return p.printApproval(a)
	})
}

// printApproval shows all of one. What it asks may come from a model: control characters are shown
// as such.
func (p *program) printApproval(a nightcrier.Approval) error {
	if p.format == "json" {
		return p.printJSON(a)
	}
	var t table
	row := func(name string, value cell) {
		if value.text != "" {
			t.addRow(plainCell(name), value)
		}
	}
	row("Approval", plainCell(a.ID))
	row("Status", approvalCell(a))
	row("Asked", plainCell(a.Prompt))
	row("Run", plainCell(a.RunID))
	row("Pipeline", plainCell(a.Pipeline+", step "+a.Step))
	row("Asked by", plainCell(a.RequestedBy))
	row("Who may decide", plainCell(fmt.Sprintf("%s; %d have to agree, %d do", strings.Join(a.Entitled(), ", "), a.Needed, a.CountAgreed())))
	if !a.ExpiresAt.IsZero() {
		row("Until", plainCell(a.ExpiresAt.Format(time.RFC3339)))
	}
	row("Server", plainCell(a.Server))
	row("Tool", plainCell(a.Tool))
	row("Digest", plainCell(a.Digest))
	for _, d := range a.Decisions {
		word := "refused"
		if d.Approve {
			word = "approved"
		}
		if d.Digest != a.Digest {
			word += " something else, before it was edited"
		}
		row("Decided", plainCell(fmt.Sprintf("%s %s at %s %s", d.By, word, d.At.Format(time.RFC3339), d.Reason)))
	}
	row("Call", plainCell(string(a.Use)))
	p.printTable(t)
	for _, args := range []struct {
		title string
		raw   json.RawMessage
	}{{"Arguments, as asked for", a.Arguments}, {"Arguments, as edited: these count", a.Edited}} {
		if args.raw != nil {
			p.printArguments(args.title, args.raw)
		}
	}
	if a.Status == nightcrier.ApprovalPending {
		p.printMessage("To decide, with %s set: nightcrier approvals approve %s --digest %.12s, or refuse with --reason as well", api.TokenVariable, a.ID, a.Digest)
	}
	return nil
}

// printArguments shows arguments, texts of several lines as lines: what is applied is to be read.
func (p *program) printArguments(title string, raw json.RawMessage) {
	fmt.Fprintf(p.stdout, "\n%s:\n", title)
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		fmt.Fprintln(p.stdout, "  "+text.MarkHidden(string(raw)))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		said, ok := all[name].(string)
		if !ok {
			plain, _ := json.Marshal(all[name]) // it was JSON
			said = string(plain)
		}
		fmt.Fprintf(p.stdout, "  %s:", text.MarkHidden(name))
		lines := strings.Split(strings.TrimRight(said, "\n"), "\n")
		if len(lines) == 1 {
			fmt.Fprintln(p.stdout, " "+text.MarkHidden(lines[0]))
			continue
		}
		fmt.Fprintln(p.stdout)
		for _, line := range lines {
			fmt.Fprintln(p.stdout, "    "+text.MarkHidden(line))
		}
	}
}

func (p *program) approveCommand() *cobra.Command {
	var b api.ApproveBody
	var edited string
	cmd := approvalCommand("approve", "Agree to what is asked, as "+api.TokenVariable+" says who")
	cmd.Flags().StringVar(&b.Digest, "digest", "", "the digest of what was looked at, or its first 8 characters at least; approvals show has it")
	cmd.Flags().StringVar(&b.Reason, "reason", "", "why")
	cmd.Flags().StringVar(&edited, "arguments", "", "file with the JSON object that the call is made with, in the place of what was asked for")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClientOf(approvalNames, cmd, func(ctx context.Context, c *client.Client, given []string) (err error) {
		if edited != "" {
			if b.Arguments, err = os.ReadFile(edited); err != nil {
				return nightcrier.Errorf(nightcrier.Invalid, "--arguments: %w", err)
			}
		}
		if b.Digest, err = wholeDigest(ctx, cmd, c, given[0], b.Digest); err != nil {
			return err
		}
		a, err := c.Approve(ctx, given[0], b)
		if err != nil {
			return err
		}
		return p.printApproval(a)
	})
}

func (p *program) refuseCommand() *cobra.Command {
	var b api.RefuseBody
	cmd := approvalCommand("refuse", "Refuse what is asked, as "+api.TokenVariable+" says who")
	cmd.Flags().StringVar(&b.Digest, "digest", "", "the digest of what was looked at, or its first 8 characters at least; approvals show has it")
	cmd.Flags().StringVar(&b.Reason, "reason", "", "why; who asked goes on with it")
	p.formatFlag(cmd, "text", "json")
	return p.runWithClientOf(approvalNames, cmd, func(ctx context.Context, c *client.Client, given []string) (err error) {
		if b.Reason == "" {
			return usageError(cmd, errors.New("--reason is missing: who asked goes on with it"))
		}
		if b.Digest, err = wholeDigest(ctx, cmd, c, given[0], b.Digest); err != nil {
			return err
		}
		a, err := c.Refuse(ctx, given[0], b)
		if err != nil {
			return err
		}
		return p.printApproval(a)
	})
}

// wholeDigest completes the digest of what is decided about, which has to be what stands there.
func wholeDigest(ctx context.Context, cmd *cobra.Command, c *client.Client, id, given string) (string, error) {
	const least, whole = 8, 64
	switch {
	case given == "":
		return "", usageError(cmd, errors.New("--digest is missing: `nightcrier approvals show "+id+"` shows what is asked, and its digest"))
	case len(given) < least || len(given) > whole:
		return "", usageError(cmd, fmt.Errorf("--digest has %d characters: give the first %d at least", len(given), least))
	}
	a, err := c.Approval(ctx, id)
	if err == nil && !strings.HasPrefix(a.Digest, given) {
		err = nightcrier.Errorf(nightcrier.Conflict, "the digest of what is asked now is %.12s, not %.12s: look at it again", a.Digest, given)
	}
	return a.Digest, err
}
