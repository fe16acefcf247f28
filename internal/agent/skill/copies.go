package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Copies keep skills as they were when a run was admitted, by their digests: what becomes of a
// source later reaches no run under way.
type Copies struct{ Dir string }

// copiedSkill is a copy on disk.
type copiedSkill struct {
	Name        string       `json:"name"`
	Version     string       `json:"version,omitempty"`
	Description string       `json:"description,omitempty"`
	Settings    Settings     `json:"settings"`
	Layers      []Layer      `json:"layers,omitempty"`
	Files       []copiedFile `json:"files"`
}

type copiedFile struct {
	Path string      `json:"path"`
	Perm fs.FileMode `json:"perm"`
	Data []byte      `json:"data"`
}

func (c Copies) file(digest string) string {
	return filepath.Join(c.Dir, filepath.Base(strings.TrimPrefix(digest, "sha256:"))+".json")
}

// Keep makes a copy, unless there is one that is whole.
func (c Copies) Keep(s *Skill) error {
	if _, err := c.Open(s.digest); err == nil {
		return nil
	}
	k := copiedSkill{Name: s.Name, Version: s.Version, Description: s.Description, Settings: s.Settings, Layers: s.Layers}
	for _, f := range s.files {
		k.Files = append(k.Files, copiedFile{f.path, f.perm, f.data})
	}
	raw, err := json.Marshal(k)
	if err == nil {
		err = os.MkdirAll(c.Dir, 0o700)
	}
	if err == nil {
		err = writeWhole(c.file(s.digest), raw)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "keep a copy of the skill %s: %w", s.Name, err)
	}
	return nil
}

// writeWhole writes a file durably, whole or not at all.
func writeWhole(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to tell
	}
	return err
}

// Open returns the copy of that digest. It is an Invalid error when it is another thing by now.
func (c Copies) Open(digest string) (*Skill, error) {
	raw, err := os.ReadFile(c.file(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "there is no copy of the skill %s", digest)
	}
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "the copy of the skill %s: %w", digest, err)
	}
	var k copiedSkill
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&k); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the copy of the skill %s cannot be read: %w", digest, err)
	}
	s := &Skill{Name: k.Name, Version: k.Version, Description: k.Description, Settings: k.Settings, Layers: k.Layers}
	for _, f := range k.Files {
		s.files = append(s.files, file{f.Path, f.Data, f.Perm})
	}
	if s.computeDigest(); s.digest != digest {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the copy of the skill %s was changed: it is %s now", digest, s.digest)
	}
	return s, nil
}
