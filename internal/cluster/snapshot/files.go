package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of what is read.
const (
	maxFile    = 64 << 20  // bytes of one file of objects
	maxLog     = 4 << 20   // bytes of one log, of which the end is kept
	maxBytes   = 512 << 20 // of all files
	maxFiles   = 50_000
	maxObjects = 200_000
	maxKinds   = 2000
	maxDepth   = 12 // of directories
	maxNested  = 8  // Lists within Lists
	maxNotes   = 100
)

// reader reads the files of one snapshot.
type reader struct {
	fsys    fs.FS
	snap    *Snapshot
	files   int
	objects int
	bytes   int64
	logs    []logFile
	newest  time.Time
}

// noteMissed remembers what could not be read. What a file would have told is then
// unknown.
func (r *reader) noteMissed(what, why string) {
	r.snap.declared = false
	if len(r.snap.NotCaptured) < maxNotes {
		r.snap.NotCaptured = append(r.snap.NotCaptured, nightcrier.NotChecked{What: what, Why: text.CutLine(why, maxSaid)})
	}
}

func (r *reader) firstNote() string {
	if len(r.snap.NotCaptured) == 0 {
		return ""
	}
	return " (" + r.snap.NotCaptured[0].What + ": " + r.snap.NotCaptured[0].Why + ")"
}

// maxSaid bounds what is said of a text that stands in a file, in bytes.
const maxSaid = 300

// readInfo reads snapshot.json, if there is one.
func (r *reader) readInfo() error {
	raw, err := r.readFile(InfoFile, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		r.snap.Info, err = parseInfo(raw)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "%s: %w: mend it, or remove it", InfoFile, err)
	}
	r.snap.declared = true
	return nil
}

// visitFile reads one file of the directory.
func (r *reader) visitFile(name string, e fs.DirEntry, err error) error {
	base := path.Base(name)
	switch {
	case err != nil && name == ".":
		return nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	case err != nil:
		r.noteMissed(name, err.Error())
		return fs.SkipDir
	case e.IsDir() && name != "." && (strings.HasPrefix(base, ".") || strings.Count(name, "/") >= maxDepth):
		return fs.SkipDir
	case e.IsDir() || strings.HasPrefix(base, ".") || name == InfoFile || name == "case.yaml":
		return nil
	}
	if r.files++; r.files > maxFiles {
		return nightcrier.Errorf(nightcrier.Exhausted, "it has more than %d files: is it the right directory?", maxFiles)
	}
	switch strings.ToLower(path.Ext(base)) {
	case ".json", ".yaml", ".yml":
		return r.readObjects(name)
	case ".log", ".txt":
		return r.readLog(name)
	case ".gz", ".tgz", ".zip", ".zst", ".xz":
		r.noteMissed(name, "it is compressed: unpack it first")
	}
	return nil
}

// readFile returns a regular file, its end when it is larger than limit and a log.
func (r *reader) readFile(name string, limit int64) ([]byte, error) {
	info, err := fs.Stat(r.fsys, name) // a pipe would keep an opener waiting
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > limit:
		return nil, fmt.Errorf("it is larger than %d bytes: split it", limit)
	}
	if r.bytes += info.Size(); r.bytes > maxBytes {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "its files are larger than %d bytes together: take fewer namespaces", maxBytes)
	}
	f, err := r.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// readObjects reads a file of JSON or YAML documents.
func (r *reader) readObjects(name string) error {
	raw, err := r.readFile(name, maxFile)
	if err == nil {
		err = r.readDocuments(name, raw)
	}
	switch {
	case nightcrier.CodeOf(err) == nightcrier.Exhausted:
		return err
	case err != nil:
		r.noteMissed(name, err.Error())
	}
	return nil
}

// readDocuments reads JSON documents behind each other, or YAML ones between ---.
func (r *reader) readDocuments(name string, raw []byte) error {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if strings.EqualFold(path.Ext(name), ".json") || bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		in := json.NewDecoder(bytes.NewReader(raw))
		for {
			var doc json.RawMessage
			err := in.Decode(&doc)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("line %d is no JSON: %w; what follows was left out", lineAt(raw, in.InputOffset()), err)
			}
			if err := r.addDocument(name, doc); err != nil {
				return err
			}
		}
	}
	return r.yamlDocuments(name, raw)
}

