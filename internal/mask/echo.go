package mask

import (
	"index/suffixarray"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Echo stands where a text repeats what its reader said.
const Echo = "‹your-words›"

// minEcho is the length in bytes from which on words are taken for a repetition. No
// shorter value is known to a Masker.
const minEcho = minKnown

// WithoutEchoes replaces what a text repeats of what its reader asked. Masked, such words
// would confirm a guess: the same value has the same tag, and one that is known is
// masked and any other is not. Whoever asked knows them, and reads what is said of them.
//
// What is left in their place depends on them alone. Where they end with the name of a
// secret, a name stays, for a Masker to find what is not the reader's behind it.
func WithoutEchoes(text string, asked ...string) string {
	said := newSpeech(asked)
	var out strings.Builder
	for at, run := 0, 0; at < len(text); {
		run = said.run(text, at, run)
		n := wholeWords(text, at, run)
		switch {
		case n == 0:
			_, n = utf8.DecodeRuneInString(text[at:])
			out.WriteString(text[at : at+n])
		default:
			out.WriteString(Echo + nameAtEnd(text[at:at+n]))
		}
		at, run = at+n, max(run-n, 0)
	}
	return out.String()
}

// wholeWords is how many bytes of a run from at on are whole words, 0 for too few.
func wholeWords(text string, at, run int) int {
	if inWord(text, at) {
		return 0
	}
	for run >= minEcho && inWord(text, at+run) {
		run--
	}
	if run < minEcho {
		return 0
	}
	return run
}

// inWord reports whether a word goes on over text[at].
func inWord(text string, at int) bool {
	return at > 0 && at < len(text) && wordByte(text[at-1]) && wordByte(text[at])
}

func wordByte(c byte) bool { return isAlnum(c) || c == '-' || c == '_' || c >= utf8.RuneSelf }

// nameAtEnd is a name of a secret, and the signs behind it, for words that end with such
// a one.
func nameAtEnd(words string) string {
	name := strings.TrimRight(words, "\"'\\:=> \t")
	last := strings.LastIndexFunc(name, func(r rune) bool { return r < utf8.RuneSelf && !wordByte(byte(r)) }) + 1
	if !NamesSecret(name[last:]) {
		return ""
	}
	return "password" + words[len(name):]
}

// speech finds what stands in some texts, as they are and as they stand between quotes.
type speech struct{ index *suffixarray.Index }

func newSpeech(asked []string) speech {
	var all strings.Builder
	for _, s := range asked {
		all.WriteString(s + "\x00")
		if quoted := strconv.Quote(s); quoted[1:len(quoted)-1] != s {
			all.WriteString(quoted[1:len(quoted)-1] + "\x00")
		}
	}
	return speech{suffixarray.New([]byte(all.String()))}
}

// run is how many bytes of text from at on stand there in one piece; so many at least are
// known to.
func (s speech) run(text string, at, least int) int {
	n := least
	for at+n < len(text) && text[at+n] != 0 && len(s.index.Lookup([]byte(text[at:at+n+1]), 1)) > 0 {
		n++
	}
	return n
}

// Apart masks a text but for some words in it, whole ones, which its reader said: they are
// given back as they are, whether they are a secret or not. Names of secrets are masked
// like any text, as they tell what stands behind them.
func Apart(text []byte, mask func([]byte) []byte, said ...string) []byte {
	var words []string
	for _, w := range said {
		if len(w) >= minEcho && !NamesSecret(w) && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) }) // one may hold another
	out := string(text)
	for i, w := range words {
		out = replaceWord(out, w, stand(i))
	}
	out = string(mask([]byte(out)))
	for i, w := range words {
		out = strings.ReplaceAll(out, stand(i), w)
	}
	return []byte(out)
}

// stand is what stands for a word while a text is masked.
func stand(i int) string { return "‹" + strconv.Itoa(i) + "›" }

func replaceWord(text, word, with string) string {
	var out strings.Builder
	done := 0
	for at := 0; ; {
		n := strings.Index(text[at:], word)
		if n < 0 {
			return out.String() + text[done:]
		}
		from, to := at+n, at+n+len(word)
		at = to
		if !inWord(text, from) && !inWord(text, to) {
			out.WriteString(text[done:from] + with)
			done = to
		}
	}
}
