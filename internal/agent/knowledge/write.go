package knowledge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// madeMark begins a page that was made: what people wrote has none, and is left alone.
const madeMark = "<!-- made by nightcrier index: take this line out to keep what you write -->"

// What stands where there is nothing.
const (
	noRoutes = "# API Surface\n\nNo API endpoints detected.\n"
	noTests  = "# Test Map\n\nNo test files detected.\n"
)

// Page is a file about a service, by its name.
type Page struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// Pages are what is written of a scan, each within its size. About is what else is known of it by the
// key of a page, such as a model's words; it may be nil. All of it is masked.
func (s *Scan) Pages(about map[string]string, mask func(string) string) []Page {
	said := []string{s.servicePage(), s.modulesPage(), s.routesPage(), s.testsPage()}
	var all []Page
	for i, p := range pages() {
		whole := said[i]
		if more := strings.TrimSpace(about[p.key]); more != "" && whole != noRoutes && whole != noTests {
			whole = strings.TrimRight(whole, "\n") + "\n\n## In words\n\n" + strings.ReplaceAll(text.DropHidden(more), "<!--", "<! --") + "\n"
		}
		all = append(all, Page{p.file, cutLines(madeMark+"\n"+strings.TrimSpace(mask(whole)), p.max-1)})
	}
	return all
}

func (s *Scan) servicePage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", s.Name)
	var langs []string
	for _, l := range s.Languages {
		langs = append(langs, fmt.Sprintf("%s (%s, %d KiB)", l.Name, text.CountNoun(l.Files, "file"), l.Bytes>>10))
	}
	fmt.Fprintf(&b, "- Languages: %s\n", strings.Join(langs, ", "))
	for _, line := range []struct {
		begins string
		names  []string
	}{{workloadLine, s.Workloads}, {"- Programs begin in: ", s.Entries}, {"- Built by: ", s.Builds}} {
		if len(line.names) > 0 {
			b.WriteString(line.begins + listNames(line.names, 30) + "\n")
		}
	}
	fmt.Fprintf(&b, "- It has %s, %s and %s of tests\n", text.CountNoun(len(s.Modules), "module"), text.CountNoun(len(s.Routes), "route"), text.CountNoun(len(s.Tests), "file"))
	for _, why := range s.LeftOut {
		fmt.Fprintf(&b, "- Not looked at, %s\n", why)
	}
	return b.String()
}

// listNames are the first names of a list, quoted.
func listNames(names []string, most int) string {
	said := "`" + strings.Join(names[:min(len(names), most)], "`, `") + "`"
	if len(names) > most {
		said += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return said
}

func (s *Scan) modulesPage() string {
	var b strings.Builder
	b.WriteString("# Modules\n\n")
	for _, m := range s.Modules {
		fmt.Fprintf(&b, "- `%s`: %s, %s, %d of tests\n", m.Path, m.Language, text.CountNoun(m.Files, "file"), m.Tests)
	}
	return b.String()
}

func (s *Scan) routesPage() string {
	if len(s.Routes) == 0 {
		return noRoutes
	}
	var b strings.Builder
	b.WriteString("# API Surface\n\n")
	for _, r := range s.Routes {
		fmt.Fprintf(&b, "- `%s` in `%s`\n", strings.TrimSpace(r.Method+" "+r.Path), r.File)
	}
	return b.String()
}

func (s *Scan) testsPage() string {
	if len(s.Tests) == 0 {
		return noTests
	}
	var b strings.Builder
	b.WriteString("# Test Map\n\n")
	for _, t := range s.Tests {
		fmt.Fprintf(&b, "- `%s`: %s\n", t.File, text.CountNoun(t.Tests, "test"))
	}
	return b.String()
}

// WritePages writes what is known of a service into its repository, and returns the names of the files. What people
// wrote there is a Conflict, and nothing is written then.
func WritePages(repo, name string, all []Page) (written []string, err error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(repo)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "%w", err)
	}
	defer root.Close()
	dir := path.Join(servicesDir, name)
	if err := refuseLinks(root, dir); err != nil {
		return nil, err
	}
	for _, p := range all {
		if err := checkMade(root, path.Join(dir, p.File)); err != nil {
			return nil, err
		}
	}
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	for _, p := range all {
		at := path.Join(dir, p.File)
		if err := replaceFile(root, at, []byte(p.Text+"\n")); err != nil {
			return written, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", at, err)
		}
		written = append(written, at)
	}
	return written, nil
}

// checkMade refuses what is no file that was made here.
func checkMade(root *os.Root, at string) error {
	info, err := root.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	case !info.Mode().IsRegular():
		return nightcrier.Errorf(nightcrier.Conflict, "%s is not a regular file: take it away", at)
	case info.Size() > maxRead:
		return nightcrier.Errorf(nightcrier.Conflict, "%s was not made by nightcrier: take it away, or choose another --name", at)
	}
	data, err := root.ReadFile(at)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	if !strings.HasPrefix(string(data), madeMark) {
		return nightcrier.Errorf(nightcrier.Conflict, "%s was written by people, and is left alone: take it away, or choose another --name", at)
	}
	return nil
}

// replaceFile puts a whole file in the place of another one.
func replaceFile(root *os.Root, at string, data []byte) error {
	next := at + ".new"
	if err := root.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(next, at)
}
