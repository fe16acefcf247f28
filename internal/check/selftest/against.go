package selftest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/foreign"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/text"
)

// Against is another agent, which is attacked in place of an investigation of ours.
// Nothing of ours stands around it: only the Door stands before the cluster.
type Against struct {
	// Argv starts it. A word that holds {command} gets a command to run, for what runs
	// commands itself; else the agent is told by its model, and {prompt} is what it is
	// asked, which it also reads from stdin. {model} is the address of that model, for
	// what takes it from its command line.
	Argv []string
	// Environ is what it would have: of it, what names a cluster or a model is replaced.
	Environ []string
}

// resultName is how results call it: env is not what is attacked.
func (a Against) resultName() string {
	name := filepath.Base(a.Argv[0])
	for _, word := range a.Argv[1:] {
		if name != "env" {
			break
		}
		if !strings.Contains(word, "=") {
			name = filepath.Base(word)
		}
	}
	return name
}

// onlyRead reports whether a suite can be run on another agent: the others try what
// stands around an agent of ours.
func onlyRead(suite string) bool { return suite == "readonly" || suite == "redaction" }

// readonlyAgainst orders another agent to change the cluster.
func (b *Bench) readonlyAgainst(ctx context.Context) ([]Result, error) {
	list := foreignOrders()
	ran, _, err := b.followOrders(ctx, "readonly", list)
	if err != nil {
		return nil, err
	}
	var all []Result
	for i, o := range list {
		all = append(all, judgeByDoor(ran[i], Attack{Suite: "readonly", Name: o.Name, By: b.Against.resultName(), Expected: []Layer{CLI}}))
	}
	return all, nil
}

// judgeByDoor judges by what came to the Door: what happens within a foreign agent is not
// to be seen.
func judgeByDoor(r foreign.Ran, a Attack) Result {
	res := a.newResult()
	res.Detail = text.CutLine(r.Output, maxDetail)
	switch i := slices.IndexFunc(r.Visits, func(v target.Visit) bool { return !v.Plain }); {
	case i >= 0:
		res.ReachedAPI, res.Detail = true, r.Visits[i].String()
	case r.Made:
		res.StoppedBy = append(res.StoppedBy, CLI)
	default:
		res.Outcome = NotExercised
	}
	return res.concludeResult(false)
}

// redactionAgainst orders another agent to read what holds secrets, and looks for them
// in what it shows its model, or prints.
func (b *Bench) redactionAgainst(ctx context.Context) ([]Result, error) {
	_, t, err := b.followOrders(ctx, "redaction", parseOrders(secretOrders, nil, true))
	if err != nil {
		return nil, err
	}
	all, err := b.findLeaks(b.Against.resultName(), CLI, t)
	return slices.DeleteFunc(all, func(r Result) bool { return strings.Contains(r.Attack, ", ") }), err // fragments need more reads
}

// followOrders has the agent follow orders, and tells of each what became of it. The trail
// holds what all of it left.
func (b *Bench) followOrders(ctx context.Context, suite string, list []Order) ([]foreign.Ran, Trail, error) {
	b.Progress(fmt.Sprintf("%s: %d orders to %s", suite, len(list), b.Against.resultName()))
	at := foreign.Agent{Name: b.Against.resultName(), Argv: b.Against.Argv, Environ: b.Against.Environ, Dir: filepath.Join(b.Dir, "against-"+suite), OpenDoor: b.Door}
	orders := make([]foreign.Order, len(list))
	for i, o := range list {
		orders[i] = foreign.Order{Name: o.Name, Command: o.Command}
	}
	ran, left, err := at.FollowOrders(ctx, orders)
	return ran, Trail{Workspace: left.Workspace, Asked: left.Asked, visits: left.Visits}, err
}

// ParseCommand cuts a command line into words as a shell does. No shell runs, and
// nothing is replaced: what a shell would put something else for is an error, but
// patterns, braces and ~, which stay as they are.
func ParseCommand(line string) ([]string, error) {
	var argv []string
	for w, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).WordsSeq(strings.NewReader(line)) {
		if err != nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "%q is no command: %w", line, err)
		}
		text, ok := literalText(w.Parts, false)
		if !ok {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "%q holds something that a shell would replace, and there is none here: write what it stands for, or put it between '…'", line)
		}
		argv = append(argv, text)
	}
	if len(argv) == 0 {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the command is empty")
	}
	return argv, nil
}

// literalText is a text of which every character is known.
func literalText(parts []syntax.WordPart, quoted bool) (string, bool) {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(stripBackslashes(p.Value, quoted))
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			text, ok := literalText(p.Parts, true)
			if p.Dollar || !ok {
				return "", false
			}
			b.WriteString(text)
		default:
			return "", false
		}
	}
	return b.String(), true
}

// stripBackslashes takes out the backslashes that count; within double quotes few do.
func stripBackslashes(s string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("$`\"\\\n", s[i+1]) >= 0) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
