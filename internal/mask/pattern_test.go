package mask

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
)

// tokenOf makes up a token as a pattern describes it.
func tokenOf(t *testing.T, p pattern, r *rand.Rand) string {
	t.Helper()
	tree, err := syntax.Parse(p.expr, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	write(&out, tree, r)
	return strings.Trim(out.String(), " \t\n\r\"'`\\<>=:(),;")
}

// write writes one of the texts that the expression matches. Of what ends a token
// it takes nothing.
func write(out *strings.Builder, re *syntax.Regexp, r *rand.Rand) {
	repeat := func(least, most int) {
		if most < 0 {
			most = least + 20
		}
		for range least + r.IntN(most-least+1) {
			write(out, re.Sub[0], r)
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		out.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		if len(re.Rune) > 0 && re.Rune[0] == 0 {
			return // all but something: the end of a token
		}
		var may []rune
		for c := '!'; c <= 'z'; c++ {
			for n := 0; n < len(re.Rune); n += 2 {
				if re.Rune[n] <= c && c <= re.Rune[n+1] {
					may = append(may, c)
				}
			}
		}
		out.WriteRune(may[r.IntN(len(may))])
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			write(out, sub, r)
		}
	case syntax.OpAlternate:
		write(out, re.Sub[r.IntN(len(re.Sub))], r)
	case syntax.OpRepeat:
		repeat(re.Min, re.Max)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpStar:
		repeat(0, 20)
	case syntax.OpPlus:
		repeat(1, 20)
	}
}

// TestEveryPatternIsMasked makes up tokens of every pattern and puts them where
// Kubernetes and people write them.
func TestEveryPatternIsMasked(t *testing.T) {
	for _, p := range patterns {
		t.Run(p.id+"/"+p.hint, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			whole := regexp.MustCompile(p.expr)
			found := 0
			for range 200 {
				token := tokenOf(t, p, r)
				if entropy(token) <= p.entropy+0.3 || !whole.MatchString(token) || !strings.Contains(strings.ToLower(token), strings.ToLower(p.hint)) {
					continue // "aaaa", or another keyword's turn
				}
				hidden(t, token)
				if found++; found == 10 {
					break
				}
			}
			if found == 0 {
				t.Error("no token could be made up")
			}
		})
	}
}

// hidden puts a token into texts.
func hidden(t *testing.T, token string) {
	t.Helper()
	inner, err := json.Marshal(map[string]string{"v": token})
	if err != nil {
		t.Fatal(err)
	}
	outer, err := json.Marshal(map[string]string{"last-applied": string(inner)})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{token, "x " + token, "uses " + token + " now", "- value: " + token + "\n- name: y", `{"v":"` + token + `"}`, string(outer), "ends with " + token + ".", "(" + token + ")", "a=" + token + ",b=c"} {
		m := masker()
		got := m.String(text)
		if strings.Contains(got, token) || m.Count() == 0 {
			t.Errorf("%q survived in %q", token, got)
		}
		if json.Valid([]byte(text)) != json.Valid([]byte(got)) {
			t.Errorf("%q became %q", text, got)
		}
		if again := m.String(got); again != got {
			t.Errorf("not idempotent: %q, %q", got, again)
		}
	}
}

// TestWhatOnlyBeginsAsATokenIsKept: names that share a beginning with tokens.
func TestWhatOnlyBeginsAsATokenIsKept(t *testing.T) {
	for _, text := range []string{
		"kind: Task", "SKIPPED 0123", "https://registry.k8s.io/pause", "image: docker.io/glc_thing:v1.0-rc1", "pul-request 12", "hf_hub_download",
		"sha256~short", "API-SERVER is up", "ico-notes", "a3-b", "app-pat.example", "dapi-gateway-7d4b9c6f5d-x2x7q", "EAAfoo", "fm1-radio", "npm_config_cache=/tmp",
		"containerd://4b1d0000000000000000000000000000000000000000000000000000000000aa", "xxxxSKxxxx", "glpat-xxxx", "dop_v1_" + strings.Repeat("0", 64),
	} {
		if got := masker().String(text); got != text {
			t.Errorf("destroyed:\n  %q\n  %q", text, got)
		}
	}
}

// TestALongTokenIsTakenWhole: a token may be longer than what is looked at.
func TestALongTokenIsTakenWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var body strings.Builder
	for range 3000 {
		body.WriteByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[r.IntN(62)])
	}
	for _, head := range []string{"ops_eyJ", "pypi-AgEIcHlwaS5vcmc"} {
		if got := masker().String("is " + head + body.String() + " here"); len(got) > 40 || !strings.HasSuffix(got, " here") {
			t.Errorf("%.80q…", got)
		}
	}
}

// BenchmarkHints is text that is nothing but beginnings of tokens.
func BenchmarkHints(b *testing.B) {
	var one strings.Builder
	for _, p := range patterns {
		one.WriteString(p.hint)
	}
	text := strings.Repeat(one.String(), 1<<20/one.Len())
	m := masker()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.String(text)
	}
}

// BenchmarkPodList is a list of Pods as the API server writes it, without secrets.
func BenchmarkPodList(b *testing.B) {
	const pod = `{"metadata":{"name":"cart-7d4b9c8f6d-%[1]s","namespace":"shop","uid":"0191c1e2-7b3a-7c11-9a9b-%[1]s","labels":{"app":"cart"},` +
		`"annotations":{"checksum/secret":"%[1]s%[1]s"}},"spec":{"containers":[{"name":"app","image":"registry.example/shop/cart:1.4.2",` +
		`"env":[{"name":"API_TOKEN","valueFrom":{"secretKeyRef":{"name":"cart-secrets","key":"token"}}},{"name":"LOG_LEVEL","value":"info"}],` +
		`"volumeMounts":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}],"serviceAccountName":"cart"},` +
		`"status":{"containerStatuses":[{"imageID":"registry.example/shop/cart@sha256:%[1]s%[1]s","containerID":"containerd://%[1]s%[1]s"}]}}`
	var list strings.Builder
	for n := 0; list.Len() < 1<<20; n++ {
		sum := sha256.Sum256([]byte{byte(n), byte(n >> 8)})
		fmt.Fprintf(&list, pod, hex.EncodeToString(sum[:16]))
	}
	m := masker("sk-live-value-known")
	b.SetBytes(int64(list.Len()))
	for b.Loop() {
		m.String(list.String())
	}
	if m.Count() > 0 {
		b.Errorf("%d values of a list without secrets were masked", m.Count())
	}
}

// BenchmarkRules is what every start pays.
func BenchmarkRules(b *testing.B) {
	for b.Loop() {
		newIndex(allRules())
	}
}
