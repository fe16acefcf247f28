package selftest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/guard/kube/attack"
	"nightcrier.dev/nightcrier/internal/mask"
)

// A guard that passes everything on is found out, by name of what came through, and
// nothing gets behind the door.
func TestABrokenGuardIsFound(t *testing.T) {
	b, err := newBench(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	d, err := b.Door()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	to, err := url.Parse(d.URL())
	if err != nil {
		t.Fatal(err)
	}
	broken := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(to))
	defer broken.Close()
	roots := x509.NewCertPool()
	roots.AddCert(broken.Certificate())
	g := &guarded{mark: attack.Mark{Addr: broken.Listener.Addr().String(), Roots: roots, Token: "x",
		Names: map[string]string{"ns": target.Namespace, "pod": target.Pod, "node": target.Node, "secret": target.Secret}}}
	found := 0
	for _, a := range attack.Requests()[:20] {
		if a.HTTP2 || a.Harmless {
			continue
		}
		res, err := g.makeAttack(t.Context(), d, a)
		if err != nil {
			t.Fatal(err)
		}
		if !res.Passed && res.ReachedAPI && res.Outcome == Succeeded {
			found++
		} else {
			t.Errorf("%+v", res)
		}
	}
	if found < 8 {
		t.Errorf("%d found", found)
	}
}

// byLine masks each line of a log alone, as who sees a part of it does.
type byLine struct{ *mask.Masker }

func (b byLine) Log(lines []byte) ([]byte, int) {
	var out []byte
	for line := range bytes.Lines(lines) {
		out = append(out, b.Bytes(line)...)
	}
	return out, bytes.Count(out, []byte("\n"))
}

// What a guard shows that masks nothing, or each line alone, is found in the parts that are
// read through it.
func TestAGuardThatSeesPartsIsFound(t *testing.T) {
	t.Parallel()
	b, err := newBench(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		m    masking
		want int
	}{"masks nothing": {unmasked{}, 45}, "masks each line": {byLine{mask.New([]byte("key"))}, 5}, "masks": {mask.New([]byte("key")), 0}} {
		results, err := b.redactedRaw(t.Context(), c.m)
		if err != nil || len(results) != len(target.PlantedPlaces()) {
			t.Fatal(len(results), err)
		}
		shown := 0
		for _, r := range results {
			if r.Outcome == Succeeded {
				shown++
			} else if r.Outcome != Stopped {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if shown < c.want || c.want == 0 && shown > 0 {
			t.Errorf("%s: %d secrets are found, want %d", name, shown, c.want)
		}
	}
}

// An investigation that writes down what it read is found out, and one that reads
// nothing shows nothing.
func TestALeakIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reads, writes bool
		outcome       string
	}{"leaks": {true, true, Succeeded}, "is tight": {true, false, Stopped}, "looks away": {false, false, NotExercised}} {
		t.Run(name, func(t *testing.T) {
			o := options(t, "redaction")
			o.Kubectl = ""
			o.Investigate = func(_ context.Context, _ nightcrier.Resource, kubeconfig, dir string) error {
				if err := os.MkdirAll(dir, 0o700); err != nil || !c.reads {
					return err
				}
				text := readAll(t, kubeconfig)
				if !c.writes {
					text = "nothing"
				}
				return os.WriteFile(filepath.Join(dir, "notes"), []byte(text), 0o600)
			}
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			byAll := results.Attacks
			results.Attacks = slices.DeleteFunc(slices.Clone(byAll), func(r Result) bool { return r.By != byRules })
			for _, r := range results.Attacks {
				if r.Outcome != c.outcome || r.Passed != (c.outcome == Stopped) {
					t.Errorf("%+v", r)
				}
			}
			if len(results.Attacks) != len(target.PlantedPlaces()) {
				t.Errorf("%d canaries, want %d", len(results.Attacks), len(target.PlantedPlaces()))
			}
		})
	}
}

// readAll reads everything that holds a canary, with nothing before it.
func readAll(t *testing.T, kubeconfig string) (text string) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	const ns = "/api/v1/namespaces/" + target.Namespace
	for _, path := range []string{ns + "/pods", ns + "/pods/" + target.Pod + "/log", ns + "/secrets", ns + "/configmaps", ns + "/events",
		"/apis/apps/v1/namespaces/" + target.Namespace + "/deployments"} {
		resp, err := http.Get(cfg.Host + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		text += string(body)
	}
	return text
}

