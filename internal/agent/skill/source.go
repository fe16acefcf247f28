package skill

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// Source is a place with skills of an operator's: a directory, or one commit of a
// git repository.
type Source struct {
	// Path is the directory; empty for a repository.
	Path string `json:"path,omitempty"`
	// Git is the repository's URL, Commit the full id of the commit, Dir a directory
	// in it, "" for all of it.
	Git    string `json:"git,omitempty"`
	Commit string `json:"commit,omitempty"`
	Dir    string `json:"dir,omitempty"`
}

// String is the source in one line, as ParseSource reads it.
func (s Source) String() string {
	switch {
	case s.Git == "":
		return s.Path
	case s.Dir == "":
		return s.Git + "#" + s.Commit
	}
	return s.Git + "#" + s.Commit + ":" + s.Dir
}

// ParseSource reads DIR, URL#COMMIT or URL#COMMIT:DIR.
func ParseSource(line string) (Source, error) {
	if !strings.Contains(line, "://") && !scpLike.MatchString(line) {
		s := Source{Path: line}
		return s, s.Check()
	}
	var s Source
	var pin string
	s.Git, pin, _ = strings.Cut(line, "#")
	s.Commit, s.Dir, _ = strings.Cut(pin, ":")
	return s, s.Check()
}

var (
	commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	scpLike  = regexp.MustCompile(`^[\w.-]+@[\w.-]+:`)
)

// Check says what is wrong with the source as written; nothing is read for it.
func (s Source) Check() error {
	switch {
	case s.Path != "" && s.Git+s.Commit+s.Dir != "":
		return errors.New("names a path and a repository: keep one of them")
	case s.Git == "" && s.Commit+s.Dir != "":
		return errors.New("names no repository: set git, or path")
	case s.Path == "" && s.Git == "":
		return errors.New("names neither a path nor a git repository")
	case s.Git == "":
		return nil
	case !commitID.MatchString(s.Commit):
		return errors.New("is not pinned: commit must be the full id of a commit, 40 hexadecimal digits, no branch and no tag")
	case s.Dir != "" && (!filepath.IsLocal(s.Dir) || filepath.Clean(s.Dir) != s.Dir || s.Dir == "." || strings.ContainsFunc(s.Dir, unicode.IsControl)):
		return fmt.Errorf("dir %.100q is not a directory of the repository, written without dots", s.Dir)
	}
	return checkGitURL(s.Git)
}

// checkGitURL lets pass what git takes for a plain address: it also knows URLs
// that name a program to run, and arguments that look like URLs.
func checkGitURL(raw string) error {
	if scpLike.MatchString(raw) {
		return fmt.Errorf("git %.200q: write it as ssh://USER@HOST/PATH", raw)
	}
	u, err := url.Parse(raw)
	if err != nil || strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return errors.New("git is not a URL")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh" && u.Scheme != "file":
		return errors.New("git must begin with https://, http://, ssh:// or file://")
	case u.Scheme == "file" && (u.Host != "" || !filepath.IsAbs(u.Path)):
		return errors.New("git: a file URL has three slashes and an absolute path: file:///srv/skills.git")
	case u.Scheme != "file" && (u.Hostname() == "" || strings.HasPrefix(u.Host, "-")):
		return errors.New("git names no host")
	case u.User != nil && (u.Scheme != "ssh" || hasPassword(u) || strings.HasPrefix(u.User.Username(), "-")):
		return errors.New("git holds a user or password: keep it in ~/.netrc, or use ssh")
	case u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return errors.New("git holds more than scheme, host and path")
	}
	return nil
}

func hasPassword(u *url.URL) bool {
	_, has := u.User.Password()
	return has
}
