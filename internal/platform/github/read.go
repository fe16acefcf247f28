package github

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/platform/review"
)

var _ review.Reader = (*Client)(nil)

// What is read at most: pages of a hundred, the files of a pull request, and those of a comparison, of
// which GitHub lists no more.
const (
	pageSize         = 100
	maxPages         = 30
	maxComparedFiles = 300
)

// CheckRepository takes owner/name.
func CheckRepository(s string) error {
	owner, name, ok := strings.Cut(s, "/")
	if !ok || !isName(owner) || !isName(name) {
		return nightcrier.Errorf(nightcrier.Invalid, "the repository is %.100q: write owner/name", s)
	}
	return nil
}

func isName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	})
}

func pullPath(ref review.Ref, rest string) (string, error) {
	if err := CheckRepository(ref.Repository); err != nil {
		return "", err
	}
	if ref.Number < 1 {
		return "", nightcrier.Errorf(nightcrier.Invalid, "pull requests are numbered from 1, not %d", ref.Number)
	}
	return "/repos/" + ref.Repository + strings.ReplaceAll(rest, "#", strconv.Itoa(ref.Number)), nil
}

// account is a user or a bot.
type account struct{ Login, Type string }

// Pull implements review.Reader.
func (c *Client) Pull(ctx context.Context, ref review.Ref) (review.Pull, error) {
	at, err := pullPath(ref, "/pulls/#")
	if err != nil {
		return review.Pull{}, err
	}
	var in struct {
		Title, Body, State string
		User               account
		Base, Head         struct{ SHA string }
	}
	if _, err := c.get(ctx, ref.Repository, at, nil, &in); err != nil {
		return review.Pull{}, err
	}
	return review.Pull{Title: in.Title, Body: in.Body, Author: in.User.Login, Base: in.Base.SHA, Head: in.Head.SHA, Closed: in.State != "open"}, nil
}

// changed is a file of a pull request, as GitHub lists it.
type changed struct {
	Filename, Status, Patch string
	PreviousFilename        string `json:"previous_filename"`
}

// Diff implements review.Reader. It is put together from the list of files: GitHub refuses to show a
// large diff as a whole.
func (c *Client) Diff(ctx context.Context, ref review.Ref, since, head string, limit int) ([]byte, error) {
	if !isCommit(head) || since != "" && !isCommit(since) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%.64q and %.64q are no commits", since, head)
	}
	files, err := c.listChanges(ctx, ref, since, head)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, f := range files {
		out.WriteString(f.header())
		if f.Patch != "" && out.Len()+len(f.Patch) <= limit {
			out.WriteString(f.sides())
			out.WriteString(f.Patch)
			out.WriteString("\n")
		}
	}
	return []byte(out.String()), nil
}

func (c *Client) listChanges(ctx context.Context, ref review.Ref, since, head string) ([]changed, error) {
	if since != "" {
		return c.compare(ctx, ref, since, head)
	}
	at, err := pullPath(ref, "/pulls/#/files")
	if err != nil {
		return nil, err
	}
	files, err := listPages[changed](ctx, c, ref.Repository, at, nil)
	if err != nil {
		return nil, err
	}
	now, err := c.Pull(ctx, ref)
	if err == nil && now.Head != head {
		err = nightcrier.Errorf(nightcrier.Conflict, "the head of the pull request is %.12s by now, not %.12s", now.Head, head)
	}
	return files, err
}

// compare lists what changed between two commits of a branch.
func (c *Client) compare(ctx context.Context, ref review.Ref, since, head string) ([]changed, error) {
	at, err := pullPath(ref, "/compare/"+since+"..."+head)
	if err != nil {
		return nil, err
	}
	var in struct {
		Status string
		Files  []changed
	}
	_, err = c.get(ctx, ref.Repository, at, nil, &in)
	switch {
	case nightcrier.CodeOf(err) == nightcrier.NotFound:
		return nil, nightcrier.Errorf(nightcrier.Conflict, "commit %.12s is gone: %w", since, err)
	case err != nil:
		return nil, err
	case in.Status != "ahead" && in.Status != "identical":
		return nil, nightcrier.Errorf(nightcrier.Conflict, "commit %.12s is no ancestor of %.12s any more", since, head)
	case len(in.Files) >= maxComparedFiles:
		return nil, nightcrier.Errorf(nightcrier.Conflict, "more than %d files changed since commit %.12s: GitHub does not list them all", maxComparedFiles-1, since)
	}
	return in.Files, nil
}

