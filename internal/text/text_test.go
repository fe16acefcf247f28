package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile is what somebody may write who wants to deceive a reader.
const hostile = "a\x1b[31mred\x00\a\x7f\u009b \u202egnp\u202c \u2066x\u2069 z\u200bw\u00ad \u2028y \ufeffb\U000E0041c \xff\xfed\u3164e\U000E0101 \r\n\tend"

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, fold, drop, mark string }{
		{"", "", "", ""},
		{"plain", "plain", "plain", "plain"},
		{" two\n words\t\u00a0 ", "two words", " two\n words\t\u00a0 ", " two\n words\t\u00a0 "},
		{"crlf\r\nend", "crlf end", "crlf\nend", "crlf\nend"},
		{"10%\r20%", "10% 20%", "10% 20%", "10%\uFFFD20%"},
		{"a\vb\fc\u0085d\u2029e", "a b c d e", "a b c d e", "a\uFFFDb\uFFFDc\uFFFDd\uFFFDe"},
		{"\x1b[1;31mred\x1b[0m \x1b[?25lb\x1b[Kc \u009b31md\u009be", "red bc d", "red bc d", "\uFFFDred\uFFFD \uFFFDb\uFFFDc \uFFFDd\uFFFD"},
		{"a\x1b(Bb\x1bDc\x1b=d\x1b", "abDcd", "abDcd", "a\uFFFDb\uFFFDDc\uFFFDd\uFFFD"},
		{"\x1b]8;;http://x\x1b\\link\x1b]8;;\a \u009d0;t\u009cu \x1bPq\x1b\\v", "link u v", "link u v", "\uFFFDlink\uFFFD \uFFFDu \uFFFDv"},
		{"\x1b]open\nend \x1b[" + strings.Repeat("1", 70) + "m \x1b", "]open end [" + strings.Repeat("1", 70) + "m", "]open\nend [" + strings.Repeat("1", 70) + "m ", "\uFFFD]open\nend \uFFFD[" + strings.Repeat("1", 70) + "m \uFFFD"},
		{"a\u200bb", "ab", "ab", "a\uFFFDb"},
		{"a \u200b b", "a b", "a  b", "a \uFFFD b"},
		{"☎\uFE0F ü 日本", "☎\uFE0F ü 日本", "☎\uFE0F ü 日本", "☎\uFE0F ü 日本"},
		{"\xff\xfe", "\uFFFD", "\uFFFD", "\uFFFD"},
		{hostile, "ared gnp x zw y bc \uFFFDde end", "ared gnp x zw  y bc \uFFFDde \n\tend", "a\uFFFDred\uFFFD\uFFFD\uFFFD\uFFFD \uFFFDgnp\uFFFD \uFFFDx\uFFFD z\uFFFDw\uFFFD \uFFFDy \uFFFDb\uFFFDc \uFFFDd\uFFFDe\uFFFD \n\tend"},
	} {
		if got := FoldLine(c.in); got != c.fold {
			t.Errorf("FoldLine(%q) = %q, want %q", c.in, got, c.fold)
		}
		if got := DropHidden(c.in); got != c.drop {
			t.Errorf("DropHidden(%q) = %q, want %q", c.in, got, c.drop)
		}
		if got := MarkHidden(c.in); got != c.mark {
			t.Errorf("MarkHidden(%q) = %q, want %q", c.in, got, c.mark)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in          string
		n           int
		bytes, line string
		runes       string
	}{
		{"", 0, "", "", ""},
		{"abc", 3, "abc", "abc", "abc"},
		{"abcd", 3, "…", "…", "ab…"},
		{"abcdefgh", 5, "ab…", "ab…", "abcd…"},
		{"abc", 0, "", "", ""},
		{"abc", -1, "", "", ""},
		{"abc", 1, "", "", "…"},
		{"éééé", 7, "éé…", "éé…", "éééé"},
		{"éééé", 6, "é…", "é…", "éééé"},
		{"éééé", 3, "…", "…", "éé…"},
		{"日本語", 8, "日…", "日…", "日本語"},
		{"a  b\nc", 5, "a …", "a b c", "a  b…"},
		{"ab\xffcd", 7, "ab\uFFFDcd", "ab\uFFFDcd", "ab\uFFFDcd"},
		{"a\xff\xff\xffb", 4, "a…", "a…", "a\uFFFDb"},
		{"one " + strings.Repeat("\u200b", 1000) + "two", 7, "one …", "one two", "one \u200b\u200b…"},
	} {
		if got := CutBytes(c.in, c.n); got != c.bytes {
			t.Errorf("CutBytes(%q, %d) = %q, want %q", c.in, c.n, got, c.bytes)
		}
		if got := CutLine(c.in, c.n); got != c.line {
			t.Errorf("CutLine(%q, %d) = %q, want %q", c.in, c.n, got, c.line)
		}
		if got := CutRunes(c.in, c.n); got != c.runes {
			t.Errorf("CutRunes(%q, %d) = %q, want %q", c.in, c.n, got, c.runes)
		}
	}
}

