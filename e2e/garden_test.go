package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// A canary is a secret with a place of its own: wherever it turns up, it is known
// where it came from.
//
// Covered are the shapes that can be told to be secret: values that we hold, data
// of Secrets, packed releases, private keys, tokens of known shapes, and what stands
// behind a key, flag, variable or header whose name says so. A random word in free
// text, or under a harmless name, is nothing that anybody could tell.
type canary struct {
	where, value string
	// from says who knows it: the cluster, a sender, or we ourselves.
	from string
}

const inCluster, bySender, ourOwn = "cluster", "sender", "ours"

// garden is a real cluster with canaries in every place that secrets are found.
type garden struct {
	t        *testing.T
	kube     *kubetest.Server
	door     *door
	slack    *slackHook
	ns       string
	canaries []canary
	held     map[string]string
	pod      *corev1.Pod
}

func newGarden(t *testing.T) *garden {
	t.Helper()
	g := &garden{t: t, kube: kubetest.Isolated(t), slack: newSlackHook(t), held: map[string]string{}}
	g.ns, g.door = g.kube.Namespace(t), newDoor(t, g.kube.Kubeconfig)
	g.hold("cluster token", clusterCanary, clusterCanary)
	g.giveClientKey()
	for _, name := range []string{"MCP API key", "token of Alertmanager", "token of a webhook", "token of our MCP server"} {
		g.hold(name, secretWord(name), secretWord(name))
	}
	g.hold("model key", "sk-ant-api03-"+secretWord("model key"), secretWord("model key"))
	g.hold("Slack webhook", g.slack.URL+"/"+secretWord("Slack webhook"), secretWord("Slack webhook"))
	source, err := os.ReadFile("testdata/canaries/cluster.yaml")
	g.must(err)
	for doc := range strings.SplitSeq(string(source), "\n---\n") {
		g.apply(g.render(doc, inCluster))
	}
	g.crash()
	return g
}

func (g *garden) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// hold makes a value one of our own secrets; core is the part that must not show.
func (g *garden) hold(name, value, core string) {
	g.held[name] = value
	g.canaries = append(g.canaries, canary{name, core, ourOwn})
}

// giveClientKey puts a client's key into the kubeconfig of the door.
func (g *garden) giveClientKey() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.must(err)
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "canary"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	g.must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	g.must(err)
	block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	cfg, err := clientcmd.LoadFromFile(g.door.kubeconfig)
	g.must(err)
	cfg.AuthInfos["u"].ClientKeyData = block
	cfg.AuthInfos["u"].ClientCertificateData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	g.must(clientcmd.WriteToFile(*cfg, g.door.kubeconfig))
	g.hold("client key", strings.TrimSpace(string(block)), strings.Split(string(block), "\n")[2])
}

// secretWord makes a word that looks like a generated secret, the same each time.
func secretWord(where string) string {
	sum := sha256.Sum256([]byte(where))
	word := strings.NewReplacer("-", "x", "_", "Y").Replace(base64.RawURLEncoding.EncodeToString(sum[:]))
	return "c" + word[:21] + "7"
}

