package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of what is read by nodes.
const (
	MaxBytes = 1 << 20
	// maxNesting bounds brackets within brackets and dashes in a row, far above
	// what anybody writes.
	maxNesting = 64
	maxShown   = 64
)

// ErrUnsupported is what is said of a node for which [IsUnsupported] is true.
var ErrUnsupported = errors.New("anchors, aliases, merge keys and tags are not supported: write the value out")

// Fault is what is wrong with a file, and in which line; 0 when the whole is meant.
type Fault struct {
	Line int
	Text string
}

// ReadNode returns the one document of data, nil when there is none, for those who say of
// every value where it stands. It is the reader's business to refuse what [IsUnsupported],
// keys that are given twice, and keys that are not known.
func ReadNode(data []byte) (*yaml.Node, *Fault) {
	all, fault := ReadNodes(data)
	switch {
	case fault != nil || len(all) == 0:
		return nil, fault
	case len(all) > 1:
		return nil, &Fault{all[1].Line, "a second document begins here: one file holds one"}
	}
	return all[0], nil
}

// ReadNodes is ReadNode for data that may hold several documents. Those without anything are
// left out.
func ReadNodes(data []byte) (all []*yaml.Node, fault *Fault) {
	if len(data) > MaxBytes {
		return nil, &Fault{Text: fmt.Sprintf("is larger than %d bytes", MaxBytes)}
	}
	if nestingDepth(data) > maxNesting {
		return nil, &Fault{Text: fmt.Sprintf("nests brackets or dashes more than %d deep", maxNesting)}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, &Fault{Text: err.Error()}
	}
	for {
		var doc yaml.Node
		if err := loader.Load(&doc); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, syntaxFault(err, data)
		}
		if len(doc.Content) > 0 && !IsNull(doc.Content[0]) {
			all = append(all, doc.Content[0])
		}
	}
}

// syntaxFault tells a syntax error by its message and line, and where what it breaks
// began. What is still open at the end is told of where it was opened.
func syntaxFault(err error, data []byte) *Fault {
	f := &Fault{Text: "is not valid YAML"}
	var located *yaml.LoadError
	if !errors.As(err, &located) {
		return f
	}
	f.Line = located.Mark.Line
	if strings.HasPrefix(located.Message, "unknown anchor") {
		f.Text = ErrUnsupported.Error()
		return f
	}
	f.Text += ": " + text.CutBytes(located.Message, maxShown)
	switch began := located.ContextMark.Line; {
	case began == 0 || began == f.Line:
	case located.Mark.Index >= len(data):
		f.Line = began
	default:
		f.Text += fmt.Sprintf(" (%s from line %d on)", text.CutBytes(located.ContextMsg, maxShown), began)
	}
	f.Line = min(f.Line, 1+bytes.Count(bytes.TrimRight(data, " \t\r\n"), []byte("\n")))
	return f
}

// Pairs yields the keys and values of a mapping.
func Pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// ScalarText is a value as it is written, "" for null.
func ScalarText(n *yaml.Node) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode || IsUnsupported(n):
		return "", false
	case IsNull(n):
		return "", true
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return strings.TrimSuffix(n.Value, "\n"), true
	}
	return n.Value, true
}

// IsNull reports whether a node is null, or an empty value.
func IsNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && !IsUnsupported(n)
}

// IsUnsupported reports whether a node is more than text: what it stands for is written elsewhere.
func IsUnsupported(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || n.ShortTag() == "!!merge"
}

// DescribeNode names what a node is, never what it holds.
func DescribeNode(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.ScalarNode && !IsUnsupported(n):
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
