package readonly

import (
	"maps"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// flags are the options that a program may be given, by name without dashes: one
// letter is a short option. The value says what each takes.
type flags map[string]takes

// takes is what follows an option.
type takes int

const (
	nothing takes = iota + 1
	// value is the rest of the word, or the next one.
	value
	// following makes a command run on until it is ended.
	following
)

// withFlags returns both.
func (f flags) withFlags(more flags) flags {
	out := flags{}
	for _, m := range []flags{f, more} {
		maps.Copy(out, m)
	}
	return out
}

// newFlags makes options of one kind from their names.
func newFlags(kind takes, names string) flags {
	f := flags{}
	for name := range strings.FieldsSeq(names) {
		f[name] = kind
	}
	return f
}

// option is one that was given.
type option struct {
	name  string
	kind  takes
	value string
}

// parseArguments splits arguments into options and operands, as both kubectl and the usual
// tools do: --name=value, --name value, -nvalue, -n value, -n=value, -abc. What is
// not in f is refused: names cannot be shortened either.
func (f flags) parseArguments(program string, args []word) (options []option, operands []word, err error) {
	for i := 0; i < len(args); i++ {
		text := args[i].text
		if len(text) < 2 || text[0] != '-' {
			operands = append(operands, args[i])
			continue
		}
		if eq := strings.IndexByte(text, '='); args[i].glob >= 0 && (eq < 0 || args[i].glob < eq) {
			return nil, nil, newRefusalf("%s: an option cannot be a pattern: put it between '…'", program)
		}
		var some []option
		if long, ok := strings.CutPrefix(text, "--"); ok {
			some, err = f.parseLong(program, long)
		} else {
			some, err = f.parseShort(program, text[1:])
		}
		if err != nil {
			return nil, nil, err
		}
		if last := &some[len(some)-1]; last.kind == value && last.value == missing {
			i++
			if i == len(args) {
				return nil, nil, newRefusalf("%s: -%s takes a value", program, last.name)
			}
			last.value = args[i].text
			if args[i].glob >= 0 && !mayStayUnquoted(last.value, args[i].glob) {
				return nil, nil, newRefusalf("%s: the value of -%s is a pattern: put it between '…'", program, last.name)
			}
		}
		options = append(options, some...)
	}
	return options, operands, nil
}

// missing stands for a value that is the next word.
const missing = "\x00"

func (f flags) parseLong(program, said string) ([]option, error) {
	name, val, given := strings.Cut(said, "=")
	kind := f[name]
	if kind == 0 || len(name) < 2 {
		return nil, newRefusalf("%s: the option --%s is not available", program, text.CutRunes(name, maxEchoed))
	}
	if !given {
		val = missing
		if kind != value {
			val = "true"
		}
	}
	return []option{{name, kind, val}}, nil
}

func (f flags) parseShort(program, text string) (out []option, err error) {
	for i := range len(text) {
		name := text[i : i+1]
		kind := f[name]
		rest := text[i+1:]
		switch {
		case kind == 0:
			return nil, newRefusalf("%s: the option -%s is not available", program, name)
		case kind == value:
			val, _ := strings.CutPrefix(rest, "=")
			if rest == "" {
				val = missing
			}
			return append(out, option{name, kind, val}), nil
		case strings.HasPrefix(rest, "="):
			return append(out, option{name, kind, rest[1:]}), nil
		}
		out = append(out, option{name, kind, "true"})
	}
	return out, nil
}

// mayStayUnquoted reports whether a pattern may stay outside quotes: whatever file it may
// find begins with what makes it a template for the output.
func mayStayUnquoted(text string, glob int) bool {
	for _, kind := range []string{"jsonpath=", "custom-columns="} {
		if i := strings.Index(text, kind); i >= 0 && i <= len("--output=") && glob >= i+len(kind) {
			return true
		}
	}
	return false
}
