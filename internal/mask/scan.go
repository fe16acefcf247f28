package mask

// span returns the end of the run of bytes of the class that starts at s[at].
func span(s string, at int, class func(byte) bool) int {
	for at < len(s) && class(s[at]) {
		at++
	}
	return at
}

// skipQuote skips one quote with the backslashes in front of it.
func skipQuote(s string, at int) int {
	i := at
	for i < len(s) && s[i] == '\\' {
		i++
	}
	if i < len(s) && (s[i] == '"' || i == at && (s[i] == '\'' || s[i] == '`')) {
		return i + 1
	}
	return at
}

func skipBlank(s string, at int) int {
	return span(s, at, func(c byte) bool { return c == ' ' || c == '\t' })
}

func skipSpace(s string, at int) int { return span(s, at, isSpace) }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' }

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

func isSmall(c byte) bool { return isLower(c) || isDigit(c) }

func isLetter(c byte) bool { return isLower(c) || isUpper(c) }

func isAlnum(c byte) bool { return isLetter(c) || isDigit(c) }

func isUpperAlnum(c byte) bool { return isUpper(c) || isDigit(c) }

func isTokenByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' }

func isBase64(c byte) bool { return isAlnum(c) || c == '+' || c == '/' || c == '=' }

func upper(c byte) byte {
	if isLower(c) {
		return c - 'a' + 'A'
	}
	return c
}

func hasDigit(s string) bool { return has(s, isDigit) }

func hasLetter(s string) bool { return has(s, isLetter) }

func has(s string, class func(byte) bool) bool {
	for i := range len(s) {
		if class(s[i]) {
			return true
		}
	}
	return false
}
