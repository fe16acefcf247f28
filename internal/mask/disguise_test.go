package mask

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/text"
)

// disguises are of each class that a cleaner drops or folds, or a terminal obeys.
var disguises = map[string]string{
	"zero width": "\u200b", "joiner": "\u200d", "mark to the left": "\u200f", "Arabic mark": "\u061c", "embedding": "\u202a", "override": "\u202e", "pop": "\u202c", "isolate": "\u2066", "pop isolate": "\u2069",
	"word joiner": "\u2060", "invisible times": "\u2062", "soft hyphen": "\u00ad", "grapheme joiner": "\u034f", "Hangul filler": "\u3164", "half filler": "\uffa0", "Khmer vowel": "\u17b4", "Mongolian separator": "\u180e",
	"variation": "\ufe01", "variation of text": "\ufe0e", "variation of pictures": "\ufe0f", "variation, more": "\U000e0101", "tag": "\U000e0041", "tag that begins": "\U000e0001", "shorthand": "\U0001bca0", "musical": "\U0001d173", "byte order": "\ufeff", "annotation": "\ufff9", "undefined": "\ufff0",
	"null": "\x00", "start": "\x01", "bell": "\a", "backspace": "\b", "escape": "\x1b", "delete": "\x7f", "C1": "\u0080", "C1 of a sequence": "\u009b", "C1 of a command": "\u009d",
	"colour": "\x1b[31m", "no colour": "\x1b[0m", "many colours": "\x1b[38;2;255;255;255;48;5;100m", "erase": "\x1b[K", "mode": "\x1b[?25l", "colour by C1": "\u009b31m", "charset": "\x1b(B", "keypad": "\x1b=",
	"title": "\x1b]0;title\a", "link": "\x1b]8;;http://host/path\x1b\\", "device": "\x1bPq\x1b\\", "title by C1": "\u009d0;t\u009c",
	"marked": "\ufffd", "two": "\u202e\x1b[0m", "many": strings.Repeat("\u200b", 40),
}

// cleaners are what sinks do to a text behind or before masking.
var cleaners = map[string]func(string) string{
	"nothing": func(s string) string { return s }, "DropHidden": text.DropHidden, "FoldLine": text.FoldLine, "MarkHidden": text.MarkHidden,
	"FoldLine of MarkHidden": func(s string) string { return text.FoldLine(text.MarkHidden(s)) },
	"JSON": func(s string) string {
		raw, _ := json.Marshal(map[string]string{"text": s})
		return string(raw)
	},
	"DropHidden of JSON": func(s string) string {
		raw, _ := json.Marshal(map[string]any{"a": []string{s}})
		var back struct{ A []string }
		_ = json.Unmarshal([]byte(masker().String(string(raw))), &back)
		return text.DropHidden(back.A[0])
	},
	"CutLine": func(s string) string { return text.CutLine(s, 1<<10) },
}

const hiddenWord = "Hx7q9zK2mWv4"

// inDisguise is what is a secret in each of these texts, by name, by shape, or since it is
// known.
func inDisguise() map[string]string {
	secret := "kind: Secret\napiVersion: v1\ndata:\n  pin: " + hiddenWord + "\n"
	return map[string]string{
		"variable": "DB_PASSWORD=" + hiddenWord, "setting": "password: " + hiddenWord + " # of the database", "quoted": `the "api_key": "` + hiddenWord + `" is old`,
		"JSON": `{"password":"` + hiddenWord + `","user":"anna"}`, "URL": "postgres://app:" + hiddenWord + "@db:5432/shop", "flag": "run --token " + hiddenWord + " now", "header": "Authorization: Bearer " + hiddenWord + "0123456789",
		"known": "it says " + hiddenWord + " again", "known, in JSON": `{"m":"it says ` + hiddenWord + ` again"}`, "manifest": secret,
	}
}

// everyPlace are classes that are tried at every place of a text, and others at every fifth.
var everyPlace = []string{"override", "null", "escape", "colour", "link"}

func places(s, class string) (at []int) {
	first, step := 0, 1
	if !slices.Contains(everyPlace, class) {
		first, step = len(class)%5, 5
	}
	for i := first; i <= len(s); i += step {
		at = append(at, i)
	}
	return at
}

// TestNoDisguiseHidesASecret: whatever stands within a name, a sign or a value, neither what
// is cleaned after it was masked nor what is masked after it was cleaned has the secret.
func TestNoDisguiseHidesASecret(t *testing.T) {
	for of, s := range inDisguise() {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			known := masker()
			if strings.HasPrefix(of, "known") {
				known = masker(hiddenWord)
			}
			for class, d := range disguises {
				for _, at := range places(s, class) {
					checkDisguised(t, known, s, s[:at]+d+s[at:], of+", "+class)
				}
			}
		})
	}
}

func checkDisguised(t *testing.T, m *Masker, bare, s, about string) {
	t.Helper()
	masked := m.String(s)
	if again := m.String(masked); again != masked {
		t.Errorf("%s: masking %q gives %q, and of that %q", about, s, masked, again)
	}
	for name, clean := range cleaners {
		for order, out := range map[string]string{"cleaned after masking": clean(masked), "masked after cleaning": m.String(clean(s))} {
			if order == "masked after cleaning" && text.DropHidden(s) != bare {
				continue // a letter of it was a part of an order: no name is left
			}
			if strings.Contains(undisguised(out), hiddenWord) {
				t.Errorf("%s, %s by %s: %q is %q", about, order, name, s, out)
			}
		}
	}
}

