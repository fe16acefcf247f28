package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"nightcrier.dev/nightcrier"
)

// What was masked by its name is masked wherever it stands from then on, in whatever form,
// and always by the same tag.
func TestAMaskedValueIsLearned(t *testing.T) {
	for name, text := range map[string]string{
		"by its name":           "DB_PASSWORD=Hx7q9zK2",
		"in JSON":               `{"password":"Hx7q9zK2"}`,
		"in a URL":              "redis://:Hx7q9zK2@db:6379",
		"a variable":            `[{"name":"DB_PASSWORD","value":"Hx7q9zK2"}]`,
		"an object":             `{"kind":"Secret","data":{"a":"SHg3cTl6SzI="}}`,
		"an object in YAML":     "kind: Secret\nstringData:\n  a: Hx7q9zK2\n",
		"in base64 by its name": "password: SHg3cTl6SzI=",
		"in basic":              "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("app:Hx7q9zK2")),
	} {
		t.Run(name, func(t *testing.T) {
			const v = "Hx7q9zK2"
			m := masker().Learning()
			if got := m.String("before: " + v); got != "before: "+v {
				t.Fatalf("masked before it was learned: %q", got)
			}
			m.String(text)
			for form, text := range forms(v) {
				if got := m.String(text); !strings.Contains(got, m.Tag(v)) {
					t.Errorf("%s: %q became %q, without %s", form, text, got, m.Tag(v))
				}
			}
		})
	}
	const signs = "Hx7\"q/9&z%K"
	m := masker().Learning()
	raw, err := json.Marshal(map[string]string{"password": signs})
	if err != nil {
		t.Fatal(err)
	}
	m.String(string(raw))
	for form, text := range forms(signs) {
		if got := m.String(text); !strings.Contains(got, m.Tag(signs)) {
			t.Errorf("%s: %q became %q", form, text, got)
		}
	}
}

// forms are texts in which a value stands in each way.
func forms(v string) map[string]string {
	quoted, _ := json.Marshal("x " + v)
	twice, _ := json.Marshal(string(quoted))
	return map[string]string{
		"plain":                 "connecting with " + v + " now",
		"within a word":         "x" + v + "y",
		"JSON":                  string(quoted),
		"JSON in JSON":          string(twice),
		"query":                 "GET /?x=" + url.QueryEscape(v),
		"path":                  "GET /" + url.PathEscape(v) + "/x",
		"hex":                   "dump " + hex.EncodeToString([]byte(v)),
		"HEX":                   "dump " + strings.ToUpper(hex.EncodeToString([]byte(v))),
		"base64":                base64.StdEncoding.EncodeToString([]byte(v)),
		"base64 without =":      base64.RawStdEncoding.EncodeToString([]byte(v)),
		"base64 of URLs":        base64.URLEncoding.EncodeToString([]byte(v)),
		"base64 of more":        base64.StdEncoding.EncodeToString([]byte("as: " + v + " it is")),
		"base64 of more, by 1":  base64.StdEncoding.EncodeToString([]byte("was: " + v + " it is")),
		"base64 of more, by 2":  base64.StdEncoding.EncodeToString([]byte("wais: " + v + " it is")),
		"base64 of URLs, by 2":  base64.RawURLEncoding.EncodeToString([]byte("wais: " + v + " it is")),
		"before its own name":   v + " is it: password=" + v,
		"behind an ANSI colour": "\x1b[31m" + v + "\x1b[0m",
	}
}

// Words, names, numbers and addresses are not learned: whoever writes `password: nginx`
// somewhere would have nginx vanish everywhere.
func TestWordsAndNamesAreNotLearned(t *testing.T) {
	for _, v := range []string{
		"nginx", "default", "postgres", "admin", "changeme", "swordfish", "production", "true", "12345678", "kube-system", "payments-service", "ImagePullBackOff", "CrashLoopBackOff",
		"OOMKilled137", "password123", "exit-code-137", "cart-v2", "v1.27.3", "nginx:1.25.3", "10.0.0.12:5432", "TLSv1.2", "HTTP/1.1", "2026-11-20T10:00:00Z", "2026-11-20", "https://example.com/a1b2c3d4",
		"/var/lib/a1b2c3d4", "web-0", "node-pool-1", "16384Mi", "ip-10-0-0-12.ec2.internal", "Back-off 5m0s restarting", "short1A",
		"app=cart-v1", "cpu=100m", "code=DeadlineExceeded", "error(503)", "Reason:OOMKilled(137)", "exit:137(OOM)", "x509:unknown-authority(1)",
		"k8s-prod-v2", "cart-7d4b9c6f5d-x2x7q", "builder-token-x7k2p", "pvc-0191c1e2-7b3a-7c11-9a9b-0123456789ab", "gke-prod-pool-1-3f2a9c81-x7kq", "aks-nodepool1-12345678-vmss000001", "db-2f9a1b2c",
		"v1.31.2+k3s1", "v1.29.3-gke.1282000", "1.25.3-alpine3.18", "5.15.0-1057-aws", "4.18.0-372.9.1.el8.x86_64", "2.0.0-beta+exp.sha.5114f85",
		"nginx:1.25.3-alpine3.18", "registry.example/shop/cart:1.4.2-3f2a9c81", "registry.example:5000/k8s-tools/s3-sync2:v1.2.3-rc.1", "shop/cart@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0", "k8s.gcr.io/etcd:3.5.9-0",
		"networking.k8s.io/v1", "rbac.authorization.k8s.io/v1beta1", "flowcontrol.apiserver.k8s.io/v1beta3",
	} {
		m := masker().Learning()
		m.String("DB_PASSWORD='" + v + "'")
		m.String(`{"password":"` + v + `"}`)
		text := "the pod " + v + " is there"
		if got := m.String(text); got != text {
			t.Errorf("%q was learned: %q", v, got)
		}
	}
}

