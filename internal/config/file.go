package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/typo"
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
		return nil, fmt.Errorf("cannot be read: %w", cause(err))
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", cause(err))
	}
	return data, nil
}

// cause drops the path that the caller names anyway.
func cause(err error) error {
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

// tree arranges the file spellings of all keys.
func tree(all []key) *branch {
	root := &branch{}
	for i := range all {
		for _, s := range all[i].spellings() {
			if s.layer == LayerFile {
				root.add(&all[i], s)
			}
		}
	}
	return root
}

func (b *branch) add(k *key, s spelling) {
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
	r := &fileReader{loader: l, name: name, root: tree(l.keys)}
	if len(data) > maxFile {
		r.problem(r.at(nil), "", fmt.Errorf("is larger than %d bytes", maxFile))
		return
	}
	if nesting(data) > maxNesting {
		r.problem(r.at(nil), "", fmt.Errorf("nests brackets or dashes more than %d deep", maxNesting))
		return
	}
	parsed, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return
	}
	bodies := 0
	for _, doc := range parsed.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		if bodies++; bodies > 1 {
			r.problem(r.at(doc.Body), "", errors.New("a second document begins here: one file holds one configuration"))
			return
		}
		r.walk(r.root, doc.Body, "", onlyCluster)
	}
}

// syntax reports a syntax error by its message and line alone: the library's
// own text shows the source around it, which may hold a secret.
func (r *fileReader) syntax(err error) {
	where := r.at(nil)
	text := "is not valid YAML"
	var located yaml.Error
	if errors.As(err, &located) {
		if token := located.GetToken(); token != nil && token.Position != nil {
			where.Line = token.Position.Line
		}
		text += ": " + texts.CutBytes(located.GetMessage(), maxShown)
	}
	r.problem(where, "", errors.New(text))
}

// at is the origin of a node, the whole file for nil.
func (r *fileReader) at(n ast.Node) Origin {
	o := Origin{Layer: LayerFile, Name: r.name}
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		o.Line = n.GetToken().Position.Line
	}
	return o
}

func (r *fileReader) walk(b *branch, n ast.Node, path string, cluster int) {
	switch {
	case n == nil || n.Type() == ast.NullType:
	case unsupported(n):
		r.problem(r.at(n), path, errUnsupported)
	case b.leaf != nil:
		r.leaf(b, n, path, cluster)
	case b.list:
		r.entries(b, n, path)
	default:
		r.fields(b, n, path, cluster)
	}
}

// entries walks a sequence of mappings.
func (r *fileReader) entries(b *branch, n ast.Node, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.problem(r.at(n), path, fmt.Errorf("is %s: write a list, each entry with a leading '-'", describe(n)))
		return
	}
	inner := &branch{children: b.children}
	for i, entry := range seq.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch path {
		case "clusters":
			r.places = append(r.places, r.at(entry))
		case "webhooks":
			r.hookPlaces = append(r.hookPlaces, r.at(entry))
		case "tool_servers":
			r.toolPlaces = append(r.toolPlaces, r.at(entry))
		default:
			r.walk(inner, entry, at, onlyCluster)
			continue
		}
		r.walk(inner, entry, at, i)
	}
}

func (r *fileReader) fields(b *branch, n ast.Node, path string, cluster int) {
	m, ok := n.(ast.MapNode)
	if !ok {
		r.problem(r.at(n), path, fmt.Errorf("is %s: write keys below it: %s", describe(n), strings.Join(b.names(), ", ")))
		return
	}
	r.given[path] = true
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		name := keyName(it.Key())
		full := join(path, name)
		child := b.children[name]
		switch {
		case it.Key().IsMergeKey():
			r.problem(r.at(it.Key()), path, errUnsupported)
		case child == nil:
			r.problem(r.at(it.Key()), join(path, texts.CutBytes(name, maxShown)), r.unknown(b, path, name))
		case seen[name]:
			r.problem(r.at(it.Key()), full, errors.New("is given a second time: keep one"))
		default:
			seen[name] = true
			r.walk(child, it.Value(), full, cluster)
		}
	}
}