func (r *reader) yamlDocuments(name string, raw []byte) error {
	in := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for n := 1; ; n++ {
		doc, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		body, err := toJSON(doc)
		if err != nil {
			return fmt.Errorf("document %d is no YAML: %w", n, err)
		}
		if string(body) == "null" {
			continue
		}
		if err := r.addDocument(name, body); err != nil {
			return err
		}
	}
}

// toJSON turns a YAML document into JSON. One with aliases is refused: no tool
// that prints objects writes them, and a few lines of them stand for gigabytes.
func toJSON(doc []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(doc, &root); err != nil {
		return nil, err
	}
	if len(root.Content) == 0 {
		return []byte("null"), nil
	}
	value, err := valueOf(root.Content[0])
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// valueOf is a node as JSON has it: keys are texts, and so is what JSON has no type for,
// such as times. Of a key that is given twice the last value counts.
func valueOf(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.AliasNode:
		return nil, fmt.Errorf("it has aliases (*name), one in line %d: write out what they stand for", n.Line)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, entry := range n.Content {
			var err error
			if list[i], err = valueOf(entry); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.MappingNode:
		fields := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d has a key that is no text", n.Content[i].Line)
			}
			value, err := valueOf(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			fields[n.Content[i].Value] = value
		}
		return fields, nil
	}
	switch n.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float":
		var value any
		if err := n.Decode(&value); err != nil {
			return nil, err
		}
		return value, nil
	}
	return n.Value, nil
}

func lineAt(raw []byte, offset int64) int {
	return 1 + bytes.Count(raw[:min(offset, int64(len(raw)))], []byte("\n"))
}

// addDocument takes an object, or a List, in. Only a bound is an error.
func (r *reader) addDocument(name string, doc []byte) error {
	err := r.takeObjects(doc, given{}, 0)
	if err == nil || nightcrier.CodeOf(err) == nightcrier.Exhausted {
		return err
	}
	r.noteMissed(name, err.Error())
	return nil
}

// given is what a List says of its items.
type given struct{ apiVersion, kind string }

// head is what tells a List from an object.
type head struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
	Metadata   struct {
		Name     string `json:"name"`
		Continue string `json:"continue"`
	} `json:"metadata"`
}

func (r *reader) takeObjects(doc []byte, of given, depth int) error {
	var h head
	if err := json.Unmarshal(doc, &h); err != nil {
		return fmt.Errorf("this is no Kubernetes object: %w", err)
	}
	if h.Metadata.Name == "" && (h.Items != nil || strings.HasSuffix(h.Kind, "List")) {
		return r.takeList(h, depth)
	}
	if h.Kind == "" {
		h.Kind, h.APIVersion = of.kind, of.apiVersion
	}
	if h.Kind == "" || h.Metadata.Name == "" {
		return errors.New("a document has no kind or no name: it is no Kubernetes object and was left out")
	}
	if r.objects++; r.objects > maxObjects {
		return nightcrier.Errorf(nightcrier.Exhausted, "it has more than %d objects: take fewer namespaces", maxObjects)
	}
	return r.snap.putObject(doc, h.APIVersion, h.Kind)
}

func (r *reader) takeList(h head, depth int) error {
	if depth >= maxNested {
		return errors.New("lists are nested too deep")
	}
	of := given{}
	if item := strings.TrimSuffix(h.Kind, "List"); item != "" {
		of = given{h.APIVersion, item}
		r.snap.markSeen(h.APIVersion, item)
	}
	if h.Metadata.Continue != "" && of.kind != "" {
		r.noteMissed(of.kind, "the list was cut: it is only the first part")
	}
	var all []error
	for i, item := range h.Items {
		err := r.takeObjects(item, of, depth+1)
		if nightcrier.CodeOf(err) == nightcrier.Exhausted {
			return err
		}
		if err != nil && len(all) == 0 {
			all = append(all, fmt.Errorf("item %d: %w", i, err))
		}
	}
	return errors.Join(all...)
}

// finishSnapshot puts what was read in order.
func (r *reader) finishSnapshot() {
	r.placeLogs()
	r.snap.nameNamespaces()
	for _, c := range r.snap.collections {
		c.sortObjects()
		for _, o := range c.objects {
			if at := newestTime(o.fields); at.After(r.newest) {
				r.newest = at
			}
		}
	}
	if r.snap.CapturedAt.IsZero() {
		r.snap.CapturedAt = r.newest
	}
	if r.snap.CapturedAt.IsZero() {
		r.snap.CapturedAt = time.Now().UTC()
	}
}
