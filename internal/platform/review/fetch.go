package review

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/text"
)

// Reviewer fetches pull requests and posts reviews of them: two actions of a run.
type Reviewer struct {
	// Reader and Writer are nil where no forge is configured: then diffs alone are reviewed.
	Reader Reader
	Writer Writer
	// Policy is that of a repository.
	Policy func(repository string) Policy
}

// Actions are what a run is made able to do.
func (r *Reviewer) Actions() map[string]run.Action {
	return map[string]run.Action{pipeline.ActionFetch: action{r.fetch}, pipeline.ActionPost: action{r.post}}
}

type action struct {
	do func(*run.Work) (run.Done, error)
}

// Do implements run.Action.
func (a action) Do(w *run.Work) (run.Done, error) { return a.do(w) }

// Due implements run.Action.
func (action) Due() run.Due { return run.UnlessStopped }

// Where the workspace of a run has what an agent is shown, and what the review is planned by.
const (
	shownDir = "output/pull-request"
	keptDir  = "context/pull-request"
)

// DefaultInstructions are files that say how a repository is worked on.
func DefaultInstructions() []string {
	return []string{"AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", "CONTRIBUTING.md"}
}

// request is what a run is to review: a pull request, or a diff.
type request struct {
	ref    Ref
	diff   string
	dryRun bool
}

// readRequest reads the input of a run.
func (r *Reviewer) readRequest(in map[string]any) (q request, err error) {
	q.ref.Repository, _ = in["repo"].(string)
	number, _ := in["pr_number"].(float64)
	q.ref.Number = int(number)
	q.diff, _ = in["diff"].(string)
	q.dryRun, _ = in["dry_run"].(bool)
	switch {
	case q.diff != "":
		q.ref = Ref{}
	case q.ref.Repository == "" || q.ref.Number < 1:
		err = nightcrier.Errorf(nightcrier.Invalid, "there is nothing to review: give repo (as owner/name) and pr_number, or diff")
	case r.Reader == nil:
		err = nightcrier.Errorf(nightcrier.Invalid, "no GitHub is configured: set github, or give diff")
	}
	return q, err
}

// policyOf is the policy of a repository.
func (r *Reviewer) policyOf(repository string) Policy {
	var p Policy
	if r.Policy != nil {
		p = r.Policy(repository)
	}
	if p.Instructions == nil {
		p.Instructions = DefaultInstructions()
	}
	return p
}

// fetched is what came of it: the step's output. Of Files, Reviewed are shown to agents.
type fetched struct {
	Head     string                  `json:"head,omitempty"`
	Since    string                  `json:"since,omitempty"`
	Files    int                     `json:"files"`
	Reviewed int                     `json:"reviewed"`
	Failure  string                  `json:"failure,omitempty"`
	Class    nightcrier.FailureClass `json:"class,omitempty"`
	Left     []nightcrier.Artifact   `json:"left,omitempty"`
}

// fetch leaves what changed where the agents of later steps find it.
func (r *Reviewer) fetch(w *run.Work) (done run.Done, err error) {
	done.Result = w.Result
	in := w.Given()
	got, err := run.Checkpoint(w, "fetch", func(c context.Context, s *run.Session) (fetched, error) {
		got, err := r.fetchPull(c, s, in)
		if err == nil || run.CanBeRepeated(c, err) {
			return got, err
		}
		return fetched{Failure: err.Error(), Class: run.ClassOf(err, nightcrier.FailInput)}, nil
	})
	switch {
	case err != nil:
		return done, err
	case got.Failure != "":
		done.Class, done.Reason = got.Class, got.Failure
		return done, nil
	}
	done.Artifacts = got.Left
	got.Left = nil
	done.Output, err = json.Marshal(got)
	return done, err
}

func (r *Reviewer) fetchPull(ctx context.Context, s *run.Session, in map[string]any) (got fetched, err error) {
	q, err := r.readRequest(in)
	if err != nil {
		return got, err
	}
	if s.Workspace == nil {
		return got, s.NoWorkspace
	}
	f := fetching{Reviewer: r, mask: s.Mask.String, policy: r.policyOf(q.ref.Repository)}
	if err := f.read(ctx, q); err != nil {
		return got, err
	}
	m := f.material
	files := s.Workspace.Batch()
	left := func(name string, data []byte) error {
		got.Left = append(got.Left, nightcrier.Artifact{Path: path.Join(shownDir, name), Bytes: int64(len(data)), SHA256: text.DigestOf(data)})
		return files.WriteFile(path.Join(shownDir, name), data, 0o600)
	}
	about, err := m.aboutFile()
	if err != nil {
		return got, err
	}
	if err := left("about.json", about); err != nil {
		return got, err
	}
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		if err := left(name, []byte(m.files[name])); err != nil {
			return got, err
		}
	}
	for name, value := range map[string]any{"diff.json": f.diff, "about.json": m.about} {
		data, err := json.Marshal(value)
		if err != nil {
			return got, err
		}
		if err := files.WriteFile(path.Join(keptDir, name), data, 0o600); err != nil {
			return got, err
		}
	}
	got.Head, got.Since, got.Files = m.about.Head, m.about.Since, len(m.about.Files)
	for _, f := range m.about.Files {
		if f.LeftOut == "" {
			got.Reviewed++
		}
	}
	return got, files.Sync()
}

