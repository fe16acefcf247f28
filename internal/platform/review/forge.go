package review

import "context"

// Reader is where a pull request is read. All that it returns was written by others.
type Reader interface {
	// Pull returns a pull request as it stands now.
	Pull(ctx context.Context, ref Ref) (Pull, error)
	// Diff returns what a pull request changes, as a unified diff of at most limit bytes and some
	// more; what is cut off or has no patch (the forge gives none of large files) has the header of
	// its file alone. With since, a commit, it is what was changed from there to head: a Conflict
	// error where that is no ancestor of head any more, as after a force push.
	Diff(ctx context.Context, ref Ref, since, head string, limit int) ([]byte, error)
	// ReadFile returns the beginning of a file as it was at a commit, of at most limit bytes; a
	// NotFound error where there is none. A commit of the head may be in another repository, which
	// may be gone.
	ReadFile(ctx context.Context, ref Ref, commit, path string, limit int) ([]byte, error)
	// Posted returns what stands on a pull request that we wrote, and nobody else: a marker in the words
	// of others is none of ours.
	Posted(ctx context.Context, ref Ref) (Posted, error)
}

// Writer writes on a pull request. Each of its methods may be called again after a crash, with the
// same marker: what stands there already is adopted, not written twice.
type Writer interface {
	// PostReview posts a review with its comments.
	PostReview(ctx context.Context, ref Ref, r Review) error
	// PutSummary writes the one comment that has the marker, in the place of what it said before.
	PutSummary(ctx context.Context, ref Ref, s Summary) error
	// PutCheck writes the check run of that external id.
	PutCheck(ctx context.Context, ref Ref, c Check) error
}

// Ref names a pull request.
type Ref struct {
	// Repository is owner/name.
	Repository string `json:"repository"`
	Number     int    `json:"number"`
}

// Pull is a pull request.
type Pull struct {
	Title  string `json:"title"`
	Body   string `json:"body"`
	Author string `json:"author"`
	// Base and Head are commits: that of the branch that it is to be merged into, and its own.
	Base string `json:"base"`
	Head string `json:"head"`
	// Closed says that it is merged or closed.
	Closed bool `json:"closed"`
}

// Posted is what we wrote on a pull request.
type Posted struct {
	// Summary is the whole text of the one comment, "" for none.
	Summary string
	// Comments are those on lines, also of reviews before.
	Comments []PostedComment
}

// PostedComment is a comment of ours on a line.
type PostedComment struct {
	Body string
	// Resolved says that somebody has resolved its thread.
	Resolved bool
}

// Side is which of two versions a line stands in, as GitHub calls them.
type Side string

// The sides.
const (
	Right Side = "RIGHT" // what it is now: lines that were added, or stayed
	Left  Side = "LEFT"  // what it was: lines that were taken out
)

// Verdict is what a review says of the whole, as GitHub calls it.
type Verdict string

// The verdicts.
const (
	Remark         Verdict = "COMMENT"
	Approve        Verdict = "APPROVE"
	RequestChanges Verdict = "REQUEST_CHANGES"
)

// Review is posted at once: its comments or none of them.
type Review struct {
	// Marker stands in Body, and in no other review.
	Marker string `json:"marker"`
	// Head is the commit that was looked at.
	Head     string    `json:"head"`
	Verdict  Verdict   `json:"verdict"`
	Body     string    `json:"body"`
	Comments []Comment `json:"comments,omitempty"`
}

// Comment is one on lines of a file, all in one hunk of the diff.
type Comment struct {
	Path string `json:"path"`
	Side Side   `json:"side"`
	// Line is the last one; Start the first one where there are several, else 0.
	Line  int    `json:"line"`
	Start int    `json:"start,omitempty"`
	Body  string `json:"body"`
}

// Summary is the comment of which a pull request has one.
type Summary struct {
	// Marker begins Body, and that of no other comment of ours.
	Marker string `json:"marker"`
	Body   string `json:"body"`
}

// Conclusion is how a check ended, as GitHub calls it.
type Conclusion string

// The conclusions: nothing was found, something was found, it could not look.
const (
	Success Conclusion = "success"
	Neutral Conclusion = "neutral"
	Failure Conclusion = "failure"
)

// Check is what one agent found, beside the commit.
type Check struct {
	Name string `json:"name"`
	// ExternalID is that of this check and of no other.
	ExternalID  string       `json:"external_id"`
	Head        string       `json:"head"`
	Conclusion  Conclusion   `json:"conclusion"`
	Title       string       `json:"title"`
	Summary     string       `json:"summary"`
	Annotations []Annotation `json:"annotations,omitempty"`
}

// Annotation is a finding in a check. Level is notice, warning or failure.
type Annotation struct {
	Path    string `json:"path"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
	Level   string `json:"level"`
	Title   string `json:"title"`
	Message string `json:"message"`
}