// TestRandomDisguises puts some at random places, of several classes.
func TestRandomDisguises(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	classes := slices.Sorted(func(yield func(string) bool) {
		for _, d := range disguises {
			if !yield(d) {
				return
			}
		}
	})
	for range 400 {
		for of, s := range inDisguise() {
			bare := s
			for range 1 + r.IntN(6) {
				at := r.IntN(len(s) + 1)
				for at < len(s) && s[at]&0xc0 == 0x80 {
					at++
				}
				s = s[:at] + classes[r.IntN(len(classes))] + s[at:]
			}
			if text.DropHidden(s) != bare {
				continue // an order takes in what stands up to the end of another
			}
			known := masker()
			if strings.HasPrefix(of, "known") {
				known = masker(hiddenWord)
			}
			checkDisguised(t, known, bare, s, of)
		}
	}
}

// TestADisguisedValueIsLearned: it has one tag, however it is disguised.
func TestADisguisedValueIsLearned(t *testing.T) {
	for class, d := range disguises {
		if text.DropHidden(hiddenWord[:4]+d+hiddenWord[4:]) != hiddenWord {
			continue // the rest of it belongs to an order
		}
		m := masker().Learning()
		first := m.String("password=" + hiddenWord[:4] + d + hiddenWord[4:])
		if want := m.Tag(hiddenWord); !strings.Contains(first, want) {
			t.Errorf("%s: it is masked as %q, not by %s", class, first, want)
		}
		for _, s := range []string{"it was " + hiddenWord, "it was " + hiddenWord[:7] + d + hiddenWord[7:]} {
			if out := m.String(s); !strings.Contains(out, m.Tag(hiddenWord)) || strings.Contains(undisguised(out), hiddenWord) {
				t.Errorf("%s: %q is %q", class, s, out)
			}
		}
	}
}

// TestDisguisesInLogs: a log is read from somewhere on, in pieces.
func TestDisguisesInLogs(t *testing.T) {
	for class, d := range disguises {
		for _, log := range []string{
			"DB_PASS" + d + "WORD=" + hiddenWord + "\n", "pass" + d + "word:\n  " + hiddenWord + "\n", "ki" + d + "nd: Secret\ndata:\n  pin: " + hiddenWord + "\n",
			"data:\n  pin: " + hiddenWord + "\nki" + d + "nd: Secret\n", "api" + d + "Version: v1\nda" + d + "ta:\n  pin: " + hiddenWord + "\n",
		} {
			out, _ := masker().Log([]byte(log))
			if strings.Contains(undisguised(string(out)), hiddenWord) && text.DropHidden(d+"nd") == "nd" {
				t.Errorf("%s: %q is %q", class, log, out)
			}
			if strings.Count(string(out), "\n") != strings.Count(log, "\n") {
				t.Errorf("%s: %q has other lines: %q", class, log, out)
			}
		}
	}
}

// TestWhatIsDisguisedIsKept: a text without a secret keeps every byte, and one with a
// secret its colours.
func TestWhatIsDisguisedIsKept(t *testing.T) {
	for _, s := range []string{
		"\x1b[32mINFO\x1b[0m ready \u2713 10%\r20%\r\n", "\ufeffhello", "⚠\ufe0f it’s — “quoted”", `{"re":"\\bpassword\\b","path":"C:\\bin\\files\\reports","e":"\ud83d\ude00"}`, "a\x00b", "日本語　テキスト",
	} {
		if out := masker().String(s); out != s {
			t.Errorf("%q is %q", s, out)
		}
	}
	m := masker()
	if out, want := m.String("\x1b[32mpass\u200bword\x1b[0m=\x1b[33mｈunter２x９\x1b[0m ok"), "\x1b[32mpass\u200bword\x1b[0m=\x1b[33m"+m.Tag("hunter2x9")+"\x1b[0m ok"; out != want {
		t.Errorf("it is %q, want %q", out, want)
	}
}

func TestHostileDisguisesAreLinear(t *testing.T) {
	var unit, whole int
	for _, n := range []int{1 << 12, 1 << 16} {
		steps := 0
		for _, piece := range []string{"\x1b]", "\x1b[1", "\u009d", "\x1bPx", `\u200b`, `\\\\\u009b`, "\u200b", "pass\u200bword=", "\x1b[31m", "\r", "\x1b(", `\b`} {
			s := strings.Repeat(piece, n/len(piece))
			plain, seen := readText(s, true)
			steps += len(plain.jumps) + len(seen.jumps) + len(seen.text)
			_ = masker().String(s)
		}
		unit, whole = whole, steps
	}
	if whole > 20*unit {
		t.Errorf("16 times the text takes %d steps, not %d", whole, 16*unit)
	}
}

func FuzzDisguises(f *testing.F) {
	for class, d := range disguises {
		f.Add("DB_PASS"+d+"WORD=", d, len(class))
	}
	f.Fuzz(func(t *testing.T, name, d string, at int) {
		m := masker()
		s := fmt.Sprint(name, d, hiddenWord, "\n")
		if at = max(0, at) % (len(s) + 1); !strings.Contains(d, hiddenWord) {
			s = s[:at] + d + s[at:]
		}
		once := m.String(s)
		if again := m.String(once); again != once {
			t.Errorf("masking %q gives %q, and of that %q", s, once, again)
		}
		for by, clean := range cleaners {
			if strings.Contains(clean(once), hiddenWord) && !strings.Contains(m.String(clean(s)), hiddenWord) {
				t.Errorf("%s: %q is %q, cleaned %q", by, s, once, clean(once))
			}
		}
	})
}