// render fills a template; what its functions make are canaries.
func (g *garden) render(text, from string) string {
	g.t.Helper()
	plant := func(where, value string) string {
		g.canaries = append(g.canaries, canary{where, value, from})
		return value
	}
	keyLines := func(where string) []string {
		lines := []string{"-----BEGIN RSA PRIVATE KEY-----"}
		for i := range 12 {
			sum := sha256.Sum256(fmt.Append(nil, where, i))
			line := base64.RawStdEncoding.EncodeToString(append(sum[:], sum[:16]...))
			lines = append(lines, plant(fmt.Sprintf("%s, line %d", where, i), line))
		}
		return append(lines, "-----END RSA PRIVATE KEY-----")
	}
	tmpl, err := template.New("").Funcs(template.FuncMap{
		"ns":    func() string { return g.ns },
		"now":   func() string { return time.Now().UTC().Format(time.RFC3339) },
		"word":  func(where string) string { return plant(where, secretWord(where)) },
		"human": func(where string) string { return plant(where, "Lantern-"+secretWord(where)[1:7]+"!") },
		"shaped": func(where, prefix string, n int) string {
			word := strings.Repeat(secretWord(where), 2)[:n]
			if prefix == "AKIA" {
				word = strings.ToUpper(word)
			}
			return prefix + plant(where, word)
		},
		"jwt": func(where string) string {
			return "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjYXJ0LWNhbmFyeSJ9." + plant(where, secretWord(where)+secretWord(where))
		},
		"pem": func(where string, indent int) string {
			pad := strings.Repeat(" ", indent)
			return pad + strings.Join(keyLines(where), "\n"+pad)
		},
		"pem1": func(where string) string { return strings.Join(keyLines(where), "\\n") },
		"helm": func(where string) string { return g.release(where, plant(where, secretWord(where))) },
		"b64":  func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"hex":  func(s string) string { return hex.EncodeToString([]byte(s)) },
		"held": func(name string) (string, error) {
			if g.held[name] == "" {
				return "", fmt.Errorf("nobody holds %q", name)
			}
			return g.held[name], nil
		},
		"uid": func(object string) string {
			return g.kubectl("get", object, "-n", g.ns, "-o", "jsonpath={.metadata.uid}")
		},
		"stolen": func() string { return g.door.kubeconfig },
	}).Parse(text)
	g.must(err)
	var out strings.Builder
	g.must(tmpl.Execute(&out, nil))
	return out.String()
}

// release is a Helm release as the Secret's or ConfigMap's field holds it.
func (g *garden) release(where, secret string) string {
	raw, err := json.Marshal(map[string]any{"name": "cart", "version": 1, "config": map[string]any{"db": map[string]string{"password": secret}}})
	g.must(err)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(raw)
	g.must(err)
	g.must(w.Close())
	text := base64.StdEncoding.EncodeToString(packed.Bytes())
	if strings.Contains(where, "Secret") {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return text
}

// kubectl is the administrator's.
func (g *garden) kubectl(args ...string) string {
	g.t.Helper()
	out, err := g.command("", args...)
	if err != nil {
		g.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return out
}

func (g *garden) command(stdin string, args ...string) (string, error) {
	cmd := exec.Command(kubetest.Kubectl(g.t), append([]string{"--kubeconfig", g.kube.Kubeconfig}, args...)...)
	cmd.Stdin, cmd.Env = strings.NewReader(stdin), []string{"HOME=" + g.t.TempDir()}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// apply waits for a kind that was made a moment ago.
func (g *garden) apply(doc string) {
	g.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := g.command(doc, "apply", "-f", "-")
		if err == nil {
			return
		}
		if !strings.Contains(out, "no matches for kind") || time.Now().After(end) {
			g.t.Fatalf("apply: %s\n%s", out, doc)
		}
	}
}

// crash gives the Pod its logs and the status of one that crashes.
func (g *garden) crash() {
	g.t.Helper()
	u, err := g.kube.Client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(g.ns).Get(g.t.Context(), "cart-7d4b9c8f6d-x2k9q", metav1.GetOptions{})
	g.must(err)
	g.pod = new(corev1.Pod)
	g.must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, g.pod))
	for _, previous := range []bool{false, true} {
		text, err := os.ReadFile("testdata/canaries/" + map[bool]string{true: "previous.log", false: "current.log"}[previous])
		g.must(err)
		g.kube.SetLogs(g.pod, previous, g.render(string(text), inCluster))
	}
	g.kube.CrashLoop(g.t, g.pod, 7, 4)
	g.pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message =
		g.render(`connect: postgres://cart:{{word "termination message"}}@db/cart {{held "cluster token"}}`, inCluster)
	g.kube.UpdateStatus(g.t, g.pod)
}

