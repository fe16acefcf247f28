package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// FrozenVersion is the version of what this program writes. It reads all up to it.
const FrozenVersion = 1

// Frozen is all that an execution needs to know of its pipeline. It is made when a run is
// admitted and kept with it: neither a file that changes nor a server that is upgraded
// changes a run that has begun.
type Frozen struct {
	Version    int        `json:"version"`
	Definition Definition `json:"definition"`
	// Digest is that of the file.
	Digest string `json:"digest"`
	// Skills are those of the steps, by the name in the step.
	Skills map[string]SkillPin `json:"skills,omitempty"`
}

// SkillPin is a skill as it was when the run was admitted.
type SkillPin struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest"`
	// Dir is where the copy is that the run uses.
	Dir string `json:"dir,omitempty"`
}

// Resolver finds what a pipeline names.
type Resolver interface {
	ResolveSkill(name string) (SkillPin, error)
}

// Skills resolves skills where they are configured.
type Skills struct{ *skill.Library }

// ResolveSkill pins a skill as it is now; where its copy is, is for whoever makes one to say.
func (s Skills) ResolveSkill(name string) (SkillPin, error) {
	found, err := s.Find(name)
	if err != nil {
		return SkillPin{}, err
	}
	ref := found.Ref()
	return SkillPin{Name: ref.Name, Version: ref.Version, Digest: ref.Digest}, nil
}

// Freeze makes a pipeline ready for a run. When skills are missing, it names all of them.
func (l *Library) Freeze(name string, r Resolver) (Frozen, error) {
	e, err := l.Find(name)
	if err != nil {
		return Frozen{}, err
	}
	pins, lacks := e.pinSkills(r)
	if lacks != "" {
		return Frozen{}, nightcrier.Errorf(nightcrier.NotFound, "pipeline %s cannot run: %s", name, lacks)
	}
	return Frozen{Version: FrozenVersion, Definition: e.Definition, Digest: e.Digest, Skills: pins}, nil
}

// Lacks says in one line what is missing to run it, "" when nothing is.
func (e *Entry) Lacks(r Resolver) string {
	_, lacks := e.pinSkills(r)
	return lacks
}

func (e *Entry) pinSkills(r Resolver) (pins map[string]SkillPin, lacks string) {
	pins = map[string]SkillPin{}
	var missing, said []string
	for _, name := range e.SkillNames() {
		pin, err := r.ResolveSkill(name)
		switch {
		case err == nil:
			pins[name] = pin
		case nightcrier.CodeOf(err) == nightcrier.NotFound:
			missing = append(missing, name)
		default:
			said = append(said, err.Error())
		}
	}
	if len(missing) > 0 {
		said = append(said, fmt.Sprintf("there is no skill %s: put %s/SKILL.md below a directory that skills.sources or skills.cache_dir names", strings.Join(missing, ", "), missing[0]))
	}
	return pins, strings.Join(said, "; ")
}

// UnmarshalJSON reads what MarshalJSON wrote, and nothing else: what this program does not
// know of is something that it would not do.
func (f *Frozen) UnmarshalJSON(data []byte) error {
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "the frozen pipeline cannot be read: %w", err)
	}
	if version.Version < 1 || version.Version > FrozenVersion {
		return nightcrier.Errorf(nightcrier.Invalid, "the frozen pipeline has version %d, and this program reads 1 to %d: let the version finish it that began it", version.Version, FrozenVersion)
	}
	type plain Frozen
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	var read plain
	if err := in.Decode(&read); err != nil {
		field := strings.TrimPrefix(err.Error(), "json: unknown field ")
		if field != err.Error() {
			return nightcrier.Errorf(nightcrier.Invalid, "the frozen pipeline has the field %s, which this program does not know: let the version finish it that began it", field)
		}
		return nightcrier.Errorf(nightcrier.Invalid, "the frozen pipeline cannot be read: %w", err)
	}
	*f = Frozen(read)
	return nil
}
