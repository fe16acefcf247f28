package githubtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of GitHub's: a text in characters, and the files of a pull request that it lists.
const (
	maxText  = 65536
	maxFiles = 3000
)

// Pull is a pull request. Its Diff is as `git diff base...head` prints it.
type Pull struct {
	Repository                         string
	Number                             int
	Title, Body, Author                string
	BaseRef, Base, HeadRef, Head, Diff string
	// HeadRepository is where its head is, the same where it is empty; "-" says that it was deleted.
	HeadRepository string
	Draft, Closed  bool
}

type repository struct {
	pulls       map[int]*pull
	files       map[string]string // commit:path
	compares    map[string]compare
	permissions map[string]string
	checks      []*Check
	statuses    []Status
}

type pull struct {
	Pull
	commits  map[string]bool
	comments []*Comment
	reviews  []*Review
}

type compare struct{ status, diff string }

// Comment is one below a pull request.
type Comment struct {
	ID     int64
	Author string
	Body   string
}

// ReviewComment is one on lines.
type ReviewComment struct {
	ID        int64  `json:"-"`
	Author    string `json:"-"`
	InReplyTo int64  `json:"-"`
	Resolved  bool   `json:"-"`
	Path      string `json:"path"`
	Body      string `json:"body"`
	Line      int    `json:"line"`
	Side      string `json:"side"`
	StartLine int    `json:"start_line"`
	StartSide string `json:"start_side"`
}

// Review is one that was posted. Event is empty while it is pending.
type Review struct {
	ID       int64  `json:"-"`
	Author   string `json:"-"`
	CommitID string `json:"commit_id"`
	Event    string `json:"event"`
	Body     string `json:"body"`
	// Comments are those that came with it, and the answers to them.
	Comments []*ReviewComment `json:"comments"`
}

func (s *Server) repository(name string) *repository {
	if s.repos[name] == nil {
		s.repos[name] = &repository{pulls: map[int]*pull{}, files: map[string]string{}, compares: map[string]compare{}, permissions: map[string]string{}}
	}
	return s.repos[name]
}

// AddPull adds a pull request, and its repository where there is none.
func (s *Server) AddPull(p Pull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Author, p.BaseRef, p.HeadRef = cmp.Or(p.Author, "contributor"), cmp.Or(p.BaseRef, "main"), cmp.Or(p.HeadRef, "change")
	s.repository(p.Repository).pulls[p.Number] = &pull{Pull: p, commits: map[string]bool{p.Head: true}}
}

// Push moves the head of a pull request; since is the diff to what was there, "" after a force push.
func (s *Server) Push(name string, number int, head, diff, since string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	repo := s.repository(name)
	p := repo.pulls[number]
	status := "ahead"
	if since == "" {
		status = "diverged"
		clear(p.commits)
	}
	repo.compares[p.Head+"..."+head] = compare{status: status, diff: since}
	p.Head, p.Diff = head, diff
	p.commits[head] = true
}

// SetFile has a file be at a commit or branch.
func (s *Server) SetFile(name, commit, path, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repository(name).files[commit+":"+path] = content
}

// SetPermission says what somebody may do: admin, write, read or none.
func (s *Server) SetPermission(name, login, permission string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repository(name).permissions[login] = permission
}

// Write has somebody else comment, and returns the comment's id.
func (s *Server) Write(name string, number int, author, body string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.repository(name).pulls[number]
	c := &Comment{ID: s.id(), Author: author, Body: body}
	p.comments = append(p.comments, c)
	return c.ID
}

// Resolve resolves the thread that a comment began.
func (s *Server) Resolve(name string, number int, comment int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.repository(name).pulls[number].threads() {
		if c.ID == comment {
			c.Resolved = true
		}
	}
}

// Comments, Reviews, Checks and Statuses are what was posted.
func (s *Server) Comments(name string, number int) []Comment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return values(s.repository(name).pulls[number].comments)
}

