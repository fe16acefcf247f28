package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// readFile reads the bytes of the configuration file. Only a regular file is
// read: a pipe could block, a device could be endless.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("does not exist: create it, or name another one with --config")
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", causeWithoutPath(err))
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", causeWithoutPath(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, strictyaml.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", causeWithoutPath(err))
	}
	return data, nil
}

// causeWithoutPath drops the path that the caller names anyway.
func causeWithoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// branch is one level of what a file may hold.
type branch struct {
	children map[string]*branch
	// list is set where a sequence of mappings is expected.
	list bool
	// leaf and as are the key that ends here and the spelling it has here.
	leaf *key
	as   spelling
}

// newSpellingTree arranges the file spellings of all keys.
func newSpellingTree(all []key) *branch {
	root := &branch{}
	for i := range all {
		for _, s := range all[i].allSpellings() {
			if s.layer == LayerFile {
				root.addSpelling(&all[i], s)
			}
		}
	}
	return root
}

func (b *branch) addSpelling(k *key, s spelling) {
	for segment := range strings.SplitSeq(s.name, ".") {
		name, list := strings.CutSuffix(segment, "[]")
		if b.children == nil {
			b.children = map[string]*branch{}
		}
		next := b.children[name]
		if next == nil {
			next = &branch{list: list}
			b.children[name] = next
		}
		b = next
	}
	b.leaf, b.as = k, s
}

