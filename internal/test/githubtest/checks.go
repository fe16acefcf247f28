package githubtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// maxAnnotations is how many come in one request.
const maxAnnotations = 50

// Check is a check run.
type Check struct {
	ID         int64  `json:"-"`
	Name       string `json:"name"`
	HeadSHA    string `json:"head_sha"`
	ExternalID string `json:"external_id"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	Output     struct {
		Title       string       `json:"title"`
		Summary     string       `json:"summary"`
		Annotations []Annotation `json:"annotations"`
	} `json:"output"`
}

// Annotation is one of a check run.
type Annotation struct {
	Path    string `json:"path"`
	Start   int    `json:"start_line"`
	End     int    `json:"end_line"`
	Level   string `json:"annotation_level"`
	Title   string `json:"title"`
	Message string `json:"message"`
}

// Status is the status of a commit.
type Status struct {
	SHA, State, Context, Description string
}

// Checks are the check runs of a repository.
func (s *Server) Checks(name string) []Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	return values(s.repository(name).checks)
}

// Statuses are the statuses of its commits.
func (s *Server) Statuses(name string) []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.repository(name).statuses)
}

func (s *Server) checkRoutes(mux *http.ServeMux) {
	const repo = "/repos/{owner}/{name}"
	mux.HandleFunc("POST "+repo+"/check-runs", s.asVisitor(func(w http.ResponseWriter, r *http.Request, repo *repository, by visitor) {
		c := &Check{ID: s.id()}
		if !readCheck(w, r, c, by) {
			return
		}
		if c.Name == "" || !repo.hasCommit(c.HeadSHA) {
			refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "No commit found for SHA: "+c.HeadSHA)
			return
		}
		repo.checks = append(repo.checks, c)
		answer(w, http.StatusCreated, c.show())
	}))
	mux.HandleFunc("PATCH "+repo+"/check-runs/{id}", s.asVisitor(func(w http.ResponseWriter, r *http.Request, repo *repository, by visitor) {
		id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
		for _, c := range repo.checks {
			if c.ID == id {
				earlier := c.Output.Annotations
				c.Output.Annotations = nil
				if readCheck(w, r, c, by) {
					answer(w, http.StatusOK, c.show())
				}
				c.Output.Annotations = append(earlier, c.Output.Annotations...) // they are added, never replaced
				return
			}
		}
		refuse(w, http.StatusNotFound, "Not Found")
	}))
	mux.HandleFunc("GET "+repo+"/commits/{sha}/check-runs", s.asVisitor(func(w http.ResponseWriter, r *http.Request, repo *repository, _ visitor) {
		var list []any
		for _, c := range repo.checks {
			if name := r.URL.Query().Get("check_name"); c.HeadSHA == r.PathValue("sha") && (name == "" || name == c.Name) {
				list = append(list, c.show())
			}
		}
		page(w, r, list, func(part []any) any { return map[string]any{"total_count": len(list), "check_runs": part} })
	}))
	mux.HandleFunc("POST "+repo+"/statuses/{sha}", s.asVisitor(func(w http.ResponseWriter, r *http.Request, repo *repository, _ visitor) {
		st := Status{SHA: r.PathValue("sha")}
		if err := json.NewDecoder(r.Body).Decode(&st); err != nil || !slices.Contains([]string{"error", "failure", "pending", "success"}, st.State) || len([]rune(st.Description)) > 140 {
			refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "state is not included in the list, or description is too long (maximum is 140 characters)")
			return
		}
		st.SHA = r.PathValue("sha")
		repo.statuses = append(repo.statuses, st)
		answer(w, http.StatusCreated, map[string]any{"id": s.id()})
	}))
}

func (c *Check) show() any {
	return map[string]any{"id": c.ID, "name": c.Name, "external_id": c.ExternalID, "head_sha": c.HeadSHA, "status": c.Status, "conclusion": c.Conclusion,
		"output": map[string]any{"title": c.Output.Title, "annotations_count": len(c.Output.Annotations)}, "app": map[string]any{"id": AppID, "slug": Slug}}
}

// readCheck reads a check run, or says what is wrong with it.
func readCheck(w http.ResponseWriter, r *http.Request, c *Check, by visitor) bool {
	if !by.app {
		refuse(w, http.StatusForbidden, "You must authenticate via a GitHub App.")
		return false
	}
	if err := json.NewDecoder(r.Body).Decode(c); err != nil {
		refuse(w, http.StatusBadRequest, "Problems parsing JSON")
		return false
	}
	if len(c.Output.Annotations) > maxAnnotations {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "Invalid request.\n\nOnly 50 items are allowed; annotations has more")
		return false
	}
	for _, a := range c.Output.Annotations {
		if a.Path == "" || a.Start < 1 || a.End < a.Start || a.Message == "" || !slices.Contains([]string{"notice", "warning", "failure"}, a.Level) {
			refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "an annotation lacks something")
			return false
		}
	}
	if (c.Status == "completed") != (c.Conclusion != "") || c.Output.Title == "" || c.Output.Summary == "" {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "conclusion, title or summary is missing")
		return false
	}
	return !tooLong(w, c.Output.Summary)
}

func (r *repository) hasCommit(sha string) bool {
	for _, p := range r.pulls {
		if p.commits[sha] {
			return true
		}
	}
	return false
}
