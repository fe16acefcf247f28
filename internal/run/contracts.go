package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/text"
)

// resultName is the file by which an agent delivers JSON, and ResultFile where it is kept.
const (
	resultName = "result.json"
	ResultFile = "output/" + resultName
)

// Kept is what is kept of what an agent delivered: the checkpoint of its step.
type Kept struct {
	Output    json.RawMessage       `json:"output,omitempty"`
	Artifacts []nightcrier.Artifact `json:"artifacts,omitempty"`
	// Problems are what was still lacking.
	Problems []string `json:"problems,omitempty"`
}

// contractOf is the contract of a step, nil where it takes whatever an agent says.
func (w *Work) contractOf(step *pipeline.Step) (Deliverable, error) {
	d := step.Deliverable
	switch {
	case d == nil:
		return nil, nil
	case d.Kind == pipeline.Report && w.runner.cfg.Report != nil:
		return w.runner.cfg.Report, nil
	case d.Kind == pipeline.Files:
		return filesContract(d.Files), nil
	case d.Kind != pipeline.Schema:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "step %s: this server does not know the deliverable %s", step.ID, d.Kind)
	}
	var schema jsonschema.Schema
	err := json.Unmarshal(d.Schema, &schema)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "step %s: its deliverable is no JSON Schema: %w", step.ID, err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "step %s: its deliverable is no JSON Schema: %w", step.ID, err)
	}
	return schemaContract{resolved, d.Schema}, nil
}

// keepDelivered takes over what the agent of a step left, and says what of its contract is
// lacking: what it hands on is what it delivered, and without a contract what it said last.
func (s *Session) keepDelivered(ctx context.Context, d Deliverable, res nightcrier.AgentResult) (Kept, error) {
	if s.Workspace == nil {
		return Kept{Problems: []string{s.NoWorkspace.Error()}}, nil
	}
	var found Found
	var err error
	switch {
	case res.State != nightcrier.StateSuccess:
	case d != nil:
		found, err = d.Validate(ctx, s)
	default:
		found.Output, err = s.finalWords()
	}
	if err != nil {
		return s.unkept(ctx, err)
	}
	left, err := s.Workspace.Collect()
	if err != nil {
		return s.unkept(ctx, err)
	}
	for _, refused := range left.Refused {
		s.Log.Warn("output of the agent was not taken", "event", "artifact_refused", "path", refused.Path, "reason", refused.Reason)
	}
	k := Kept{Output: found.Output, Artifacts: left.Artifacts, Problems: found.Problems}
	if k.Artifacts = k.Artifacts[:min(len(k.Artifacts), store.MaxStepArtifacts)]; len(k.Artifacts) < len(left.Artifacts) {
		s.Log.Warn("not all artifacts of the step are listed", "event", "artifacts_cut", "kept", len(k.Artifacts), "left", len(left.Artifacts))
	}
	return k, nil
}

// unkept leaves to the engine what can be repeated; what cannot is lacking.
func (s *Session) unkept(ctx context.Context, err error) (Kept, error) {
	if CanBeRepeated(ctx, err) {
		return Kept{}, err
	}
	return Kept{Problems: []string{err.Error()}}, nil
}

// finalWords are the agent's last ones as {"summary": …}, nil where it had none.
func (s *Session) finalWords() (json.RawMessage, error) {
	said, err := s.Workspace.ReadFile(FinalMessage)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	words := map[string]any{summaryKey: text.CutBytes(string(said), store.MaxStepOutput/2)}
	if shown, err := s.Workspace.Uncollected(richName); err == nil && len(shown) < store.MaxStepOutput/2 && json.Valid(shown) {
		words[richKey] = json.RawMessage(s.Mask.String(string(shown)))
	}
	raw, err := json.Marshal(words)
	if len(raw) > store.MaxStepOutput { // a byte may take six
		raw, err = json.Marshal(map[string]string{summaryKey: text.CutBytes(string(said), store.MaxStepOutput/8)})
	}
	return raw, err
}

// richName is the file of what an agent handed in to be shown to people, and richKey where later
// steps find it beside its last words.
const (
	richName = "rich_output.json"
	richKey  = "rich_output"
)

