package mask

import "strings"

// opens reports whether no letter or digit of the text stands before s[at]. In
// text that is written inside strings one may stand there all the same: the end
// of an escape, \n or \u003c.
func opens(s string, at int) bool {
	return at == 0 || !isAlnum(s[at-1]) || endsEscape(s[:at])
}

// endsEscape reports whether s ends in an escape of a string, or in a colour.
func endsEscape(s string) bool {
	if strings.HasSuffix(s, "m") && endsColour(s) {
		return true
	}
	if n := len(s); n >= 2 && s[n-2] == '\\' {
		return strings.IndexByte("nrtbf", s[n-1]) >= 0
	}
	n := len(s) - len(`\u003c`)
	return n >= 0 && s[n] == '\\' && s[n+1] == 'u' && span(s, n+2, isHex) == len(s)
}

// keyEnd takes the lines of a private key whose beginning was cut off, as that of
// the end of a log is: what stands before its last line. Each line may begin with
// words of its own, such as a moment.
func keyEnd(s string, at int) (int, int) {
	head := s[at+len("-----END "):]
	head = head[:min(len(head), 64)]
	end := strings.Index(head, "-----")
	if end < 0 || !strings.HasSuffix(head[:end], "PRIVATE KEY") && !strings.HasSuffix(head[:end], "PRIVATE KEY BLOCK") {
		return -1, -1
	}
	from, to := -1, 0
	for line := lineBefore(s, at); line >= 0; line = lineBefore(s, from) {
		word := wordBefore(s, line)
		if word == line || from >= 0 && line-word < keyLine {
			break
		}
		if from = word; to == 0 {
			to = line
		}
	}
	return from, to
}

// keyLine is how long each line of a key is, but for the last.
const keyLine = 60

// lineBefore returns the end of the line before the one with s[at], whose break
// may be written as \n; -1 when there is none within reach.
func lineBefore(s string, at int) int {
	for i := at - 1; i >= max(0, at-maxPrefix); i-- {
		switch {
		case s[i] == '\n':
			return len(strings.TrimRight(s[:i], "\r"))
		case s[i] == 'n' && i > 0 && s[i-1] == '\\':
			i--
			for i > 0 && s[i-1] == '\\' {
				i--
			}
			return i
		case s[i] == '-' && i > 4 && s[i-4:i+1] == "-----":
			return -1
		}
	}
	return -1
}

// maxPrefix is how much may stand on a line before what is part of a key.
const maxPrefix = 256

// wordBefore returns where the run of base64 that ends at s[end] begins.
func wordBefore(s string, end int) int {
	from := end
	for from > 0 && isBase64(s[from-1]) && !(s[from-1] == 'n' && from > 1 && s[from-2] == '\\') {
		from--
	}
	return from
}