// unknown says what a key that does not exist may have been meant to be: a
// neighbour, or the same word elsewhere.
func (r *fileReader) unknown(b *branch, path, name string) error {
	if near := typo.Nearest(name, b.names()); near != "" {
		return fmt.Errorf("is not a key: did you mean %s?", join(path, near))
	}
	for i := range r.keys {
		if full := r.keys[i].path; full == name || strings.HasSuffix(full, "."+name) {
			return fmt.Errorf("is not a key here: did you mean %s?", full)
		}
	}
	return fmt.Errorf("is not a key: known here are %s", strings.Join(b.names(), ", "))
}

func (r *fileReader) leaf(b *branch, n ast.Node, path string, cluster int) {
	words, err := wordsOf(b.leaf.typ, n)
	if err != nil {
		r.problem(r.at(n), path, err)
		return
	}
	r.set(b.leaf, b.as, words, place{origin: r.at(n), path: path, cluster: cluster})
}

// wordsOf reads the words of a value of the type's shape. A sequence or
// mapping may also be written in its one-line form.
func wordsOf(t valueType, n ast.Node) ([]string, error) {
	if word, ok := scalarText(n); ok {
		return t.words(word), nil
	}
	switch v := n.(type) {
	case *ast.SequenceNode:
		if t.shape == sequence {
			return sequenceWords(t, v)
		}
	case ast.MapNode:
		if t.shape == mapping {
			return mappingWords(v)
		}
	}
	return nil, fmt.Errorf("is %s: expected %s", describe(n), t.expected(t.word))
}

func sequenceWords(t valueType, n *ast.SequenceNode) ([]string, error) {
	var words []string
	for _, v := range n.Values {
		word, ok := scalarText(v)
		if m, isMap := v.(ast.MapNode); isMap && t.entry != nil {
			var err error
			if word, err = entryWord(t, m); err != nil {
				return nil, err
			}
		} else if !ok {
			return nil, fmt.Errorf("holds %s: expected %s", describe(v), t.expected("a list of texts"))
		}
		words = append(words, word)
	}
	return words, nil
}

// entryWord makes one word of a mapping.
func entryWord(t valueType, n ast.MapNode) (string, error) {
	pairs := map[string]string{}
	for it := n.MapRange(); it.Next(); {
		name := keyName(it.Key())
		word, ok := scalarText(it.Value())
		switch _, twice := pairs[name]; {
		case !ok:
			return "", fmt.Errorf("holds %s as %s: expected a text", describe(it.Value()), quote(name))
		case twice:
			return "", fmt.Errorf("gives %s a second time: keep one", quote(name))
		}
		pairs[name] = word
	}
	return t.entry(pairs)
}

func mappingWords(n ast.MapNode) ([]string, error) {
	var words []string
	for it := n.MapRange(); it.Next(); {
		word, ok := scalarText(it.Value())
		if !ok {
			return nil, fmt.Errorf("holds %s: expected name: text", describe(it.Value()))
		}
		words = append(words, keyName(it.Key())+"="+word)
	}
	return words, nil
}

func scalarText(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return strings.TrimSuffix(v.Value.Value, "\n"), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return v.GetToken().Value, true
	case *ast.NullNode:
		return "", true
	}
	return "", false
}

func keyName(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	if t := k.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

func unsupported(n ast.Node) bool {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode, *ast.DirectiveNode:
		return true
	}
	return false
}

// describe names what a node is, never what it holds.
func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	}
	if _, ok := scalarText(n); ok {
		return "a single value"
	}
	return "something that is not supported here"
}

// nesting returns how deep brackets, or the dashes of one line, stand within
// each other. It counts roughly, and before a parser recurses into them.
func nesting(data []byte) int {
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

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
