package mask

import (
	"regexp"
	"strings"
	"testing"
)

func TestWithoutEchoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, asked, want string }{
		{"a name", `pods "hunter2-guess" not found`, "hunter2-guess", `pods "‹your-words›" not found`},
		{"more than the name", `pods "hunter2-guess" not found`, `x "hunter2-guess" nobody`, `pods‹your-words›not found`},
		{"a wrong and a right one", `a "hunter22" or "hunter2x"`, `hunterA hunterB hunter22 hunter2x`, `a "‹your-words›" or "‹your-words›"`},
		{"as a quoted text", `unexpected "pass\"word1\n"!`, "pass\"word1\n", `unexpected "‹your-words›"!`},
		{"at the end of a sentence", `no such thing: hunter2-guess.`, "hunter2-guess", `no such thing: ‹your-words›.`},
		{"in a path", `GET https://10.0.0.1/api/v1/pods/hunter2-guess: not found`, "/api/v1/pods/hunter2-guess", `GET https://10.0.0.1‹your-words›: not found`},
		{"only a part of a word", "the password is hunter2xyz", "hunter2 word", "the password is hunter2xyz"},
		{"a part with a dash", "the password is hunter2-xyz", "hunter2 word", "the password is hunter2-xyz"},
		{"short words", "pods not found in shop", "shop", "pods not found in shop"},
		{"nothing", "pods not found", "", "pods not found"},
		{"the name of a secret", `dsn host=db password=s3cret-Q9x`, "password=guess", `dsn host=db ‹your-words›password=s3cret-Q9x`},
		{"a sign behind it", `dsn "db_password": "s3cret-Q9x"`, `db_password": "guess"`, `dsn "‹your-words›password": "s3cret-Q9x"`},
		{"many", strings.Repeat("a", 300) + "b", strings.Repeat("a", 9000), strings.Repeat("a", 300) + "b"},
	} {
		if got := WithoutEchoes(c.text, c.asked); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// Whether a guess is right cannot be told from what is made of an answer that repeats it.
func TestEchoesConfirmNothing(t *testing.T) {
	t.Parallel()
	for _, form := range []string{`pods "%" not found`, `pods "password:%" not found`, `parse error: unexpected identifier "%" at 1:7`, `password=%`, `{"password":"%"}`, `%`, `x=% y`, `Authorization: Bearer %`} {
		for _, guess := range []string{"hunter2", "hunter2-the-secret", "correct-horse-b4ttery", "p@ss:w0rd!"} {
			right, wrong := New([]byte("k"), guess), New([]byte("k"), "something else")
			text := strings.ReplaceAll(form, "%", guess)
			for _, asked := range []string{text, guess, "x=" + guess + ", " + guess + "1"} {
				if said, other := right.String(WithoutEchoes(text, asked)), wrong.String(WithoutEchoes(text, asked)); said != other || strings.Contains(said, guess) {
					t.Errorf("%s, asked for %s, becomes %s when the guess is right, else %s", text, asked, said, other)
				}
			}
		}
	}
}

// A name that was asked for is given back as it is, whether it is a secret or not.
func TestApart(t *testing.T) {
	t.Parallel()
	m := New([]byte("k"), "hunter2-Q9x7")
	for _, c := range []struct{ text, said, want string }{
		{`pods "hunter2-Q9x7" not found`, "hunter2-Q9x7", `pods "hunter2-Q9x7" not found`},
		{`pods "cart-7d4b9" not found, password=hunter2-Q9x`, "cart-7d4b9", `pods "cart-7d4b9" not found, password=‹›`},
		{`pods "password:guess-Q9" not found`, "password:guess-Q9", `pods "password:guess-Q9" not found`},
		{`host=db password=hunter2-Q9x`, "password", `host=db password=‹›`},
		{`it is hunter2-Q9x7`, "hunter2", `it is ‹›`},
		{`it is hunter2-Q9x7`, "Q9x7", `it is ‹›`},
		{`a cart-7d and cart-7d-x`, "cart-7d", `a cart-7d and cart-7d-x`},
	} {
		got := regexp.MustCompile("secret:[0-9a-f]{4}").ReplaceAllString(string(Apart([]byte(c.text), m.Bytes, c.said, "short")), "")
		if got != c.want {
			t.Errorf("%s, asked for %s, becomes %s", c.text, c.said, got)
		}
	}
}