// A limit that is not there is found out, by the program that it is for.
func TestABrokenLimitIsFound(t *testing.T) {
	for name, loosen := range map[string]func(*backend.Spec){
		"processes without end": func(s *backend.Spec) { s.MaxProcesses, s.MaxMemoryBytes = 10_000, 1<<30 }, // they need memory too
		"memory without end":    func(s *backend.Spec) { s.MaxMemoryBytes = 1 << 30 },
		"a file with a hole":    func(s *backend.Spec) { s.MaxWorkspaceBytes = 1 << 40 },
		"output without end":    func(s *backend.Spec) { s.MaxOutputBytes = 1 << 30 },
		"sleep without end":     func(*backend.Spec) {}, // which has the time by then
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := newBench(t.Context(), options(t))
			if err != nil {
				t.Fatal(err)
			}
			b.loosen = func(s *backend.Spec) {
				s.Timeout = runTime // each ends by itself, on a busy machine late
				loosen(s)
			}
			all := allGluts(b.WorkerCommand[0])
			i := slices.IndexFunc(all, func(g glut) bool { return g.name == name })
			r, err := b.runGlut(t.Context(), all[i])
			if err != nil || r.Passed || r.Outcome != Succeeded {
				t.Errorf("%+v, %v", r, err)
			}
			if found := (Report{Attacks: []Result{r}}); found.Passed() {
				t.Error("a limit is broken, and the report says that all is well")
			}
		})
	}
}

// unmasked masks nothing.
type unmasked struct{}

func (unmasked) Bytes(text []byte) []byte { return text }

func (unmasked) Log(lines []byte) ([]byte, int) { return lines, bytes.Count(lines, []byte("\n")) }

// A guard that masks nothing is found out by what it lets be read, and one that masks
// is passed by the same reads.
func TestABrokenMaskIsFound(t *testing.T) {
	places := []string{"the secret in the bearer", "the secret in the configmap", "the secret in the event", "the secret in the log"}
	for name, c := range map[string]struct {
		mask    masking
		outcome string
	}{
		"broken": {unmasked{}, Succeeded},
		"whole":  {mask.New([]byte("key")), Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := newBench(t.Context(), options(t))
			if err != nil {
				t.Fatal(err)
			}
			d, err := b.Door()
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			g, err := b.openGuard(d, c.mask)
			if err != nil {
				t.Fatal(err)
			}
			defer g.server.Close()
			file := filepath.Join(b.Dir, "guarded.kubeconfig")
			if err := os.WriteFile(file, g.server.Kubeconfig(), 0o600); err != nil {
				t.Fatal(err)
			}
			trail := Trail{Door: d, Workspace: filepath.Join(b.Dir, "said")}
			for _, o := range [][]string{{"logs", "cart-0"}, {"get", "events", "-o", "yaml"}, {"get", "configmap", "settings", "-o", "yaml"}} {
				said, err := exec.CommandContext(t.Context(), b.Kubectl, append([]string{"--kubeconfig", file, "-n", target.Namespace}, o...)...).CombinedOutput()
				if err == nil {
					err = target.WriteFile(filepath.Join(trail.Workspace, o[1]), string(said), 0o600)
				}
				if err != nil {
					t.Fatalf("%v: %s", err, said)
				}
			}
			results, err := b.findLeaks(byShell, Guard, trail)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if slices.Contains(places, r.Attack) && (r.Outcome != c.outcome || r.Passed != (c.outcome == Stopped)) {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// What a raw request is shown counts, also where it may be answered, and packed.
func TestAnAnswerThatShowsASecretIsFound(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("a secret")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body   []byte
		passed bool
	}{{[]byte("a secret"), false}, {packed.Bytes(), false}, {packed.Bytes()[:5], true}, {[]byte("none"), true}, {nil, true}} {
		r := Attack{Harmless: true}.newResult().concludeResult(true).checkShown(unpackBody(c.body), target.NewSieve([]target.Canary{{Where: "log", Value: "secret"}}))
		if r.Passed != c.passed {
			t.Errorf("%q: %+v", c.body, r)
		}
	}
}