// What only begins as a name, a version or an image is learned.
func TestMixedValuesAreLearned(t *testing.T) {
	for _, v := range []string{
		"hunter2-Zx81", "s3cr3t-pa55w0rd", "a1b2-c3d4-e5f6", "1.2-Hx7q9zK2", "v1.2a3b4c5d", "app:Hx7q9zK2", "x/y7K2m9Qz", "Cart-7d4b9c6f5d-x2x7q", "cart--7d4b9c6f5d1z0y",
		"0191c1e2-7b3a-7c11-9a9b-0123456789ab", "Tr0ub4dor&3",
	} {
		m := masker().Learning()
		m.String("DB_PASSWORD='" + v + "'")
		if got := m.String("it is " + v); got != "it is "+m.Tag(v) {
			t.Errorf("%q was not learned: %q", v, got)
		}
	}
}

// A value that an object bears as its name is none to hide, whether it is seen before it
// is planted or after, and whatever it looks like.
func TestNamesOfObjectsAreNotLearned(t *testing.T) {
	const pod = "Cart-7d4b9c6f5d-x2x7q"
	list := `{"items":[{"metadata":{"name":"` + pod + `","uid":"0191c1e2-7b3a-7c11-9a9b-0123456789ab"},"status":{"containerStatuses":[{"imageID":"r.example/cart@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"}]}}]}`
	for _, v := range []string{pod, "0191c1e2-7b3a-7c11-9a9b-0123456789ab", "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"} {
		planted, text := `{"password":"`+v+`"}`, "about "+v+" it says"
		m := masker().Learning()
		m.String(list)
		m.String(planted)
		if got := m.String(text); got != text && !strings.Contains(list, "@sha256:"+v) {
			t.Errorf("seen before: %q", got)
		}
		m = masker().Learning()
		m.String(planted)
		if got := m.String(text); got == text {
			t.Errorf("%q is not learned at all", v)
		}
		if got := m.String(list); got != list {
			t.Errorf("the list became %s", got)
		}
		m.String(planted)
		if got := m.String(text); got != text {
			t.Errorf("seen behind: %q", got)
		}
	}
	m := masker().Learning("Shop-7d4b9c6f5d")
	m.String("password=Shop-7d4b9c6f5d")
	if got := m.String("in Shop-7d4b9c6f5d"); got != "in Shop-7d4b9c6f5d" {
		t.Errorf("a name that was given is masked: %q", got)
	}
	m = masker().Learning()
	m.String(`{"password":"Hx7q9zK2"}`)
	if got := m.String(`{"image":"https://u:Hx7q9zK2@r.example/x"}`); strings.Contains(got, "Hx7q9zK2") || strings.Contains(m.String("Hx7q9zK2"), "Hx7") {
		t.Errorf("the password of a URL was taken for a name: %q", got)
	}
}

// What one process learned another one knows, and nobody reads it from a disk.
func TestWhatIsLearnedIsHandedOver(t *testing.T) {
	a := masker().Learning()
	a.String(`{"password":"Hx7q9zK2"}`)
	box, err := a.Seal()
	if err != nil || strings.Contains(string(box), "Hx7q9zK2") {
		t.Fatalf("%q, %v", box, err)
	}
	b := masker().Learning()
	if err := b.Unseal(box); err != nil {
		t.Fatal(err)
	}
	if got := b.String("it is Hx7q9zK2"); got != "it is "+a.Tag("Hx7q9zK2") {
		t.Errorf("%q", got)
	}
	c := New([]byte("another key")).Learning()
	for name, box := range map[string][]byte{"another key": box, "half": box[:len(box)/2], "some": box[:3]} {
		if err := c.Unseal(box); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := masker().Unseal(nil); err != nil {
		t.Error(err)
	}
}

// Any number of values may be planted. What is remembered has a bound, and beyond it is
// counted; the text is still walked in one go.
func TestMemoryIsBounded(t *testing.T) {
	m := masker().Learning()
	var text strings.Builder
	for n := range 100_000 {
		fmt.Fprintf(&text, "password=Hx7q9zK2-%d\n", n)
	}
	m.String(text.String())
	if m.Missed() != 100_000-maxLearned {
		t.Errorf("%d missed", m.Missed())
	}
	if got := m.String("Hx7q9zK2-17"); strings.Contains(got, "Hx7") {
		t.Errorf("forgotten: %q", got)
	}
	if got := m.String(strings.Repeat("Hx7q9zK2-", 1<<17)); len(got) != 9<<17 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestLearningIsSafeForConcurrentUse(t *testing.T) {
	m := masker().Learning()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 50 {
				m.String(fmt.Sprintf(`{"password":"Hx7q9zK2%d-%d"}`, n, i))
				m.String(fmt.Sprintf(`{"name":"Hx7q9zK2%d-%d"}`, n, i/2))
				_, _ = m.Seal()
			}
		})
	}
	wg.Wait()
	if got := m.String("Hx7q9zK20-49"); strings.Contains(got, "Hx7") {
		t.Errorf("%q", got)
	}
}

// BenchmarkLearned is BenchmarkString for a run that has learned as much as it can.
func BenchmarkLearned(b *testing.B) {
	m := masker("sk-live-value-known").Learning()
	var plant strings.Builder
	for n := range maxLearned {
		fmt.Fprintf(&plant, "password=%x\n", fmt.Sprintf("%d-%d", n*n, n))
	}
	m.String(plant.String())
	text := strings.Repeat(benchmarkText, 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.String(text)
	}
}
