package readonly

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/text"
)

// Checker holds shell commands against a policy.
type Checker struct {
	Policy Policy
	// Workspace is the absolute path of the directory that files may be read from.
	// Relative paths are taken to be in it.
	Workspace string
}

// Check returns nil when a shell command only reads, and what it reads is allowed.
// Its error is a Refused one that says what is wrong and what would be right, for
// the model. Whatever is not known to only read is refused.
func (k Checker) Check(command string) error {
	all, err := parseCalls(command)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := k.checkCall(c, false); err != nil {
			return err
		}
	}
	return nil
}

// checkCall checks one program. bounded says that something ends it before long.
func (k Checker) checkCall(c call, bounded bool) error {
	if c[0].glob >= 0 {
		return newRefusalf("the name of a command cannot be a pattern")
	}
	switch name := c.programName(); name {
	case "kubectl":
		return k.checkKubectl(c[1:], bounded)
	case "timeout":
		return k.checkTimeout(c[1:])
	case "echo":
		return k.checkEcho(c[1:])
	case "sed":
		return k.checkSed(c[1:])
	case "cd":
		if len(c) != 2 || strings.HasPrefix(c[1].text, "-") {
			return newRefusalf("cd takes one directory of the workspace")
		}
		return k.checkPath(c[1])
	default:
		f, ok := filters[name]
		if !ok {
			return newRefusalf("%q is not available: kubectl %s, pipes into grep, head, tail, sort, uniq, cut, tr, wc, jq, sed -n, and cat and ls of the workspace are", text.CutRunes(name, maxEchoed), strings.Join(k.Policy.Verbs, "|"))
		}
		return k.checkFilter(name, f, c[1:])
	}
}

// checkEcho says what it is given, which is no pattern: that would list what there is.
func (k Checker) checkEcho(args []word) error {
	for _, w := range args {
		if w.glob >= 0 {
			return newRefusalf("echo: %q is a pattern: put it between '…'", text.CutRunes(w.text, maxEchoed))
		}
	}
	return nil
}

// longestFollow is how long a command under timeout may run.
const longestFollow = 2 * time.Minute

// checkTimeout checks the command that it bounds.
func (k Checker) checkTimeout(args []word) error {
	if len(args) < 2 {
		return newRefusalf("timeout takes seconds and a command")
	}
	n, err := strconv.Atoi(strings.TrimSuffix(args[0].text, "s"))
	if err != nil || n < 1 || time.Duration(n)*time.Second > longestFollow {
		return newRefusalf("timeout takes 1 to %d seconds", int(longestFollow.Seconds()))
	}
	if name := args[1].text; name != "kubectl" {
		return newRefusalf("timeout is there for kubectl only")
	}
	return k.checkCall(call(args[1:]), true)
}

// checkPath checks a file to be read: one below the workspace. That a link in it does
// not lead out is the sandbox's to see to.
func (k Checker) checkPath(w word) error {
	p := w.text
	if w.glob == 0 {
		return newRefusalf("a pattern for files begins with the directory: write ./ before it")
	}
	for part := range strings.SplitSeq(p, "/") {
		// A pattern that begins with a dot finds the directory above, too.
		if part == ".." || w.glob >= 0 && strings.HasPrefix(part, ".") && strings.ContainsAny(part, globChars) {
			return newRefusalf("%q leads out of the workspace", text.CutRunes(p, maxEchoed))
		}
	}
	if !filepath.IsAbs(p) {
		return nil
	}
	inside := k.Workspace + "/"
	if k.Workspace == "" || p != k.Workspace && !strings.HasPrefix(p, inside) || w.glob >= 0 && w.glob < len(inside) {
		return newRefusalf("%q is outside the workspace", text.CutRunes(p, maxEchoed))
	}
	return nil
}
