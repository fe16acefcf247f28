package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Layer is a text that stands above all skills of a place or a domain.
type Layer struct {
	// Path is that in the place.
	Path string `json:"path"`
	Text string `json:"text"`
}

// Bounds of what an agent is told: of one layer, and of all with SKILL.md.
const (
	maxLayer        = 64 << 10
	maxInstructions = 256 << 10
	// maxProjects bounds how many project configs a domain may have.
	maxProjects = 50
)

// readLayers reads what stands above the skill in a directory of a place: WORKSPACE.md of all
// domains, DOMAIN.md of its own, and the project configs of that, _workspace.md first.
func readLayers(files fs.FS, dir string) ([]Layer, error) {
	if dir == "." {
		return nil, nil
	}
	domain := path.Dir(dir)
	names := []string{path.Join(path.Dir(domain), "WORKSPACE.md")}
	if domain != "." {
		projects, err := fs.Glob(files, path.Join(domain, "project-configs", "*.md")) // in the order of their names
		if err != nil || len(projects) > maxProjects {
			return nil, fmt.Errorf("%s/project-configs holds more than %d files, or has a name that is no plain one", domain, maxProjects)
		}
		names = append(append(names, path.Join(domain, "DOMAIN.md")), workspaceFirst(projects)...)
	}
	var layers []Layer
	for _, name := range names {
		data, err := readRegular(files, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(data) > maxLayer {
			return nil, fmt.Errorf("%s has %d KiB; at most %d are read", name, len(data)>>10, maxLayer>>10)
		}
		said, err := plainText(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		layers = append(layers, Layer{name, strings.TrimSpace(said)})
	}
	return layers, nil
}

func workspaceFirst(projects []string) []string {
	var first, rest []string
	for _, p := range projects {
		if path.Base(p) == "_workspace.md" {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	return append(first, rest...)
}

// Instructions are what an agent is told of the skill: the layers, from the widest to the
// narrowest, and the body of its SKILL.md.
func (s *Skill) Instructions() string {
	var parts []string
	for _, l := range s.Layers {
		parts = append(parts, l.Text)
	}
	parts = append(parts, strings.TrimSpace(s.main().body))
	return strings.Join(parts, "\n\n---\n\n")
}

// main is its SKILL.md, as it is installed.
func (s *Skill) main() document {
	for _, f := range s.files {
		if f.path == "SKILL.md" {
			d, _ := readDocument(f.path, f.data) // it was read before
			return d
		}
	}
	return document{}
}

// Phases are the parts of an agent's work, in their order.
func (s *Skill) Phases() []Phase {
	d := s.main()
	return parsePhases(&d)
}

// Body is its SKILL.md without the front matter, as it is installed.
func (s *Skill) Body() string { return strings.TrimSpace(s.main().body) }

// Title is the first heading of its SKILL.md, "" for none.
func (s *Skill) Title() string {
	_, title, _ := strings.Cut("\n"+s.main().body, "\n# ")
	title, _, _ = strings.Cut(title, "\n")
	return strings.TrimSpace(title)
}

// Section is what stands below the first of some headings that its SKILL.md has.
func (s *Skill) Section(headings ...string) string {
	for _, h := range headings {
		if said := sectionOf(s.main().body, h); said != "" {
			return said
		}
	}
	return ""
}

// Bullets are the points below a heading of its SKILL.md.
func (s *Skill) Bullets(heading string) []string { return BulletsOf(s.main().body, heading) }

func sectionOf(text, heading string) string {
	_, said, _ := strings.Cut("\n"+text, "\n## "+heading+"\n")
	said, _, _ = strings.Cut("\n"+said, "\n## ")
	return strings.TrimSpace(said)
}

// BulletsOf are the points below a heading of a text.
func BulletsOf(text, heading string) (all []string) {
	for line := range strings.Lines(sectionOf(text, heading)) {
		if said, ok := strings.CutPrefix(line, "- "); ok {
			all = append(all, strings.TrimSpace(said))
		}
	}
	return all
}