func TestKeep(t *testing.T) {
	for _, c := range []struct {
		in                 string
		n                  int
		bytes, lines, last string
	}{
		{"abc", 3, "abc", "abc", "abc"},
		{"abc", 2, "ab", "ab", "bc"},
		{"abc", 0, "", "", ""},
		{"abc", -1, "", "", ""},
		{"éé", 3, "é", "é", "é"},
		{"日本", 5, "日", "日", "本"},
		{"日本", 2, "", "", ""},
		{"one\ntwo\nthree", 9, "one\ntwo\nt", "one\ntwo\n", "three"},
		{"one\nlonger\nx", 9, "one\nlonge", "one\nlonge", "longer\nx"},
		{"whole\nlines", 11, "whole\nlines", "whole\nlines", "whole\nlines"},
		{"\x80\x80\x80\x80\x80\x80\x80\x80", 6, "\x80\x80\x80\x80\x80\x80", "\x80\x80\x80\x80\x80\x80", "\x80\x80\x80\x80\x80\x80"},
	} {
		if got := KeepBytes(c.in, c.n); got != c.bytes {
			t.Errorf("KeepBytes(%q, %d) = %q, want %q", c.in, c.n, got, c.bytes)
		}
		if got := KeepLines(c.in, c.n); got != c.lines {
			t.Errorf("KeepLines(%q, %d) = %q, want %q", c.in, c.n, got, c.lines)
		}
		if got := KeepLastLines(c.in, c.n); got != c.last {
			t.Errorf("KeepLastLines(%q, %d) = %q, want %q", c.in, c.n, got, c.last)
		}
	}
}

func TestWords(t *testing.T) {
	for n, want := range map[int]string{0: "0 lines", 1: "1 line", 2: "2 lines"} {
		if got := CountNoun(n, "line"); got != want {
			t.Errorf("CountNoun(%d) = %q, want %q", n, got, want)
		}
	}
	for want, words := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := JoinWords(words, "or"); got != want {
			t.Errorf("JoinWords(%q) = %q, want %q", words, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "abc", hostile, "日本語\n", "\x80\xff"} {
		f.Add(s, 5)
		f.Add(s, 60)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		n %= 1 << 10
		room := max(n, 0)
		cut := func(name string, do func(string, int) string, size func(string) int) {
			once := do(s, n)
			if again := do(once, n); again != once {
				t.Errorf("%s(%q, %d) = %q, and of that %q", name, s, n, once, again)
			}
			if size(once) > room {
				t.Errorf("%s(%q, %d) = %q, which is longer", name, s, n, once)
			}
			if !utf8.ValidString(once) && (utf8.ValidString(s) || strings.HasPrefix(name, "Cut")) {
				t.Errorf("%s(%q, %d) = %q, which is no UTF-8", name, s, n, once)
			}
		}
		length := func(s string) int { return len(s) }
		cut("KeepBytes", KeepBytes, length)
		cut("KeepLines", KeepLines, length)
		cut("KeepLastLines", KeepLastLines, length)
		cut("CutBytes", CutBytes, length)
		cut("CutLine", CutLine, length)
		cut("CutRunes", CutRunes, utf8.RuneCountInString)
		if !strings.HasPrefix(s, KeepBytes(s, n)) || !strings.HasPrefix(s, KeepLines(s, n)) || !strings.HasSuffix(s, KeepLastLines(s, n)) {
			t.Errorf("what is kept of %q is no part of it", s)
		}
		if CutLine(s, n) != CutBytes(FoldLine(s), n) {
			t.Errorf("CutLine(%q, %d) = %q, not the whole line cut", s, n, CutLine(s, n))
		}
		for name, clean := range map[string]func(string) string{"FoldLine": FoldLine, "DropHidden": DropHidden, "MarkHidden": MarkHidden} {
			once := clean(s)
			if again := clean(once); again != once {
				t.Errorf("%s(%q) = %q, and of that %q", name, s, once, again)
			}
			breaks := func(r rune) bool { return name != "FoldLine" && (r == '\n' || r == '\t') }
			if !utf8.ValidString(once) || strings.ContainsFunc(once, func(r rune) bool { return IsHidden(r) && !breaks(r) }) {
				t.Errorf("%s(%q) = %q: no UTF-8, or something is hidden", name, s, once)
			}
		}
	})
}

