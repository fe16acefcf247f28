package mask

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// Where a tag has come to stand, a rule may see the end of a value elsewhere, or a name
// before it.
func TestMaskingTwiceIsMaskingOnce(t *testing.T) {
	for _, text := range []string{
		"pAsswd:[0pAssword::", "authorization: --token a1master_key", "cookie:a= password: |\n--password x", "authorization: cookie:a=token:\"x", "passwords: [a, cookie:a=b",
		":5432:ACCESS-KEY:5432:private_key ", "htpasswd -b -passin pass:htpasswd -b CLIENT-KEY-DATAaccesskeyidentified by ", "hooks.slack.com/secret_keypw=\n-----END PRIVATE KEY-----",
		"account_keyAPI-KEY=password:\nMASTER-KEY", "PASSWORD  PASSWORD  abcd1234\nabcd1234  PASSWORD\ntoken=-sig=", "{\"kind\":\"Secret\"data: {pwd=/}MASTERAUTH://u:p/| password |\n",
		"AUTH_KEY{\"kind\":\"Secret\"&a \"value\":\"", "AKIAPASSPHRASESECRETcGFzc3dvcmQ6IHN3b3JkZmlzaA==password: x", "passwords: {a: \\\"-passin pass:\"value\":\"x\",\"name\":\"password\"",
	} {
		checkTwice(t, text)
	}
	r := rand.New(rand.NewPCG(1, 2))
	units := pieces()
	for range 30_000 {
		var text strings.Builder
		for range 2 + r.IntN(7) {
			text.WriteString(units[r.IntN(len(units))])
		}
		checkTwice(t, text.String())
	}
}

// pieces are what texts can be put together from that make rules meet.
func pieces() []string {
	units := []string{
		" ", ":", "=", "[", "]", "{", "}", ",", "\"", "'", "\n", "\\n", "\\\"", "|", "  ", "a", "0", "@", "/", "\t", "->", "- ", "value: ", "\"value\":", ">", "<", "</", "//", ";", "&", "#", "!", "\\", "\x1b[1m",
		"A1b2C3d4e5", "swordfish", "hunter2-Zx81", "‹secret:3f9a›", "%40", "%3A",
	}
	for _, k := range keys {
		units = append(units, k.word, strings.ToUpper(k.word))
	}
	return append(units, hostileUnits...)
}

func checkTwice(t *testing.T, text string) {
	t.Helper()
	got := masker().String(text)
	if again := masker().String(got); again != got {
		t.Errorf("%q became %q, then %q", text, got, again)
	}
	if json.Valid([]byte(text)) && !json.Valid([]byte(got)) {
		t.Errorf("JSON %q became %q", text, got)
	}
	if strings.Count(got, "\n") < strings.Count(text, "\n") {
		t.Errorf("%q lost a line: %q", text, got)
	}
}

// What stands beside a tag is a part of a secret, unless it is a name and its sign.
func TestWhatStandsBesideATagIsMasked(t *testing.T) {
	const known = "Kn0wn-value"
	m := masker(known)
	for text, want := range map[string]string{
		"password=" + known + "swordfish":      "password=" + m.Tag(m.Tag(known)+"swordfish"),
		"password=swordfish" + known:           "password=" + m.Tag("swordfish"+m.Tag(known)),
		"passwords: [swordfish:" + known + "]": "passwords: [" + m.Tag("swordfish:"+m.Tag(known)) + "]",
		"passwords: [password:" + known + "]":  "passwords: [password:" + m.Tag(known) + "]",
	} {
		if got := m.String(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