// isCommit reports whether s is the name of a commit, whole or in part.
func isCommit(s string) bool {
	return len(s) >= 7 && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// header is what stands above the changes of a file in a unified diff.
func (f changed) header() string {
	before, after := f.Filename, f.Filename
	if f.PreviousFilename != "" {
		before = f.PreviousFilename
	}
	h := "diff --git " + quoteName("a/"+before) + " " + quoteName("b/"+after) + "\n"
	switch {
	case f.Status == "added":
		h += "new file mode 100644\n"
	case f.Status == "removed":
		h += "deleted file mode 100644\n"
	case before != after:
		h += "rename from " + quoteName(before) + "\nrename to " + quoteName(after) + "\n"
	}
	return h
}

// sides name the two versions of a file that has hunks.
func (f changed) sides() string {
	before, after := quoteName("a/"+f.Filename), quoteName("b/"+f.Filename)
	if f.PreviousFilename != "" {
		before = quoteName("a/" + f.PreviousFilename)
	}
	if f.Status == "added" {
		before = "/dev/null"
	}
	if f.Status == "removed" {
		after = "/dev/null"
	}
	return "--- " + before + "\n+++ " + after + "\n"
}

// quoteName writes a name as git does: one that could be taken for something else is quoted.
func quoteName(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == '\\' }) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			b.WriteString("\\" + string([]byte{'0' + c>>6, '0' + c>>3&7, '0' + c&7}))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// listPages reads a list to its end, or to the last page that is read.
func listPages[T any](ctx context.Context, c *Client, repository, at string, query url.Values) ([]T, error) {
	var all []T
	q := url.Values{}
	for name, values := range query {
		q[name] = values
	}
	q.Set("per_page", strconv.Itoa(pageSize))
	for page := 1; page <= maxPages; page++ {
		q.Set("page", strconv.Itoa(page))
		var part []T
		header, err := c.get(ctx, repository, at, q, &part)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
		if len(part) == 0 || !strings.Contains(header.Get("Link"), `rel="next"`) {
			break
		}
	}
	return all, nil
}

// rawFile is how GitHub answers with a file itself.
const rawFile = "application/vnd.github.raw+json"

// ReadFile implements review.Reader. The commit may be of a fork, also of one that is gone: GitHub
// keeps the heads of pull requests in the repository that they are for.
func (c *Client) ReadFile(ctx context.Context, ref review.Ref, commit, name string, limit int) ([]byte, error) {
	if !isCommit(commit) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%.64q is no commit", commit)
	}
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%.200q is no path of a file in a repository", name)
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	at, err := pullPath(ref, "/contents/")
	if err != nil {
		return nil, err
	}
	r, err := c.do(ctx, call{method: http.MethodGet, repository: ref.Repository, path: at + strings.Join(parts, "/"),
		query: url.Values{"ref": {commit}}, accept: rawFile, limit: limit, cut: true})
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(r.header.Get("Content-Type"), "application/vnd.github.raw") {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "%.200q is no file at commit %.12s", name, commit)
	}
	return r.body, nil
}

// Posted implements review.Reader.
func (c *Client) Posted(ctx context.Context, ref review.Ref) (review.Posted, error) {
	var posted review.Posted
	comments, err := c.ownComments(ctx, ref)
	if err != nil {
		return posted, err
	}
	for _, one := range comments {
		if strings.HasPrefix(one.Body, "<!--") { // the summary begins with its marker
			posted.Summary = one.Body
			break
		}
	}
	posted.Comments, err = c.listThreads(ctx, ref)
	return posted, err
}

