package readonly

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"nightcrier.dev/nightcrier"
)

// The bounds of a command line: what an investigation needs is far below.
const (
	maxCommand = 16 << 10
	maxCalls   = 32
)

// word is one argument. glob is where its first unquoted pattern character stands,
// -1 when it has none: what follows may become something else. open says that a brace
// stands outside quotes.
type word struct {
	text string
	glob int
	open bool
}

// call is a program and its arguments.
type call []word

func (c call) programName() string { return c[0].text }

func newRefusalf(format string, args ...any) error {
	return nightcrier.Errorf(nightcrier.Refused, format, args...)
}

// parseCalls returns the programs that a command line runs. Only lists and pipelines of
// plain words get through, so that what we read is what any shell makes of it.
func parseCalls(command string) ([]call, error) {
	if err := checkPlainText(command); err != nil {
		return nil, err
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil, newRefusalf("the command is not understood: %v", err)
	}
	l := list{}
	for _, s := range file.Stmts {
		if err := l.readStatement(s); err != nil {
			return nil, err
		}
	}
	switch {
	case len(l.calls) == 0:
		return nil, newRefusalf("there is no command")
	case len(l.calls) > maxCalls:
		return nil, newRefusalf("more than %d commands in one line", maxCalls)
	}
	return l.calls, nil
}

// checkPlainText refuses what shells and parsers read differently.
func checkPlainText(command string) error {
	if len(command) > maxCommand {
		return newRefusalf("the command is longer than %d bytes", maxCommand)
	}
	if !utf8.ValidString(command) {
		return newRefusalf("the command is no UTF-8 text")
	}
	for _, r := range command {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return newRefusalf("the command holds the control character %q", r)
		}
	}
	if strings.Contains(command, "\\\n") {
		return newRefusalf("lines cannot be joined with a backslash; write one line")
	}
	return nil
}

// list gathers calls.
type list struct{ calls []call }

func (l *list) readStatement(s *syntax.Stmt) error {
	switch {
	case s.Background:
		return newRefusalf("nothing may run in the background: leave out the &")
	case s.Negated || s.Coprocess:
		return newRefusalf("only plain commands may be run")
	}
	for _, r := range s.Redirs {
		if err := checkRedirect(r); err != nil {
			return err
		}
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		return l.readCall(cmd)
	case *syntax.BinaryCmd:
		if err := l.readStatement(cmd.X); err != nil {
			return err
		}
		return l.readStatement(cmd.Y)
	}
	return newRefusalf("only plain commands may be run, alone, in pipes, or joined by ; && and ||: no loops, conditions, groups or functions")
}

// checkRedirect lets errors join the output, and either be thrown away.
func checkRedirect(r *syntax.Redirect) error {
	fd := ""
	if r.N != nil {
		fd = r.N.Value
	}
	target, err := readWord(r.Word)
	if err != nil {
		return err
	}
	switch {
	case r.Hdoc != nil || fd != "" && fd != "1" && fd != "2":
	case r.Op == syntax.DplOut && fd == "2" && target.text == "1":
		return nil
	case (r.Op == syntax.RdrOut || r.Op == syntax.RdrAll) && target.text == "/dev/null":
		return nil
	}
	return newRefusalf("nothing may be redirected but errors (2>&1, 2>/dev/null): write the report with the tool for files")
}

func (l *list) readCall(c *syntax.CallExpr) error {
	if len(c.Assigns) > 0 || len(c.Args) == 0 {
		return newRefusalf("no variable may be set")
	}
	var out call
	for _, arg := range c.Args {
		w, err := readWord(arg)
		if err != nil {
			return err
		}
		out = append(out, w)
	}
	l.calls = append(l.calls, out)
	return nil
}

// readWord reads a word of which every character is known before it runs.
func readWord(w *syntax.Word) (word, error) {
	out := word{glob: -1}
	if w == nil {
		return out, newRefusalf("the command is not understood")
	}
	for _, part := range w.Parts {
		if err := out.readPart(part); err != nil {
			return word{}, err
		}
	}
	return out, nil
}

func (w *word) readPart(p syntax.WordPart) error {
	switch p := p.(type) {
	case *syntax.Lit:
		return w.readBare(p.Value)
	case *syntax.SglQuoted:
		if !p.Dollar {
			w.text += p.Value
			return nil
		}
	case *syntax.DblQuoted:
		if !p.Dollar {
			return w.readQuoted(p.Parts)
		}
	case *syntax.ParamExp:
		return newRefusalf("variables are not available: write the value")
	}
	return newRefusalf("substitutions are not available: run one command after the other")
}

// bareChars may stand outside quotes; of them globChars are patterns.
const (
	bareChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,@%+^#{}" + globChars
	globChars = "*?[]"
)

func (w *word) readBare(s string) error {
	for _, r := range strings.ReplaceAll(s, "!=", "=") { // no shell's history begins with !=
		if !strings.ContainsRune(bareChars, r) {
			return newRefusalf("%q stands outside quotes: put the argument between '…'", r)
		}
	}
	if i := strings.IndexAny(s, globChars); i >= 0 && w.glob < 0 {
		w.glob = len(w.text) + i
	}
	w.text += s
	return w.checkBraces(s)
}

// checkBraces refuses what a shell may make several words of: a brace that opened, in this
// part of the word or in an earlier one, and a comma or two dots behind it. Quotes
// between them, even around nothing, do not keep a shell from it.
func (w *word) checkBraces(s string) error {
	if !w.open {
		i := strings.IndexByte(s, '{')
		if i < 0 {
			return nil
		}
		w.open, s = true, s[i:]
	}
	if strings.Contains(s, ",") || strings.Contains(s, "..") {
		return newRefusalf("braces stand outside quotes: put the argument between '…'")
	}
	return nil
}

// readQuoted reads what stands in double quotes.
func (w *word) readQuoted(parts []syntax.WordPart) error {
	for _, p := range parts {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			if _, variable := p.(*syntax.ParamExp); variable {
				return newRefusalf("variables are not available: write the value, or use '…' in place of \"…\"")
			}
			return newRefusalf("substitutions are not available: run one command after the other")
		}
		w.text += unescapeQuoted(lit.Value)
	}
	return nil
}

// unescapeQuoted undoes the backslashes that count inside double quotes.
func unescapeQuoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\", s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
