package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

// auditFile is the file's name in an output directory.
const auditFile = "audit.jsonl"

// verified is what a verification found.
type verified struct {
	Incident string `json:"incident,omitempty"`
	File     string `json:"file,omitempty"`
	Requests int    `json:"requests"`
	Denied   int    `json:"denied"`
	Evidence int    `json:"evidence"`
	Head     string `json:"head,omitempty"`
	// HeadFrom says where the head was found that the end was compared with; empty
	// when there is none, and a missing end cannot be noticed.
	HeadFrom string          `json:"headFrom,omitempty"`
	OK       bool            `json:"ok"`
	Problems []audit.Problem `json:"problems"`
}

func (p *program) auditCommand() *cobra.Command {
	var head string
	verify := &cobra.Command{Use: "verify FILE|INCIDENT", Short: "Check that an audit log was not changed or cut",
		Args: checkArgs(oneArg("audit", "which audit? Name an audit.jsonl, or the ID of an incident")),
		Long: `Checks the hash chain of an audit.jsonl file, and compares its end with the head in
the report.json beside it, or with the one given with --head. For an incident it also
checks the journal that the audit was made from, and compares the two. Exits 6 when
something is wrong.`}
	verify.Flags().StringVar(&head, "head", "", "expected hash of the last line, as given in the report, the log or the message")
	p.formatFlag(verify, "text", "json")
	incident := p.runWithClient(verify, func(ctx context.Context, c *client.Client, given []string) error {
		v, err := verifyIncident(ctx, c, given[0], head)
		return p.printVerified(v, err)
	}).RunE
	verify.RunE = func(cmd *cobra.Command, given []string) error {
		if _, err := os.Stat(given[0]); err != nil && (nightcrier.CheckID(given[0]) == nil || idBeginning.MatchString(given[0])) {
			return incident(cmd, given)
		}
		v, err := verifyFile(given[0], head)
		return p.printVerified(v, err)
	}
	return groupCommand("audit", "Verify the record of what was asked of clusters", verify)
}

func (p *program) printVerified(v verified, err error) error {
	if err != nil {
		return err
	}
	if v.OK = len(v.Problems) == 0; !v.OK {
		err = errFound
	}
	if p.format == "json" {
		return errors.Join(p.printJSON(v), err)
	}
	for _, problem := range v.Problems {
		fmt.Fprintln(p.stdout, text.DropHidden(problem.String()))
	}
	if v.OK {
		fmt.Fprintf(p.stdout, "ok: %d requests, %d denied, %d kept as evidence\n", v.Requests, v.Denied, v.Evidence)
	}
	if v.HeadFrom == "" {
		p.printMessage("Without a head, neither lines cut off the end nor a file that was rewritten as a whole can be detected. Give the head of the report, or the one that the guard printed at its end, with --head.")
	}
	return err
}

func (v *verified) addSummary(s audit.Summary, problems []audit.Problem) {
	v.Requests, v.Denied, v.Evidence, v.Head = s.Requests, s.Denied, s.Kept, s.Head
	v.Problems = append(v.Problems, problems...)
}

// verifyFile checks a file. A head that is given comes before the one beside it.
func verifyFile(path, head string) (verified, error) {
	v := verified{File: path, Problems: []audit.Problem{}}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v, nightcrier.Errorf(nightcrier.NotFound, "%s is neither a file nor the ID of an incident", path)
	case err != nil:
		return v, nightcrier.Errorf(nightcrier.Unreachable, "audit: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return v, nightcrier.Errorf(nightcrier.Invalid, "%s is no regular file", path)
	}
	if head, v.HeadFrom, err = knownHead(filepath.Dir(path), head); err != nil {
		return v, err
	}
	s, problems, err := audit.Verify(f, head)
	v.addSummary(s, problems)
	return v, err
}

// knownHead returns the head that is given, else that of the report in dir.
func knownHead(dir, head string) (string, string, error) {
	if head != "" {
		return head, "--head", nil
	}
	raw, err := readBounded(filepath.Join(dir, "report.json"), maxReport)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", nightcrier.Errorf(nightcrier.Unreachable, "report beside the audit: %w", err)
	}
	head, err = headOf(raw)
	if head == "" || err != nil {
		return "", "", err
	}
	return head, "report.json", nil
}

func headOf(report []byte) (string, error) {
	var r nightcrier.Report
	if err := json.Unmarshal(report, &r); err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "report.json is not readable: %w", err)
	}
	return r.AuditHead, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// verifyIncident checks the journal of an incident's newest run, what it renders
// to, and the file in the workspace while that is kept.
func verifyIncident(ctx context.Context, c *client.Client, id, head string) (verified, error) {
	v := verified{Incident: id, Problems: []audit.Problem{}}
	inc, err := c.Incident(ctx, id)
	if err != nil {
		return v, err
	}
	var chain audit.Chain
	var log audit.Log
	err = c.Journal(ctx, id, client.JournalQuery{}, func(e nightcrier.JournalEntry) error {
		chain.Add(e)
		return log.Add(e)
	})
	if err != nil {
		return v, err
	}
	if head, v.HeadFrom, err = storedHead(ctx, c, id, head); err != nil {
		return v, err
	}
	var rendered bytes.Buffer
	s, err := log.Write(&rendered)
	if err != nil {
		return v, err
	}
	v.addSummary(s, chain.Problems())
	if v.HeadFrom != "" && s.Head != head {
		v.Problems = append(v.Problems, audit.Problem{Text: fmt.Sprintf("the journal renders to an audit with the head %q; %s says %q", s.Head, v.HeadFrom, head)})
	}
	return v, v.compareFile(inc, rendered.Bytes())
}

// storedHead returns the head that is given, else that of the stored report.
func storedHead(ctx context.Context, c *client.Client, id, head string) (string, string, error) {
	if head != "" {
		return head, "--head", nil
	}
	raw, err := c.Report(ctx, id, "json")
	if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.NoReport {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	head, err = headOf(raw)
	return head, "report.json", err
}

// compareFile holds the workspace's file against what the journal renders to. A
// workspace that is gone, or on another machine, has none.
func (v *verified) compareFile(inc nightcrier.Incident, rendered []byte) error {
	if _, err := os.Stat(inc.Workspace); inc.Workspace == "" || err != nil || v.HeadFrom == "" {
		return nil
	}
	v.File = filepath.Join(inc.Workspace, "output", auditFile)
	f, err := os.Open(v.File)
	if err != nil {
		v.Problems = append(v.Problems, audit.Problem{Text: auditFile + " is missing from the workspace: " + err.Error()})
		return nil
	}
	defer f.Close()
	_, problems, err := audit.Verify(f, v.Head)
	if err != nil {
		return err
	}
	v.Problems = append(v.Problems, problems...)
	if written, err := readBounded(v.File, int64(len(rendered))+1); err == nil && len(problems) == 0 && !bytes.Equal(written, rendered) {
		v.Problems = append(v.Problems, audit.Problem{Text: auditFile + " is not what the journal renders to"})
	}
	return nil
}
