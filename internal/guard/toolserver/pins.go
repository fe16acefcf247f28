package toolserver

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Pins are what the tools of servers were when they were first seen, or last accepted: a
// directory with a file for each server.
type Pins struct{ Dir string }

// PinsDir is where they are, below the workspace root.
const PinsDir = "tool-pins"

// A Pin is one tool as its server described it.
type Pin struct {
	Digest string `json:"digest"`
	// Definition is what the digest is of, as JSON.
	Definition json.RawMessage `json:"definition"`
}

// maxPins bounds the file of one server, in bytes.
const maxPins = 64 << 20

// Read returns the tools of a server that are pinned, by their names; seen is false when the server
// was never seen.
func (p Pins) Read(server string) (pins map[string]Pin, seen bool, err error) {
	file := filepath.Join(p.Dir, server+".json")
	if info, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	} else if err != nil || info.Size() > maxPins {
		return nil, false, nightcrier.Errorf(nightcrier.Invalid, "%s cannot be read: move it away, and run nightcrier tools accept %s", file, server)
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &pins)
	}
	if err != nil {
		return nil, false, nightcrier.Errorf(nightcrier.Invalid, "%s is damaged, so it is not known what was accepted: move it away, and run nightcrier tools accept %s: %w", file, server, err)
	}
	return pins, true, nil
}

// Match compares what a server offers with what is pinned, and returns how its tools differ. A
// server that was never seen is pinned as it is.
func (p Pins) Match(server string, offered map[string]Pin) (differs map[string]string, err error) {
	pins, seen, err := p.Read(server)
	if err != nil {
		return nil, err
	}
	if !seen {
		if err := p.write(server, offered, os.Link); !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if pins, _, err = p.Read(server); err != nil { // another worker was first
			return nil, err
		}
	}
	return Differences(pins, offered), nil
}

// Differences says of each tool that is not what is pinned what became of it.
func Differences(pins, offered map[string]Pin) map[string]string {
	differs := map[string]string{}
	for name, now := range offered {
		switch then, known := pins[name]; {
		case !known:
			differs[name] = "is new"
		case then.Digest != now.Digest:
			differs[name] = "was changed"
		}
	}
	for name := range pins {
		if _, is := offered[name]; !is {
			differs[name] = "is gone"
		}
	}
	return differs
}

// DigestOf tells one state of a server's tools from another.
func DigestOf(offered map[string]Pin) string {
	digests := map[string]string{}
	for name, pin := range offered {
		digests[name] = pin.Digest
	}
	raw, err := json.Marshal(digests)
	if err != nil {
		panic(err) // texts can be encoded
	}
	return text.DigestOf(raw)
}

// Accept pins what a server offers now.
func (p Pins) Accept(server string, offered map[string]Pin) error {
	return p.write(server, offered, os.Rename)
}

// write puts a whole file in its place, by a link where there must be none yet.
func (p Pins) write(server string, pins map[string]Pin, place func(from, to string) error) error {
	b, err := json.Marshal(pins)
	if err == nil {
		err = os.MkdirAll(p.Dir, 0o700)
	}
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(p.Dir, ".draft-*")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name()) // or it has been moved
	_, err = draft.Write(b)
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	return place(draft.Name(), filepath.Join(p.Dir, server+".json"))
}
