package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	texts "nightcrier.dev/nightcrier/internal/text"
)

const (
	// maxFile bounds the file.
	maxFile = 1 << 20
	// maxNesting bounds brackets within brackets and dashes in a row, far above
	// what any key needs.
	maxNesting = 64
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
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
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

var errUnsupported = errors.New("anchors, aliases, merge keys and tags are not supported: write the value out")

// fileReader walks a file along the tree and collects settings and problems.
type fileReader struct {
	*loader
	name string
	root *branch
}

func (l *loader) parseFile(name string, data []byte) {
	r := &fileReader{loader: l, name: name, root: newSpellingTree(l.keys)}
	if len(data) > maxFile {
		r.addProblem(r.originOf(nil), "", fmt.Errorf("is larger than %d bytes", maxFile))
		return
	}
	if nestingDepth(data) > maxNesting {
		r.addProblem(r.originOf(nil), "", fmt.Errorf("nests brackets or dashes more than %d deep", maxNesting))
		return
	}
	docs, err := documents(data)
	if err != nil {
		r.reportSyntaxError(err, data)
		return
	}
	if len(docs) > 1 {
		r.addProblem(r.originOf(docs[1]), "", errors.New("a second document begins here: one file holds one configuration"))
		return
	}
	for _, doc := range docs {
		r.walkNode(r.root, doc, "", onlyCluster)
	}
}

// documents reads the documents of a file that hold anything.
func documents(data []byte) (docs []*yaml.Node, err error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for {
		var doc yaml.Node
		if err := loader.Load(&doc); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		if len(doc.Content) > 0 && !isNull(doc.Content[0]) {
			docs = append(docs, doc.Content[0])
		}
	}
}

// reportSyntaxError reports a syntax error of a file by its message and line, and where what it breaks
// began. What is still open at the end is told of where it was opened.
func (r *fileReader) reportSyntaxError(err error, data []byte) {
	where := r.originOf(nil)
	text := "is not valid YAML"
	var located *yaml.LoadError
	if errors.As(err, &located) {
		where.Line = located.Mark.Line
		if strings.HasPrefix(located.Message, "unknown anchor") {
			r.addProblem(where, "", errUnsupported)
			return
		}
		text += ": " + texts.CutBytes(located.Message, maxShown)
		switch began := located.ContextMark.Line; {
		case began == 0 || began == where.Line:
		case located.Mark.Index >= len(data):
			where.Line = began
		default:
			text += fmt.Sprintf(" (%s from line %d on)", texts.CutBytes(located.ContextMsg, maxShown), began)
		}
		where.Line = min(where.Line, 1+bytes.Count(bytes.TrimRight(data, " \t\r\n"), []byte("\n")))
	}
	r.addProblem(where, "", errors.New(text))
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
	case isNull(n):
	case isUnsupported(n):
		r.addProblem(r.originOf(n), path, errUnsupported)
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
		r.addProblem(r.originOf(n), path, fmt.Errorf("is %s: write a list, each entry with a leading '-'", describeNode(n)))
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
		r.addProblem(r.originOf(n), path, fmt.Errorf("is %s: write keys below it: %s", describeNode(n), strings.Join(b.names(), ", ")))
		return
	}
	r.given[path] = true
	seen := map[string]bool{}
	for k, v := range pairs(n) {
		name := keyName(k)
		full := joinPath(path, name)
		child := b.children[name]
		switch {
		case isUnsupported(k):
			r.addProblem(r.originOf(k), path, errUnsupported)
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
	if word, ok := scalarText(n); ok {
		return t.splitWords(word), nil
	}
	switch {
	case n.Kind == yaml.SequenceNode && t.shape == sequence:
		return sequenceWords(t, n)
	case n.Kind == yaml.MappingNode && t.shape == mapping:
		return mappingWords(n)
	}
	return nil, fmt.Errorf("is %s: expected %s", describeNode(n), t.describeExpected(t.word))
}

func sequenceWords(t valueType, n *yaml.Node) ([]string, error) {
	var words []string
	for _, v := range n.Content {
		word, ok := scalarText(v)
		if v.Kind == yaml.MappingNode && t.entry != nil {
			var err error
			if word, err = entryWord(t, v); err != nil {
				return nil, err
			}
		} else if !ok {
			return nil, fmt.Errorf("holds %s: expected %s", describeNode(v), t.describeExpected("a list of texts"))
		}
		words = append(words, word)
	}
	return words, nil
}

// entryWord makes one word of a mapping.
func entryWord(t valueType, n *yaml.Node) (string, error) {
	words := map[string]string{}
	for k, v := range pairs(n) {
		name := keyName(k)
		word, ok := scalarText(v)
		switch _, twice := words[name]; {
		case !ok:
			return "", fmt.Errorf("holds %s as %s: expected a text", describeNode(v), quoteValue(name))
		case twice:
			return "", fmt.Errorf("gives %s a second time: keep one", quoteValue(name))
		}
		words[name] = word
	}
	return t.entry(words)
}

func mappingWords(n *yaml.Node) ([]string, error) {
	var words []string
	for k, v := range pairs(n) {
		word, ok := scalarText(v)
		if !ok {
			return nil, fmt.Errorf("holds %s: expected name: text", describeNode(v))
		}
		words = append(words, keyName(k)+"="+word)
	}
	return words, nil
}

// pairs yields the keys and values of a mapping.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// scalarText is a value as it is written, "" for null.
func scalarText(n *yaml.Node) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode || isUnsupported(n):
		return "", false
	case isNull(n):
		return "", true
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return strings.TrimSuffix(n.Value, "\n"), true
	}
	return n.Value, true
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && !isUnsupported(n)
}

// keyName is the text of a key, "" for one that is no text.
func keyName(k *yaml.Node) string { return k.Value }

func isUnsupported(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || n.ShortTag() == "!!merge"
}

// describeNode names what a node is, never what it holds.
func describeNode(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.ScalarNode && !isUnsupported(n):
		return "a single value"
	}
	return "something that is not supported here"
}

// nestingDepth returns how deep brackets, or the dashes of one line, stand within
// each other. It counts roughly, and before a parser recurses into them.
func nestingDepth(data []byte) int {
	brackets, dashes, deepest := 0, 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			brackets++
		case ']', '}':
			brackets = max(0, brackets-1)
		case '-', '?':
			dashes++
		case ' ', '\t':
		default:
			dashes = 0
		}
		deepest = max(deepest, brackets, dashes)
	}
	return deepest
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