// comment is one below a pull request.
type comment struct {
	ID   int64
	Body string
	User account
}

// ownComments are the comments below a pull request that we wrote, oldest first.
func (c *Client) ownComments(ctx context.Context, ref review.Ref) ([]comment, error) {
	at, err := pullPath(ref, "/issues/#/comments")
	if err != nil {
		return nil, err
	}
	login, err := c.Login(ctx)
	if err != nil {
		return nil, err
	}
	all, err := listPages[comment](ctx, c, ref.Repository, at, nil)
	return slices.DeleteFunc(all, func(one comment) bool { return one.User.Login != login }), err
}

// Login is as whom we write.
func (c *Client) Login(ctx context.Context) (string, error) { return c.access.login(ctx) }

const (
	graphPath = "/graphql"
	// threadsQuery asks what the REST API does not tell: which threads are resolved.
	threadsQuery = `query($owner:String!,$name:String!,$number:Int!,$cursor:String){repository(owner:$owner,name:$name){pullRequest(number:$number){reviewThreads(first:100,after:$cursor){pageInfo{hasNextPage endCursor} nodes{isResolved comments(first:1){nodes{body viewerDidAuthor}}}}}}}`
)

// threads is an answer to threadsQuery.
type threads struct {
	Data struct {
		Repository struct {
			PullRequest struct {
				ReviewThreads struct {
					PageInfo struct {
						HasNextPage bool
						EndCursor   string
					}
					Nodes []struct {
						IsResolved bool
						Comments   struct {
							Nodes []struct {
								Body            string
								ViewerDidAuthor bool
							}
						}
					}
				}
			}
		}
	}
	Errors []struct{ Message string }
}

// listThreads are the comments on lines that we began.
func (c *Client) listThreads(ctx context.Context, ref review.Ref) ([]review.PostedComment, error) {
	owner, name, _ := strings.Cut(ref.Repository, "/")
	vars := map[string]any{"owner": owner, "name": name, "number": ref.Number}
	var all []review.PostedComment
	for range maxPages {
		r, err := c.do(ctx, call{method: http.MethodPost, repository: ref.Repository, path: graphPath, in: map[string]any{"query": threadsQuery, "variables": vars}})
		if err != nil {
			return nil, err
		}
		var in threads
		if err := json.Unmarshal(r.body, &in); err != nil {
			return nil, nightcrier.Errorf(nightcrier.Unreachable, "GitHub answers with threads that cannot be read: %w", err)
		}
		if len(in.Errors) > 0 {
			return nil, nightcrier.Errorf(nightcrier.Refused, "GitHub does not list the threads of %s#%d: %.500s", ref.Repository, ref.Number, in.Errors[0].Message)
		}
		part := in.Data.Repository.PullRequest.ReviewThreads
		for _, t := range part.Nodes {
			if first := t.Comments.Nodes; len(first) > 0 && first[0].ViewerDidAuthor {
				all = append(all, review.PostedComment{Body: first[0].Body, Resolved: t.IsResolved})
			}
		}
		if !part.PageInfo.HasNextPage {
			break
		}
		vars["cursor"] = part.PageInfo.EndCursor
	}
	return all, nil
}

// MayWrite reports whether somebody may write in a repository.
func (c *Client) MayWrite(ctx context.Context, repository, login string) (bool, error) {
	if err := CheckRepository(repository); err != nil {
		return false, err
	}
	if !isName(strings.TrimSuffix(login, "[bot]")) {
		return false, nightcrier.Errorf(nightcrier.Invalid, "%.100q is no name of a user", login)
	}
	var in struct{ Permission string }
	_, err := c.get(ctx, repository, "/repos/"+repository+"/collaborators/"+url.PathEscape(login)+"/permission", nil, &in)
	var no *refusal
	if errors.As(err, &no) && no.status == http.StatusNotFound {
		return false, nil
	}
	return in.Permission == "admin" || in.Permission == "write", err
}