func (b *branch) names() []string {
	names := make([]string, 0, len(b.children))
	for name := range b.children {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fileReader walks a file along the tree and collects settings and problems.
type fileReader struct {
	*loader
	name string
	root *branch
}

func (l *loader) parseFile(name string, data []byte) {
	r := &fileReader{loader: l, name: name, root: newSpellingTree(l.keys)}
	doc, fault := strictyaml.ReadNode(data)
	if fault != nil {
		r.addProblem(Origin{Layer: LayerFile, Name: name, Line: fault.Line}, "", errors.New(fault.Text))
	} else if doc != nil {
		r.walkNode(r.root, doc, "", onlyCluster)
	}
}

// originOf is the origin of a node, the whole file for nil.
func (r *fileReader) originOf(n *yaml.Node) Origin {
	o := Origin{Layer: LayerFile, Name: r.name}
	if n != nil {
		o.Line = n.Line
	}
	return o
}

func (r *fileReader) walkNode(b *branch, n *yaml.Node, path string, cluster int) {
	switch {
	case strictyaml.IsNull(n):
	case strictyaml.IsUnsupported(n):
		r.addProblem(r.originOf(n), path, strictyaml.ErrUnsupported)
	case b.leaf != nil:
		r.readLeaf(b, n, path, cluster)
	case b.list:
		r.walkEntries(b, n, path)
	default:
		r.walkFields(b, n, path, cluster)
	}
}

// walkEntries walks a sequence of mappings.
func (r *fileReader) walkEntries(b *branch, n *yaml.Node, path string) {
	if n.Kind != yaml.SequenceNode {
		r.addProblem(r.originOf(n), path, fmt.Errorf("is %s: write a list, each entry with a leading '-'", strictyaml.DescribeNode(n)))
		return
	}
	inner := &branch{children: b.children}
	for i, entry := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch path {
		case "clusters":
			r.places = append(r.places, r.originOf(entry))
		case "webhooks":
			r.hookPlaces = append(r.hookPlaces, r.originOf(entry))
		case "tool_servers":
			r.toolPlaces = append(r.toolPlaces, r.originOf(entry))
		default:
			r.walkNode(inner, entry, at, onlyCluster)
			continue
		}
		r.walkNode(inner, entry, at, i)
	}
}

func (r *fileReader) walkFields(b *branch, n *yaml.Node, path string, cluster int) {
	if n.Kind != yaml.MappingNode {
		r.addProblem(r.originOf(n), path, fmt.Errorf("is %s: write keys below it: %s", strictyaml.DescribeNode(n), strings.Join(b.names(), ", ")))
		return
	}
	r.given[path] = true
	seen := map[string]bool{}
	for k, v := range strictyaml.Pairs(n) {
		name := k.Value
		full := joinPath(path, name)
		child := b.children[name]
		switch {
		case strictyaml.IsUnsupported(k):
			r.addProblem(r.originOf(k), path, strictyaml.ErrUnsupported)
		case child == nil:
			r.addProblem(r.originOf(k), joinPath(path, texts.CutBytes(name, maxShown)), r.unknownKeyError(b, path, name))
		case seen[name]:
			r.addProblem(r.originOf(k), full, errors.New("is given a second time: keep one"))
		default:
			seen[name] = true
			r.walkNode(child, v, full, cluster)
		}
	}
}

// unknownKeyError says what a key that does not exist may have been meant to be: a
// neighbour, or the same word elsewhere.
func (r *fileReader) unknownKeyError(b *branch, path, name string) error {
	if near := texts.FindNearest(name, b.names()); near != "" {
		return fmt.Errorf("is not a key: did you mean %s?", joinPath(path, near))
	}
	for i := range r.keys {
		if full := r.keys[i].path; full == name || strings.HasSuffix(full, "."+name) {
			return fmt.Errorf("is not a key here: did you mean %s?", full)
		}
	}
	return fmt.Errorf("is not a key: known here are %s", strings.Join(b.names(), ", "))
}

func (r *fileReader) readLeaf(b *branch, n *yaml.Node, path string, cluster int) {
	words, err := wordsOf(b.leaf.typ, n)
	if err != nil {
		r.addProblem(r.originOf(n), path, err)
		return
	}
	r.parseSetting(b.leaf, b.as, words, place{origin: r.originOf(n), path: path, cluster: cluster})
}

// wordsOf reads the words of a value of the type's shape. A sequence or
// mapping may also be written in its one-line form.
func wordsOf(t valueType, n *yaml.Node) ([]string, error) {
	if word, ok := strictyaml.ScalarText(n); ok {
		return t.splitWords(word), nil
	}
	switch {
	case n.Kind == yaml.SequenceNode && t.shape == sequence:
		return sequenceWords(t, n)
	case n.Kind == yaml.MappingNode && t.shape == mapping:
		return mappingWords(n)
	}
	return nil, fmt.Errorf("is %s: expected %s", strictyaml.DescribeNode(n), t.describeExpected(t.word))
}

func sequenceWords(t valueType, n *yaml.Node) ([]string, error) {
	var words []string
	for _, v := range n.Content {
		word, ok := strictyaml.ScalarText(v)
		if v.Kind == yaml.MappingNode && t.entry != nil {
			var err error
			if word, err = entryWord(t, v); err != nil {
				return nil, err
			}
		} else if !ok {
			return nil, fmt.Errorf("holds %s: expected %s", strictyaml.DescribeNode(v), t.describeExpected("a list of texts"))
		}
		words = append(words, word)
	}
	return words, nil
}

// entryWord makes one word of a mapping.
func entryWord(t valueType, n *yaml.Node) (string, error) {
	words := map[string]string{}
	for k, v := range strictyaml.Pairs(n) {
		name := k.Value
		word, ok := strictyaml.ScalarText(v)
		switch _, twice := words[name]; {
		case !ok:
			return "", fmt.Errorf("holds %s as %s: expected a text", strictyaml.DescribeNode(v), quoteValue(name))
		case twice:
			return "", fmt.Errorf("gives %s a second time: keep one", quoteValue(name))
		}
		words[name] = word
	}
	return t.entry(words)
}

func mappingWords(n *yaml.Node) ([]string, error) {
	var words []string
	for k, v := range strictyaml.Pairs(n) {
		word, ok := strictyaml.ScalarText(v)
		if !ok {
			return nil, fmt.Errorf("holds %s: expected name: text", strictyaml.DescribeNode(v))
		}
		words = append(words, k.Value+"="+word)
	}
	return words, nil
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
