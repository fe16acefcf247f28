package mask

import (
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

const keyWords = "MIIEowIBAAKCAQEAq1w2e3r4t5y6u7i8o9p0Zx7CvBnM1q2w3e4r5t6y7u8i9o0p\n"

// stretches are logs, each with a secret that no line holds with its name, and what of it
// may be shown nowhere.
var stretches = map[string]struct{ log, secret string }{
	"a manifest":                       {"up\napiVersion: v1\nkind: Secret\nmetadata:\n  name: db\nstringData:\n  any: orange-horse\n  more: orange-cow\ndone\n", "orange"},
	"a manifest by alphabet":           {"up\napiVersion: v1\ndata:\n  any: b3JhbmdlLWhvcnNl\n  more: b3JhbmdlLWNvdw==\nimmutable: true\nkind: Secret\nmetadata:\n  name: db\ndone\n", "b3Jhbmdl"},
	"a manifest in JSON":               {"up\n{\n    \"apiVersion\": \"v1\",\n    \"data\": {\n        \"any\": \"b3JhbmdlLWhvcnNl\",\n        \"more\": \"b3JhbmdlLWNvdw==\"\n    },\n    \"kind\": \"Secret\"\n}\ndone\n", "b3Jhbmdl"},
	"a list of manifests":              {"apiVersion: v1\nitems:\n- apiVersion: v1\n  data:\n    any: b3JhbmdlLWhvcnNl\n  kind: Secret\n- apiVersion: v1\n  data:\n    any: b3JhbmdlLWNvdw==\n  kind: Secret\nkind: List\n", "b3Jhbmdl"},
	"a block of lines":                 {"kind: Secret\nstringData:\n  file: |\n    first orange\n    second orange\ntype: Opaque\n", "orange"},
	"a name and a value":               {"env:\n- name: DB_PASSWORD\n  value: orange-horse\n- name: MODE\n  value: plain\n", "orange"},
	"the same in JSON":                 {"{\n  \"name\": \"DB_PASSWORD\",\n  \"value\": \"orange-horse\"\n}\n", "orange"},
	"a key":                            {"up\n-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(keyWords, 5) + "-----END RSA PRIVATE KEY-----\ndown\n", "MIIE"},
	"a key without its end":            {"up\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + strings.Repeat(keyWords, 5) + "a line, of another kind\n" + keyWords + "panic: it ends\n", "MIIE"},
	"a value before its name":          {"{\n  \"value\": \"orange-horse7\",\n  \"name\": \"DB_PASSWORD\"\n}\ndone\n", "orange"},
	"lines of others between":          {"kind: Secret\nstringData:\n  any: orange-horse\nGET /items 200\n  more: orange-cow\n10.0.0.7 - - [x] \"GET / 1\n{\"level\":\"info\"}\n  last: orange-cat\ntype: Opaque\ndone\n", "orange"},
	"others within a block":            {"kind: Secret\nstringData:\n  file: |\n    first orange\nGET /items 200\n    second orange\ntype: Opaque\n", "orange"},
	"a logger's words before":          {"2026-11-20 10:00:00,123 INFO [main] kind: Secret\n2026-11-20 10:00:00,124 INFO [main] stringData:\n2026-11-20 10:00:00,124 INFO [main]   any: orange-horse\n2026-11-20 10:00:00,125 INFO [main]   more: orange-cow\n", "orange"},
	"the kind at the end, behind them": {"10:00:00.123 INFO apiVersion: v1\n10:00:00.123 INFO data:\n10:00:00.124 INFO   any: b3JhbmdlLWhvcnNl\n10:00:00.124 INFO kind: Secret\n10:00:01.000 INFO up\n", "b3Jh"},
	"the same before a name":           {"10:00:00.123 WARN - name: DB_PASSWORD\n10:00:00.123 WARN   value: orange-horse\n10:00:01.000 WARN up\n", "orange"},
	"a key with times":                 {"up\n10:00:00 -----BEGIN EC PRIVATE KEY-----\n" + strings.Repeat("10:00:00 [main] "+keyWords, 3) + "panic: it ends\nno more\n", "MIIE"},
}

// TestLogOfAnyLength: wherever a log ends for now, what may be a secret is none of what is
// shown, and its lines stand where they stood.
func TestLogOfAnyLength(t *testing.T) {
	for name, c := range stretches {
		lines := strings.SplitAfter(strings.TrimSuffix(c.log, "\n"), "\n")
		whole, settled := masker().Log([]byte(c.log))
		if settled < len(lines)-2 || strings.Contains(string(whole), c.secret) {
			t.Errorf("%s: %d of %d lines are settled: %s", name, settled, len(lines), whole)
		}
		final := strings.SplitAfter(string(whole), "\n")
		for n := range lines {
			got, settled := masker().Log([]byte(strings.Join(lines[:n], "")))
			if strings.Contains(string(got), c.secret) || strings.Count(string(got), "\n") != n {
				t.Errorf("%s, %d lines: %s", name, n, got)
			}
			now := strings.SplitAfter(string(got), "\n")
			for i := range settled {
				if strings.Contains(final[i], tagOpen) != strings.Contains(now[i], tagOpen) {
					t.Errorf("%s: line %d was said to be settled as %q and became %q", name, i, now[i], final[i])
				}
			}
		}
	}
}

// TestLogIsKept: what is no secret is not masked for standing at the end.
func TestLogIsKept(t *testing.T) {
	for _, log := range []string{
		"data: {\"choices\":[{\"delta\":\"hello7890\"}]}\ndata: {\"choices\":[]}\n",
		"settings:\n  data:\n    dir: /var/lib/app\n",
		"apiVersion: v1\nkind: ConfigMap\ndata:\n  mode: production7\n",
		"apiVersion: v1\ndata:\n  mode: production7\nkind: ConfigMap\n",
		"pulled sha256:" + strings.Repeat("0123456789abcdef", 4) + "\n",
		"kind: Secret\ntype: Opaque\nstringData:\n# none\nException: x\n    at com.shop.Cart(Cart.java:7)\n    at b\n",
		"2026-11-20 10:00:00 INFO name: MODE\n2026-11-20 10:00:00 INFO value: production7\n",
		"Exception in thread main\n    at com.shop.Cart(Cart.java:7)\n    at com.shop.Main(Main.java:1)\n",
		"name: MODE\nvalue: production7\n", "no line break at the end", "", "\n", "\n\n", "a\r\nb\r\n",
	} {
		if got, _ := masker().Log([]byte(log)); string(got) != log {
			t.Errorf("%q became %q", log, got)
		}
	}
}

func FuzzLog(f *testing.F) {
	for _, c := range stretches {
		f.Add(c.log)
	}
	for _, text := range hostile(64) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, settled := masker().Log([]byte(s))
		if n := strings.Count(s, "\n"); strings.Count(string(got), "\n") < n || settled < 0 || settled > n+1 {
			t.Errorf("%q: %d settled of %q", s, settled, got)
		}
	})
}

func TestHostileLogsAreLinear(t *testing.T) {
	if testproc.Raced() {
		testproc.Rerun(t) // one goroutine has nothing to race with
		return
	}
	for unit, text := range hostile(256 << 10) {
		if got, _ := masker().Log([]byte(text)); len(got) == 0 {
			t.Errorf("of %q nothing is left", unit)
		}
	}
	for _, unit := range []string{"apiVersion: v1\ndata:\n", "apiVersion: v1\ndata:\n  a: b\n", " " + keyWords, "-----BEGIN PRIVATE KEY-----\nx\n", "value: a1b2c3d4\n"} {
		if got, _ := masker().Log([]byte(strings.Repeat(unit, (256<<10)/len(unit)))); len(got) == 0 {
			t.Errorf("of %q nothing is left", unit)
		}
	}
}

func BenchmarkLog(b *testing.B) {
	var log strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&log, "2026-01-02T03:04:05Z INFO shop/cart-7d4b9c6f5d-x2x7q request=GET /items/%d status=200 user=anna took=12ms\n", i)
	}
	m := masker()
	b.SetBytes(int64(log.Len()))
	for b.Loop() {
		m.Log([]byte(log.String()))
	}
}
