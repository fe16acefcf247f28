package markdown

import (
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	mdtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxEmphasis bounds the marks of emphasis in one block. Each that closes nothing
// is held against all before it.
const maxEmphasis = 1000

// boundedEmphasis reads emphasis as Markdown does, and leaves it as text in a
// block that has more of it than anybody writes.
type boundedEmphasis struct{ parser.InlineParser }

// emphasisCount is where a parse keeps how many marks a block had.
var emphasisCount = parser.NewContextKey()

type counted struct {
	block ast.Node
	marks int
}

// Parse implements parser.InlineParser.
func (e boundedEmphasis) Parse(parent ast.Node, block mdtext.Reader, pc parser.Context) ast.Node {
	c, _ := pc.Get(emphasisCount).(*counted)
	if c == nil || c.block != parent {
		c = &counted{block: parent}
		pc.Set(emphasisCount, c)
	}
	if c.marks++; c.marks > maxEmphasis {
		return nil
	}
	return e.InlineParser.Parse(parent, block, pc)
}

// inlineParsers are Markdown's own, with emphasis bounded.
func inlineParsers() []util.PrioritizedValue {
	all := parser.DefaultInlineParsers()
	for i, p := range all {
		if p.Value == parser.NewEmphasisParser() {
			all[i].Value = boundedEmphasis{parser.NewEmphasisParser()}
		}
	}
	return all
}