// unfence takes off the fence that models put around JSON.
func unfence(said []byte) []byte {
	said = bytes.TrimSpace(said)
	inner, fenced := bytes.CutPrefix(said, []byte("```"))
	inner, closed := bytes.CutSuffix(inner, []byte("```"))
	if !fenced || !closed {
		return said
	}
	return bytes.TrimSpace(bytes.TrimPrefix(inner, []byte("json")))
}

// schemaContract is JSON that a schema describes, in a file or as the agent's last words.
type schemaContract struct {
	*jsonschema.Resolved
	source json.RawMessage
}

// Validate implements Deliverable.
func (c schemaContract) Validate(_ context.Context, s *Session) (Found, error) {
	raw, err := s.Workspace.Uncollected(resultName)
	if nightcrier.CodeOf(err) == nightcrier.NotFound { // or it is collected already
		raw, err = s.Workspace.ReadFile(ResultFile)
	}
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		raw, err = s.Workspace.ReadFile(FinalMessage)
		raw = unfence(raw)
	}
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return Found{Problems: []string{ResultFile + " is missing"}}, nil
	}
	if err != nil {
		return Found{}, err
	}
	if len(raw) > store.MaxStepOutput {
		return Found{Problems: []string{fmt.Sprintf("%s has %d bytes; at most %d are taken", ResultFile, len(raw), store.MaxStepOutput)}}, nil
	}
	raw = []byte(s.Mask.String(string(bytes.TrimSpace(raw)))) // with its keys: they say what is a secret
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return Found{Problems: []string{"it is no JSON: " + text.CutLine(err.Error(), maxProblem)}, Text: raw}, nil
	}
	if err := c.Resolved.Validate(value); err != nil {
		return Found{Problems: []string{"it is not as the schema says: " + text.CutLine(err.Error(), maxProblem)}, Text: raw}, nil
	}
	return Found{Output: raw}, nil
}

// maxProblem bounds what is said of one problem, in bytes.
const maxProblem = 1 << 10

// AskAgain implements Deliverable.
func (c schemaContract) AskAgain(s *Session, problems []string) []byte {
	if who, err := s.Order.Executor(); err == nil && who.AnswersOnly {
		return askAgain(problems, fmt.Sprintf("Deliver it again: your last message is one JSON document and nothing else, as this JSON Schema says:\n\n%s\n", c.source))
	}
	return askAgain(problems, fmt.Sprintf("Write %s again: one JSON document, as this JSON Schema says:\n\n%s\n", ResultFile, c.source))
}

// filesContract is files, by patterns as of path.Match.
type filesContract []string

// Validate implements Deliverable. What it hands on is the names of the files.
func (c filesContract) Validate(_ context.Context, s *Session) (Found, error) {
	names, err := s.Workspace.LeftNames()
	if err != nil {
		return Found{}, err
	}
	var found Found
	var matched []string
	for _, pattern := range c {
		n := len(matched)
		for _, name := range names {
			if hit, _ := path.Match(strings.TrimPrefix(pattern, "output/"), name); hit && !slices.Contains(matched, name) {
				matched = append(matched, name)
			}
		}
		if len(matched) == n {
			found.Problems = append(found.Problems, "there is no file output/"+strings.TrimPrefix(pattern, "output/"))
		}
	}
	slices.Sort(matched)
	if found.Output, err = json.Marshal(map[string]any{"files": matched}); len(found.Output) > store.MaxStepOutput {
		found.Output, found.Problems = nil, append(found.Problems, "too many files match")
	}
	return found, err
}

// AskAgain implements Deliverable.
func (c filesContract) AskAgain(_ *Session, problems []string) []byte {
	return askAgain(problems, "Write the files that are missing.\n")
}

// askAgain is what an agent is told that left something undone.
func askAgain(problems []string, then string) []byte {
	said := "What you delivered lacks something:\n\n"
	for _, p := range problems {
		said += "- " + text.CutLine(p, maxProblem) + "\n"
	}
	return []byte(said + "\n" + then)
}