// Reviews are those of a pull request, with their comments.
func (s *Server) Reviews(name string, number int) []Review {
	s.mu.Lock()
	defer s.mu.Unlock()
	return values(s.repository(name).pulls[number].reviews)
}

func values[T any](list []*T) []T {
	var all []T
	for _, p := range list {
		all = append(all, *p)
	}
	return all
}

// threads are the comments that began one.
func (p *pull) threads() []*ReviewComment {
	var all []*ReviewComment
	for _, r := range p.reviews {
		for _, c := range r.Comments {
			if c.InReplyTo == 0 {
				all = append(all, c)
			}
		}
	}
	return all
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	s.installationRoutes(mux)
	s.checkRoutes(mux)
	one := func(pattern string, serve func(w http.ResponseWriter, r *http.Request, repo *repository, p *pull)) {
		mux.HandleFunc(pattern, s.asVisitor(func(w http.ResponseWriter, r *http.Request, repo *repository, _ visitor) {
			number, _ := strconv.Atoi(r.PathValue("number"))
			if p := repo.pulls[number]; p != nil {
				serve(w, r, repo, p)
				return
			}
			refuse(w, http.StatusNotFound, "Not Found")
		}))
	}
	const repo = "/repos/{owner}/{name}"
	one("GET "+repo+"/pulls/{number}", func(w http.ResponseWriter, _ *http.Request, _ *repository, p *pull) {
		answer(w, http.StatusOK, p.show())
	})
	one("GET "+repo+"/pulls/{number}/files", func(w http.ResponseWriter, r *http.Request, _ *repository, p *pull) {
		files := readDiff(p.Diff)
		page(w, r, files[:min(len(files), maxFiles)], nil)
	})
	one("GET "+repo+"/pulls/{number}/reviews", listReviews)
	one("POST "+repo+"/pulls/{number}/reviews", s.createReview)
	one("GET "+repo+"/pulls/{number}/comments", func(w http.ResponseWriter, r *http.Request, _ *repository, p *pull) {
		list := []any{}
		for _, v := range p.reviews {
			for _, c := range v.Comments {
				list = append(list, map[string]any{"id": c.ID, "body": c.Body, "path": c.Path, "user": user(c.Author)})
			}
		}
		page(w, r, list, nil)
	})
	one("POST "+repo+"/pulls/{number}/comments/{comment}/replies", s.createReply)
	one("GET "+repo+"/issues/{number}/comments", func(w http.ResponseWriter, r *http.Request, _ *repository, p *pull) {
		list := make([]any, 0, len(p.comments))
		for _, c := range p.comments {
			list = append(list, c.show())
		}
		page(w, r, list, nil)
	})
	one("POST "+repo+"/issues/{number}/comments", s.createComment)
	mux.HandleFunc("PATCH "+repo+"/issues/comments/{comment}", s.asVisitor(editComment))
	mux.HandleFunc("GET "+repo+"/contents/{path...}", s.asVisitor(showFile))
	mux.HandleFunc("GET "+repo+"/compare/{range}", s.asVisitor(showCompare))
	mux.HandleFunc("GET "+repo+"/collaborators/{login}/permission", s.asVisitor(showPermission))
	mux.HandleFunc("POST /graphql", s.serveGraph)
	return mux
}

func user(login string) map[string]any {
	kind := "User"
	if strings.HasSuffix(login, "[bot]") {
		kind = "Bot"
	}
	return map[string]any{"login": login, "type": kind}
}

func (p *pull) show() any {
	state := "open"
	if p.Closed {
		state = "closed"
	}
	head := map[string]any{"ref": p.HeadRef, "sha": p.Head, "repo": nil}
	if p.HeadRepository != "-" {
		head["repo"] = map[string]any{"full_name": cmp.Or(p.HeadRepository, p.Repository), "fork": p.HeadRepository != ""}
	}
	return map[string]any{"number": p.Number, "title": p.Title, "body": p.Body, "state": state, "draft": p.Draft, "user": user(p.Author), "head": head,
		"base": map[string]any{"ref": p.BaseRef, "sha": p.Base, "repo": map[string]any{"full_name": p.Repository}}}
}