func TestCutMiddle(t *testing.T) {
	long := "failed to start: " + strings.Repeat("wrapped ", 30) + "caused by: no such host"
	for _, c := range []struct{ s, want string }{
		{"short\n line", "short line"},
		{long, "failed to start: wrapped wrapped wrap … wrapped caused by: no such host"},
		{strings.Repeat("a", 60) + "‹secret:3f9a›" + strings.Repeat("b", 25), strings.Repeat("a", 37) + " … " + strings.Repeat("b", 25)},
		{strings.Repeat("ä", 60), strings.Repeat("ä", 18) + " … " + strings.Repeat("ä", 19)},
	} {
		if got := CutMiddle(c.s, 80); got != c.want || len(got) > 80 {
			t.Errorf("%q: %q (%d)", c.s, got, len(got))
		}
	}
}

func TestCutWords(t *testing.T) {
	long := strings.Repeat("x", maxWord+10)
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 0, ""},
		{"one two", 7, "one two"},
		{"one twos", 7, "one…"},
		{"one two three", 10, "one two…"},
		{"one two three", 9, "one…"},
		{"one\ntwo\tthree", 12, "one\ntwo…"},
		{"日本 語文", 12, "日本…"},
		{"one " + long, 4 + len(long) - 1, "one " + long[:len(long)-4] + "…"},
		{"one " + long, 100, "one " + long[:93] + "…"},
		{"one " + long[:maxWord], 100, "one…"},
		{"one " + long[:maxWord+1], 100, "one " + long[:93] + "…"},
		{`said {"code":503,"token":"` + long[:200] + `"}`, 100, `said {"code":503,"token":"…`},
		{"one a,b,c", 10, "one a,b,c"},
		{"one [a,bcd", 11, "one [a,bcd"},
		{"one [a,bcdef", 11, "one [a,…"},
		{"nothing", 5, "no…"},
		{"one", -1, ""},
	} {
		if got := CutWords(c.in, c.n); got != c.want {
			t.Errorf("CutWords(%.40q, %d) = %.40q, want %.40q", c.in, c.n, got, c.want)
		}
	}
}

// TestNoCutSplitsATag: half of one would say that something else stood there.
func TestNoCutSplitsATag(t *testing.T) {
	const tag = "‹secret:3f9a›"
	s := "password=" + tag + " and more"
	for n := range len(s) {
		for name, got := range map[string]string{
			"KeepBytes": KeepBytes(s, n), "KeepLines": KeepLines(s, n), "KeepWords": KeepWords(s, n), "KeepLastLines": KeepLastLines(s, n),
			"CutBytes": CutBytes(s, n), "CutLine": CutLine(s, n), "CutWords": CutWords(s, n), "CutRunes": CutRunes(s, n),
		} {
			if rest := strings.ReplaceAll(got, tag, ""); strings.Contains(rest, "‹") || strings.Contains(rest, "›") || strings.Contains(rest, "3f9a") || strings.Contains(rest, "secret") {
				t.Errorf("%s(%q, %d) = %q", name, s, n, got)
			}
		}
	}
	if got := KeepBytes("‹no tag at all, since it has no end", 10); got != "‹no tag " {
		t.Errorf("what is no tag is cut to %q", got)
	}
}

func TestMaskClean(t *testing.T) {
	mask := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "ab", "x"), "two\nlines", "y") }
	for in, want := range map[string]string{"a\u200bb": "x", "two\nlines": "y", "a  b": "a b", "": ""} {
		if got := MaskClean(in, mask, FoldLine); got != want {
			t.Errorf("of %q it makes %q, want %q", in, got, want)
		}
	}
	if got := MaskClean("a\u200bb", nil, FoldLine); got != "ab" {
		t.Errorf("without a mask it makes %q", got)
	}
}
