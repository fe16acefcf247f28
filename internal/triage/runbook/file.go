package runbook

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// Bounds of a directory of runbooks.
const (
	maxFiles       = 500
	maxDepth       = 4
	maxFrontMatter = 16 << 10
)

// Book is one file.
type Book struct {
	// File is its path within the directory.
	File, Title, Text string
	match             match
}

// Causes lists the ids of causes that the book is for.
func (b Book) Causes() []string { return b.match.Cause }

// frontMatter is what stands between the two lines of dashes.
type frontMatter struct {
	Title string `yaml:"title"`
	Match *match `yaml:"match"`
}

// Load reads the runbooks of a directory, by name. The errors name the files, and
// the fields, that cannot be used. Hidden files are left alone, and so is a
// README.md: it is about the directory.
func Load(dir string) ([]Book, []error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, []error{nightcrier.Errorf(nightcrier.NotFound, "runbooks.dir: %w", err)}
	}
	defer root.Close()
	var books []Book
	var problems []error
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			return nil
		case name != "." && strings.HasPrefix(d.Name(), "."), d.IsDir() && strings.Count(name, "/") >= maxDepth:
			return skipEntry(d)
		case d.IsDir() || !strings.EqualFold(path.Ext(name), ".md") || strings.EqualFold(d.Name(), "README.md"):
			return nil
		case len(books)+len(problems) == maxFiles:
			problems = append(problems, fmt.Errorf("%s: there are more than %d files; this one and those behind it are not read", name, maxFiles))
			return fs.SkipAll
		}
		b, err := readBook(root, name)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			return nil
		}
		books = append(books, b)
		return nil
	})
	if err != nil {
		problems = append(problems, err)
	}
	return books, problems
}

func skipEntry(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// readBook reads one file. A link is followed within the directory only, since that
// is how a ConfigMap is mounted.
func readBook(root *os.Root, name string) (Book, error) {
	info, err := root.Stat(name)
	if err != nil {
		return Book{}, causeOf(err)
	}
	if !info.Mode().IsRegular() {
		return Book{}, errors.New("is not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return Book{}, causeOf(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxText+1))
	if err != nil {
		return Book{}, causeOf(err)
	}
	if len(data) > MaxText {
		return Book{}, fmt.Errorf("is larger than %d KiB", MaxText>>10)
	}
	return parseBook(name, string(data))
}

// causeOf drops the path that the caller names anyway.
func causeOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// parseBook reads the text of one file.
func parseBook(name, data string) (Book, error) {
	front, said, err := splitFrontMatter(strings.ReplaceAll(strings.TrimPrefix(data, "\uFEFF"), "\r\n", "\n"))
	if err != nil {
		return Book{}, err
	}
	var f frontMatter
	if err := strictyaml.Unmarshal([]byte(front), &f); err != nil {
		return Book{}, fmt.Errorf("front matter: %w", err)
	}
	if f.Match == nil {
		return Book{}, errors.New("match: is missing: say which cases the runbook is for")
	}
	if err := f.Match.checkFields(); err != nil {
		return Book{}, err
	}
	b := Book{File: name, Title: readableLine(f.Title), Text: strings.TrimSpace(text.DropHidden(text.KeepBytes(said, MaxText))), match: *f.Match}
	if b.Text == "" {
		return Book{}, errors.New("has no text behind its front matter")
	}
	if b.Title == "" {
		b.Title = firstHeading(b.Text)
	}
	if b.Title == "" {
		b.Title = readableLine(strings.TrimSuffix(path.Base(name), path.Ext(name)))
	}
	return b, nil
}

// splitFrontMatter separates the front matter from the text.
func splitFrontMatter(data string) (front, text string, err error) {
	const line = "---\n"
	rest, ok := strings.CutPrefix(data, line)
	if !ok {
		return "", "", errors.New("has no front matter: begin it with ---, match: and ---")
	}
	front, text, ok = strings.Cut("\n"+rest, "\n"+line)
	if !ok {
		return "", "", errors.New("front matter: its second line of --- is missing")
	}
	if len(front) > maxFrontMatter {
		return "", "", fmt.Errorf("front matter: is larger than %d KiB", maxFrontMatter>>10)
	}
	// The parser takes an anchor's content as often as it is named.
	if slices.ContainsFunc(strings.Fields(front), func(w string) bool { return strings.HasPrefix(w, "&") }) {
		return "", "", errors.New("front matter: anchors are not supported")
	}
	return front, text, nil
}