func (c *Comment) show() any {
	return map[string]any{"id": c.ID, "body": c.Body, "user": user(c.Author), "html_url": fmt.Sprintf("http://github.test/%d", c.ID)}
}

func listReviews(w http.ResponseWriter, r *http.Request, _ *repository, p *pull) {
	list := make([]any, 0, len(p.reviews))
	for _, v := range p.reviews {
		list = append(list, v.show())
	}
	page(w, r, list, nil)
}

func (v *Review) show() any {
	return map[string]any{"id": v.ID, "body": v.Body, "commit_id": v.CommitID, "user": user(v.Author), "state": cmp.Or(map[string]string{"COMMENT": "COMMENTED", "APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED"}[v.Event], "PENDING")}
}

// tooLong says that a text is longer than GitHub takes.
func tooLong(w http.ResponseWriter, body string) bool {
	if utf8.RuneCountInString(body) > maxText {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed", fmt.Sprintf("body is too long (maximum is %d characters)", maxText))
		return true
	}
	return false
}

func (s *Server) createReview(w http.ResponseWriter, r *http.Request, _ *repository, p *pull) {
	v := &Review{Author: Login}
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		refuse(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	const status = http.StatusUnprocessableEntity
	switch {
	case tooLong(w, v.Body):
		return
	case v.CommitID != "" && !p.commits[v.CommitID]:
		refuse(w, status, "Unprocessable Entity", "The commit_id is not part of the pull request")
		return
	case !slices.Contains([]string{"", "COMMENT", "APPROVE", "REQUEST_CHANGES"}, v.Event):
		refuse(w, status, "Unprocessable Entity", "Variable $event of type PullRequestReviewEvent was provided invalid value")
		return
	case v.Event == "" && slices.ContainsFunc(p.reviews, func(o *Review) bool { return o.Author == v.Author && o.Event == "" }):
		refuse(w, status, "Unprocessable Entity", "User can only have one pending review per pull request")
		return
	case v.Event == "COMMENT" && v.Body == "" && len(v.Comments) == 0, v.Event == "REQUEST_CHANGES" && v.Body == "":
		refuse(w, status, "Unprocessable Entity", "Body can't be blank")
		return
	case v.Event != "COMMENT" && v.Event != "" && p.Author == v.Author:
		refuse(w, status, "Unprocessable Entity", "Can not approve your own pull request")
		return
	}
	files := readDiff(p.Diff)
	for _, c := range v.Comments {
		if tooLong(w, c.Body) {
			return
		}
		if why := whyNoThread(files, *c); why != "" || c.Body == "" {
			refuse(w, status, "Unprocessable Entity", cmp.Or(why, "Body can't be blank"))
			return
		}
		c.ID, c.Author = s.id(), v.Author
	}
	v.ID = s.id()
	p.reviews = append(p.reviews, v)
	answer(w, http.StatusOK, v.show())
}

func (s *Server) createReply(w http.ResponseWriter, r *http.Request, _ *repository, p *pull) {
	var in struct{ Body string }
	id, _ := strconv.ParseInt(r.PathValue("comment"), 10, 64)
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Body == "" {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "body is missing")
		return
	}
	if tooLong(w, in.Body) {
		return
	}
	for _, v := range p.reviews {
		for _, c := range v.Comments {
			if c.ID == id && c.InReplyTo == 0 {
				reply := &ReviewComment{ID: s.id(), Author: Login, InReplyTo: id, Path: c.Path, Body: in.Body, Line: c.Line, Side: c.Side}
				v.Comments = append(v.Comments, reply)
				answer(w, http.StatusCreated, map[string]any{"id": reply.ID, "body": reply.Body, "in_reply_to_id": id, "user": user(Login)})
				return
			}
		}
	}
	refuse(w, http.StatusNotFound, "Not Found")
}

