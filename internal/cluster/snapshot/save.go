package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Save writes the snapshot to a directory, which appears whole or not at all. A
// directory that is there must be empty or, with replace, be a snapshot;
// otherwise it is a Conflict error.
func (s *Snapshot) Save(dir string, replace bool) error {
	old, err := checkReplaceable(dir, replace)
	if err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "snapshot: %w", err)
	}
	tmp, err := os.MkdirTemp(parent, ".snapshot-*")
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "snapshot: %w", err)
	}
	defer os.RemoveAll(tmp)
	fresh := filepath.Join(tmp, "new")
	if err := s.writeTo(fresh); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "write the snapshot: %w", err)
	}
	if old {
		if err := os.Rename(dir, filepath.Join(tmp, "old")); err != nil {
			return nightcrier.Errorf(nightcrier.Invalid, "snapshot: %w", err)
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "snapshot: %w", err)
	}
	return nil
}

// Replaceable reports, as Save would, whether a snapshot can be written to dir.
func Replaceable(dir string, replace bool) error {
	_, err := checkReplaceable(dir, replace)
	return err
}

// checkReplaceable reports whether there is something at dir to be put away first.
func checkReplaceable(dir string, replace bool) (bool, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, nightcrier.Errorf(nightcrier.Invalid, "snapshot: %w", err)
	case len(entries) == 0:
		return true, nil
	}
	if _, err := os.Stat(filepath.Join(dir, InfoFile)); err != nil {
		return false, nightcrier.Errorf(nightcrier.Conflict, "%s is not empty and holds no snapshot: name another directory", dir)
	}
	if !replace {
		return false, nightcrier.Errorf(nightcrier.Conflict, "%s holds a snapshot already: name another directory, or replace it with --force", dir)
	}
	return true, nil
}

// writeTo writes the files, readable for the owner alone.
func (s *Snapshot) writeTo(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	put := func(name string, body []byte) error {
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		return root.WriteFile(name, body, 0o600)
	}
	info, err := json.MarshalIndent(s.Info, "", "  ")
	if err != nil {
		return err
	}
	if err := put(InfoFile, append(info, '\n')); err != nil {
		return err
	}
	for name, body := range s.encodeFiles() {
		if err := put(name, body); err != nil {
			return err
		}
	}
	for key, text := range s.logs {
		if !isPlainName(key.namespace) || !isPlainName(key.pod) || !isPlainName(key.container) {
			continue
		}
		name := key.container
		if key.previous {
			name += ".previous"
		}
		if err := put(filepath.Join("logs", key.namespace, key.pod, name+".log"), text); err != nil {
			return err
		}
	}
	return nil
}

// encodeFiles returns the Lists of objects by file name: one for each kind and namespace,
// with an object on each line.
func (s *Snapshot) encodeFiles() map[string][]byte {
	lists := map[string]*bytes.Buffer{}
	for _, c := range s.servedCollections() {
		for _, o := range c.objects {
			ns := o.namespace
			if ns == "" {
				ns = "cluster-wide"
			} else if !isPlainName(ns) {
				continue
			}
			name := filepath.Join("objects", ns, strings.ReplaceAll(c.Resource(), "/", "_")+".json")
			b := lists[name]
			if b == nil {
				b = &bytes.Buffer{}
				fmt.Fprintf(b, "{\"apiVersion\":%q,\"kind\":%q,\"items\":[\n", c.APIVersion(), c.kind.Name+"List")
				lists[name] = b
			} else {
				b.WriteString(",\n")
			}
			b.Write(o.raw)
		}
	}
	files := map[string][]byte{}
	for name, b := range lists {
		b.WriteString("\n]}\n")
		files[name] = b.Bytes()
	}
	return files
}

// Count is how many objects and logs the snapshot holds.
func (s *Snapshot) Count() (objects, logs int) {
	for _, c := range s.collections {
		objects += len(c.objects)
	}
	return objects, len(s.logs)
}

// CountIn is how many objects are in these namespaces, of all when there are none.
// The namespaces themselves count.
func (s *Snapshot) CountIn(namespaces ...string) (objects int) {
	for _, c := range s.collections {
		for _, o := range c.objects {
			if len(namespaces) == 0 || slices.Contains(namespaces, o.namespace) || c.kind.Name == "Namespace" && slices.Contains(namespaces, o.name) {
				objects++
			}
		}
	}
	return objects
}