// readable fails unless an administrator reads every canary of the cluster.
func (g *garden) readable() {
	g.t.Helper()
	kinds := strings.Join(strings.Fields(g.kubectl("api-resources", "--verbs=list", "-o", "name")), ",")
	all := g.kubectl("get", kinds, "-n", g.ns, "-o", "json")
	for _, previous := range []string{"--previous=true", "--previous=false"} {
		all += g.kubectl("logs", g.pod.Name, "-n", g.ns, "-c", "app", previous)
	}
	for _, release := range []string{"secret/sh.helm.release.v1.cart.v1", "configmap/cart.v1"} {
		text := []byte(g.kubectl("get", release, "-n", g.ns, "-o", "jsonpath={.data.release}"))
		for !bytes.HasPrefix(text, []byte("\x1f\x8b")) {
			var err error
			text, err = base64.StdEncoding.DecodeString(string(text))
			g.must(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(text))
		g.must(err)
		values, err := io.ReadAll(r)
		g.must(err)
		all += string(values)
	}
	for _, c := range g.canaries {
		if c.from == inCluster && !slices.ContainsFunc(traces(c.value), func(s string) bool { return strings.Contains(all, s) }) {
			g.t.Errorf("not even an administrator reads the canary in %q", c.where)
		}
	}
}

// traces are the forms in which a value would be recognised.
func traces(value string) []string {
	quoted, _ := json.Marshal(value) // a string always marshals
	list := []string{value, url.QueryEscape(value), url.PathEscape(value), hex.EncodeToString([]byte(value)), string(quoted[1 : len(quoted)-1])}
	for pad := range 3 {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString([]byte(strings.Repeat("\x00", pad) + value))
			list = append(list, text[[]int{0, 2, 3}[pad]:(pad+len(value))*8/6])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// sieve finds traces of canaries in one pass: by their first two bytes, of which few occur,
// by how they begin, then whole.
type sieve struct {
	pairs  [1 << 16]bool
	traces map[[sieveWidth]byte][]trace
}

// sieveWidth is how long every trace is at least.
const sieveWidth = 8

// trace is a form of a canary's value.
type trace struct{ where, text string }

func sieveOf(canaries []canary) *sieve {
	s := &sieve{traces: map[[sieveWidth]byte][]trace{}}
	for _, c := range canaries {
		for _, text := range traces(c.value) {
			begin := [sieveWidth]byte([]byte(text))
			s.pairs[pair(begin[0], begin[1])] = true
			if t := (trace{c.where, text}); !slices.Contains(s.traces[begin], t) {
				s.traces[begin] = append(s.traces[begin], t)
			}
		}
	}
	return s
}

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// in returns where each canary that is found has its first trace.
func (s *sieve) in(data []byte) map[string]int {
	found := map[string]int{}
	for at := 0; at+sieveWidth <= len(data); at++ {
		if !s.pairs[pair(data[at], data[at+1])] {
			continue
		}
		for _, t := range s.traces[[sieveWidth]byte(data[at:])] {
			if _, before := found[t.where]; !before && strings.HasPrefix(string(data[at:min(len(data), at+len(t.text))]), t.text) {
				found[t.where] = at
			}
		}
	}
	return found
}

// below returns where in the files below dir each canary stands, packed or not, and how
// many were looked at.
func (s *sieve) below(dir string) (found map[string][]string, files int, err error) {
	found = map[string][]string{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := unpacked(path)
		if err != nil {
			return err
		}
		files++
		rel, _ := filepath.Rel(dir, path)
		for where, at := range s.in(data) {
			found[where] = append(found[where], fmt.Sprintf("%s: …%q…", rel, data[max(0, at-70):min(len(data), at+80)]))
		}
		return nil
	})
	return found, files, err
}

// What a sieve does not find nobody finds.
func TestSieve(t *testing.T) {
	t.Parallel()
	all := []canary{{where: "one", value: secretWord("one")}, {where: "two", value: "Lantern-abc123!"}}
	s := sieveOf(all)
	for _, c := range all {
		for _, form := range traces(c.value) {
			for _, text := range []string{form, "before " + form + " behind", strings.Repeat(form[:len(form)-1], 2) + form} {
				if got := s.in([]byte(text)); len(got) != 1 || !strings.HasPrefix(text[got[c.where]:], form) {
					t.Errorf("%s in %q: %v", c.where, text, got)
				}
			}
			if got := s.in([]byte(form[:len(form)-1])); len(got) > 0 {
				t.Errorf("%q is taken for %v", form[:len(form)-1], got)
			}
		}
	}
}

// scan fails for every canary in a file below dir.
func (g *garden) scan(dir string) {
	g.t.Helper()
	found, files, err := sieveOf(g.canaries).below(dir)
	g.must(err)
	for where, in := range found {
		g.t.Errorf("the canary in %q stands in %d of %d files:\n\t%s", where, len(in), files, strings.Join(in[:min(len(in), 4)], "\n\t"))
	}
	if files < 10 {
		g.t.Errorf("only %d files were looked at", files)
	}
}
