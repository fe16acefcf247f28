package readonly

import (
	"regexp"

	"nightcrier.dev/nightcrier/internal/text"
)

// filter is a program that reads its input or files and prints.
type filter struct {
	flags flags
	// texts is how many operands come before those that are files; noFiles, that
	// none are.
	texts   int
	noFiles bool
	// most bounds the operands that are files, 0 for any number.
	most int
	// accept looks at the first operand that is a text.
	accept *regexp.Regexp
	// reject refuses one.
	reject *regexp.Regexp
}

// filters are the programs that only read, given these options: none writes,
// follows, or runs something else.
var filters = map[string]filter{
	"cat": {flags: newFlags(nothing, "n b s A e t v E T number")},
	"ls":  {flags: newFlags(nothing, "l a A h 1 R t r S d F all almost-all recursive human-readable color")},
	"grep": {flags: newFlags(nothing, "i v c n o E F G P w x h H l L q s a r ignore-case invert-match count line-number only-matching extended-regexp fixed-strings word-regexp no-filename with-filename files-with-matches quiet recursive text").
		withFlags(newFlags(value, "A B C m e regexp max-count context after-context before-context include exclude")).withFlags(digits), texts: 1},
	"head": {flags: newFlags(nothing, "q v").withFlags(newFlags(value, "n c lines bytes")).withFlags(digits)},
	"tail": {flags: newFlags(nothing, "q v").withFlags(newFlags(value, "n c lines bytes")).withFlags(digits)},
	"wc":   {flags: newFlags(nothing, "l w c m L lines words bytes chars")},
	"sort": {flags: newFlags(nothing, "n r u h V f b g M s numeric-sort reverse unique human-numeric-sort version-sort").withFlags(newFlags(value, "k t key field-separator"))},
	"uniq": {flags: newFlags(nothing, "c d u i count repeated unique").withFlags(newFlags(value, "f s w")), most: 1}, // a second file would be written
	"cut":  {flags: newFlags(nothing, "s complement only-delimited").withFlags(newFlags(value, "d f c b delimiter fields characters bytes output-delimiter"))},
	"tr":   {flags: newFlags(nothing, "d s c C t delete squeeze-repeats complement"), noFiles: true},
	// jq's env is the environment, and so is $ENV, which some versions take with blanks
	// and comments in it; import and include read what they like.
	"jq": {flags: newFlags(nothing, "r c e n s S M a j R C raw-output compact-output exit-status null-input slurp sort-keys raw-input join-output tab"),
		texts: 1, reject: regexp.MustCompile(`(^|[^.\w])(env|ENV|import|include|input_filename|get_search_list|modulemeta|__\w*)\b`)},
	"date": {flags: newFlags(nothing, "u utc universal R"), texts: 1, most: -1, accept: regexp.MustCompile(`^\+`)},
	"true": {most: -1},
	"pwd":  {most: -1},
}

// digits are the options of -20.
var digits = newFlags(nothing, "0 1 2 3 4 5 6 7 8 9")

// checkFilter checks the arguments of one.
func (k Checker) checkFilter(name string, f filter, args []word) error {
	options, operands, err := f.flags.parseArguments(name, args)
	if err != nil {
		return err
	}
	for _, o := range options {
		if name == "grep" && (o.name == "e" || o.name == "regexp") {
			f.texts = 0
		}
	}
	if f.noFiles {
		return nil
	}
	texts := min(f.texts, len(operands))
	for _, w := range operands[:texts] {
		if w.glob >= 0 || f.accept != nil && !f.accept.MatchString(w.text) || f.reject != nil && f.reject.MatchString(w.text) {
			return newRefusalf("%s: %q is not available (put patterns between '…')", name, text.CutRunes(w.text, maxEchoed))
		}
	}
	files := operands[texts:]
	if f.most < 0 && len(files) > 0 || f.most > 0 && len(files) > f.most {
		return newRefusalf("%s: too many arguments", name)
	}
	for _, w := range files {
		if f.most > 0 && w.glob >= 0 {
			return newRefusalf("%s: %q may be several files", name, text.CutRunes(w.text, maxEchoed))
		}
		if err := k.checkPath(w); err != nil {
			return err
		}
	}
	return nil
}

// sedScript prints or drops lines, or replaces in them; it writes no file and runs
// no command, as the letters w and e would.
var sedScript = regexp.MustCompile(`^(?:(?:(?:[0-9]+|\$|/` + sedPattern + `/)(?:,(?:\+?[0-9]+|\$|/` + sedPattern + `/))?)?[pd]|s/` + sedPattern + `/` + sedPattern + `/[gpiI0-9]*|s\|` + sedBar + `\|` + sedBar + `\|[gpiI0-9]*)$`)

const (
	sedPattern = `(?:[^/\\\n\[\]]|\\[^\n])*`
	sedBar     = `(?:[^|\\\n\[\]]|\\[^\n])*`
)

// checkSed checks a call of the stream editor: one script of a few kinds.
func (k Checker) checkSed(args []word) error {
	_, operands, err := newFlags(nothing, "n E r quiet silent regexp-extended").parseArguments("sed", args)
	if err != nil {
		return err
	}
	if len(operands) == 0 || operands[0].glob >= 0 || !sedScript.MatchString(operands[0].text) {
		return newRefusalf("sed prints lines (sed -n '10,20p') or replaces in them (sed 's/a/b/'), one script at a time")
	}
	for _, w := range operands[1:] {
		if err := k.checkPath(w); err != nil {
			return err
		}
	}
	return nil
}