// fetching reads a pull request.
type fetching struct {
	*Reviewer
	mask     func(string) string
	policy   Policy
	diff     Diff
	material *material
}

// read reads the diff, and what belongs to it.
func (f *fetching) read(ctx context.Context, q request) error {
	if q.diff != "" {
		f.diff = ParseDiff([]byte(q.diff))
		if len(f.diff.Files) == 0 {
			return nightcrier.Errorf(nightcrier.Invalid, "diff: no file of it can be read: give a unified diff, such as `git diff` writes")
		}
		hidden := f.diff.clean(f.mask)
		f.material = newMaterial(About{Title: "a diff", HiddenLines: hidden}, &f.diff, nil, nil, f.policy.Skip)
		return nil
	}
	pull, err := f.Reader.Pull(ctx, q.ref)
	if err != nil {
		return err
	}
	if pull.Closed {
		return nightcrier.Errorf(nightcrier.Invalid, "%s#%d is closed: there is nothing to review", q.ref.Repository, q.ref.Number)
	}
	about := About{Ref: q.ref, Title: text.CutLine(cleanProse(pull.Title, f.mask), 500), Body: text.CutBytes(cleanProse(pull.Body, f.mask), 16<<10), Author: text.FoldLine(pull.Author), Base: pull.Base, Head: pull.Head}
	raw, err := f.Reader.Diff(ctx, q.ref, "", pull.Head, maxDiffBytes)
	if err != nil {
		return err
	}
	f.diff = ParseDiff(raw)
	about.HiddenLines = f.diff.clean(f.mask)
	since, err := f.readSince(ctx, q.ref, &about)
	if err != nil {
		return err
	}
	attr, err := f.readFile(ctx, q.ref, pull.Base, ".gitattributes", 64<<10)
	if err != nil {
		return err
	}
	f.material = newMaterial(about, &f.diff, since, readAttributes(attr), f.policy.Skip)
	return f.readFiles(ctx, q.ref, pull)
}

// readSince reads what changed since the last review, nil where all is to be shown: there was none, or what it
// saw is in the pull request no more.
func (f *fetching) readSince(ctx context.Context, ref Ref, about *About) (*Diff, error) {
	posted, err := f.Reader.Posted(ctx, ref)
	if err != nil {
		return nil, err
	}
	last := posted.recall().Head
	if last == "" || last == about.Head {
		return nil, nil
	}
	raw, err := f.Reader.Diff(ctx, ref, last, about.Head, maxDiffBytes)
	if code := nightcrier.CodeOf(err); code == nightcrier.Conflict || code == nightcrier.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	since := ParseDiff(raw)
	if since.Cut != "" {
		return nil, nil
	}
	about.Since = last
	return &since, nil
}

// readFiles reads the rules of the base, and what changed as it is now.
func (f *fetching) readFiles(ctx context.Context, ref Ref, pull Pull) error {
	for _, name := range f.policy.Instructions {
		rule, err := f.readFile(ctx, ref, pull.Base, name, maxRule)
		if err != nil {
			return err
		}
		if rule != "" {
			f.material.addRule(name, rule)
		}
	}
	for i, shown := range f.material.wanted() {
		now, err := f.readFile(ctx, ref, pull.Head, shown.Path, maxWhole)
		if err != nil {
			return err
		}
		if now != "" {
			f.material.addWhole(shown, i+1, now)
		}
	}
	return nil
}

// readFile reads a file for people to see, "" where there is none, as where the repository of a fork is gone.
func (f *fetching) readFile(ctx context.Context, ref Ref, commit, name string, limit int) (string, error) {
	raw, err := f.Reader.ReadFile(ctx, ref, commit, name, limit)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s of %s: %w", name, shortCommit(commit), err)
	}
	return text.MaskClean(string(clipBytes(raw, limit)), f.mask, text.MarkHidden), nil
}
