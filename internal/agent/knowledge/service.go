// Package knowledge reads what is known of services and of stages of work: Markdown that was made from a
// repository, or written by people. It is data, whatever it says, and always small.
package knowledge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// servicesDir is where a repository has what is known of its services, a directory each.
const servicesDir = ".agentura/services"

// page is one of the files about a service.
type page struct {
	file string
	// max is how large it may be, in bytes.
	max int
	// key is how a skill finds it in its input.
	key string
}

// pages are the files about a service, the most important first.
func pages() []page {
	return []page{
		{"SERVICE.md", 5 << 10, "service_context"}, {"MODULES.md", 3 << 10, "modules_context"},
		{"API_SURFACE.md", 3 << 10, "api_context"}, {"TEST_MAP.md", 2 << 10, "test_context"},
	}
}

// Service is what is known of one.
type Service struct {
	Name string
	// Dir is where it was read.
	Dir string
	// Workloads are what it runs as, where SERVICE.md names them.
	Workloads []string
	texts     map[string]string // by the key
}

// Inputs are the texts, by the keys under which a skill finds them.
func (s *Service) Inputs() map[string]string { return s.texts }

// Text is what is known in one text.
func (s *Service) Text() string {
	var all []string
	for _, p := range pages() {
		if said := s.texts[p.key]; said != "" {
			all = append(all, said)
		}
	}
	return strings.Join(all, "\n\n")
}

// Services reads what the repositories have of their services. One that is missing has none; what cannot be
// used is left out, and why is said beside. The first repository that has a name, has it.
func Services(repositories []string) (all []Service, problems []error) {
	for _, repo := range repositories {
		found, err := readServices(repo)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
		for _, s := range found {
			if !slices.ContainsFunc(all, func(o Service) bool { return o.Name == s.Name }) {
				all = append(all, s)
			}
		}
	}
	return all, problems
}

// maxServices bounds how many a repository has.
const maxServices = 200

func readServices(repo string) (all []Service, err error) {
	root, err := os.OpenRoot(repo)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := refuseLinks(root, servicesDir); err != nil {
		return nil, fmt.Errorf("%s: %w", repo, err)
	}
	entries, err := fs.ReadDir(root.FS(), servicesDir)
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, e := range entries[:min(len(entries), maxServices)] {
		s, err := readService(root, repo, e)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		all = append(all, s)
	}
	return all, errors.Join(wrong...)
}

func readService(root *os.Root, repo string, e fs.DirEntry) (s Service, err error) {
	dir := path.Join(servicesDir, e.Name())
	s = Service{Name: e.Name(), Dir: filepath.Join(repo, dir), texts: map[string]string{}}
	if err := CheckName(e.Name()); err != nil {
		return s, err
	}
	if !e.IsDir() {
		return s, fmt.Errorf("%s is no directory: links are not followed", s.Dir)
	}
	for _, p := range pages() {
		said, err := readText(root, path.Join(dir, p.file), p.max)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return s, fmt.Errorf("%s: %w", s.Dir, err)
		default:
			s.texts[p.key] = strings.TrimSpace(strings.TrimPrefix(said, madeMark))
		}
	}
	if len(s.texts) == 0 {
		return s, fmt.Errorf("%s has none of SERVICE.md, MODULES.md, API_SURFACE.md and TEST_MAP.md", s.Dir)
	}
	s.Workloads = readWorkloads(s.texts["service_context"])
	return s, nil
}

// maxRead bounds what is read of a file that is going to be cut.
const maxRead = 1 << 20

// readText reads a regular file, cut at the end of a line where it has more than max bytes.
func readText(root *os.Root, name string, max int) (string, error) {
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", name)
	case info.Size() > maxRead:
		return "", fmt.Errorf("%s has %d KiB; at most %d are read", name, info.Size()>>10, maxRead>>10)
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return "", err
	}
	return cutLines(strings.TrimSpace(text.DropHidden(strings.ReplaceAll(string(data), "\r\n", "\n"))), max), nil
}

// cutNote stands at the end of what was cut.
const cutNote = "\n\n(cut: there is more)"

// cutLines keeps as many whole lines as there is room for.
func cutLines(said string, max int) string {
	if len(said) <= max {
		return said
	}
	said = text.CutBytes(said, max-len(cutNote))
	if end := strings.LastIndexByte(said, '\n'); end > 0 {
		said = said[:end]
	}
	return strings.TrimRight(said, "\n") + cutNote
}

// refuseLinks refuses a path one part of which is a link.
func refuseLinks(root *os.Root, name string) error {
	for at := name; at != "."; at = path.Dir(at) {
		info, err := root.Lstat(at)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nightcrier.Errorf(nightcrier.Invalid, "%s is a link: put a directory there", at)
		}
	}
	return nil
}

// CheckName refuses what cannot be the name of a service, which becomes a directory.
func CheckName(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] != '.' && name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
	if !ok {
		return nightcrier.Errorf(nightcrier.Invalid, "%.80q is not the name of a service: use up to 64 lower-case letters, digits, '-', '_' and '.'", name)
	}
	return nil
}

// Find returns the service of that name, nil for none.
func Find(all []Service, name string) *Service {
	if i := slices.IndexFunc(all, func(s Service) bool { return s.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// OfWorkload returns the service that one of some names of objects is one of: a workload of it, or its own
// name, alone or in front of what Kubernetes adds. Nil where there is none.
func OfWorkload(all []Service, objects ...string) (best *Service) {
	length := 0
	for i := range all {
		for _, known := range append([]string{all[i].Name}, all[i].Workloads...) {
			if len(known) > length && slices.ContainsFunc(objects, func(o string) bool { return o == known || strings.HasPrefix(o, known+"-") }) {
				best, length = &all[i], len(known)
			}
		}
	}
	return best
}

// workloadLine is how SERVICE.md names what a service runs as.
const workloadLine = "- Workloads: "

func readWorkloads(service string) (all []string) {
	for line := range strings.Lines(service) {
		if said, ok := strings.CutPrefix(line, workloadLine); ok {
			for name := range strings.SplitSeq(said, ",") {
				all = append(all, strings.Trim(name, " `\n"))
			}
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}