func (s *Server) createComment(w http.ResponseWriter, r *http.Request, _ *repository, p *pull) {
	var in struct{ Body string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Body == "" {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "body is missing")
		return
	}
	if tooLong(w, in.Body) {
		return
	}
	c := &Comment{ID: s.id(), Author: Login, Body: in.Body}
	p.comments = append(p.comments, c)
	answer(w, http.StatusCreated, c.show())
}

func editComment(w http.ResponseWriter, r *http.Request, repo *repository, _ visitor) {
	var in struct{ Body string }
	id, _ := strconv.ParseInt(r.PathValue("comment"), 10, 64)
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Body == "" {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "body is missing")
		return
	}
	if tooLong(w, in.Body) {
		return
	}
	for _, p := range repo.pulls {
		for _, c := range p.comments {
			if c.ID == id && c.Author == Login {
				c.Body = in.Body
				answer(w, http.StatusOK, c.show())
				return
			}
		}
	}
	refuse(w, http.StatusNotFound, "Not Found")
}

func showFile(w http.ResponseWriter, r *http.Request, repo *repository, _ visitor) {
	ref, path := r.URL.Query().Get("ref"), r.PathValue("path")
	content, ok := repo.files[ref+":"+path]
	if !ok {
		for name := range repo.files {
			if strings.HasPrefix(name, ref+":"+path+"/") {
				answer(w, http.StatusOK, []any{map[string]any{"type": "file"}})
				return
			}
		}
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	w.Header().Set("Content-Type", "application/vnd.github.raw+json; charset=utf-8")
	_, _ = w.Write([]byte(content)) // into memory
}

func showCompare(w http.ResponseWriter, r *http.Request, repo *repository, _ visitor) {
	c, ok := repo.compares[r.PathValue("range")]
	if !ok {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	files := readDiff(c.diff)
	answer(w, http.StatusOK, map[string]any{"status": c.status, "files": files[:min(len(files), 300)]})
}

func showPermission(w http.ResponseWriter, r *http.Request, repo *repository, _ visitor) {
	permission := cmp.Or(repo.permissions[r.PathValue("login")], "read")
	answer(w, http.StatusOK, map[string]any{"permission": permission, "role_name": permission, "user": user(r.PathValue("login"))})
}

// serveGraph answers the one question that the REST API has no answer to: which threads are resolved.
func (s *Server) serveGraph(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query     string
		Variables struct {
			Owner, Name, Cursor string
			Number              int
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || !strings.Contains(in.Query, "reviewThreads") {
		refuse(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	r.SetPathValue("owner", in.Variables.Owner)
	r.SetPathValue("name", in.Variables.Name)
	s.asVisitor(func(w http.ResponseWriter, _ *http.Request, repo *repository, _ visitor) {
		p := repo.pulls[in.Variables.Number]
		if p == nil {
			answer(w, http.StatusOK, map[string]any{"data": nil, "errors": []any{map[string]any{"type": "NOT_FOUND", "message": "Could not resolve to a PullRequest"}}})
			return
		}
		from, _ := strconv.Atoi(in.Variables.Cursor)
		threads := p.threads()
		to := min(from+100, len(threads))
		nodes := []any{}
		for _, c := range threads[from:to] {
			nodes = append(nodes, map[string]any{"isResolved": c.Resolved, "comments": map[string]any{"nodes": []any{map[string]any{"body": c.Body, "viewerDidAuthor": c.Author == Login}}}})
		}
		answer(w, http.StatusOK, map[string]any{"data": map[string]any{"repository": map[string]any{"pullRequest": map[string]any{"reviewThreads": map[string]any{
			"pageInfo": map[string]any{"hasNextPage": to < len(threads), "endCursor": strconv.Itoa(to)}, "nodes": nodes}}}}})
	})(w, r)
}
