package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// quietOptions are those of a server that reaches clusters as they are configured.
func quietOptions() Options {
	o := Options{Logger: slog.New(slog.DiscardHandler)}
	o.setDefaults()
	return o
}

// cluster answers every question about its credential with rules.
func cluster(t *testing.T, rules string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"gitVersion":"v1.36.0","status":{"resourceRules":[`+rules+`]}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func writeKubeconfig(t *testing.T, path, server string, at time.Time) {
	t.Helper()
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\nusers: [{name: u, user: {token: tok-" + filepath.Base(server) + "}}]\n" +
		"clusters: [{name: a, cluster: {server: '" + server + "'}}]\ncontexts: [{name: a, context: {cluster: a, user: u}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestARenewedKubeconfig: a running server takes the new file, and asks anew
// what it may do before an agent gets access with it.
func TestARenewedKubeconfig(t *testing.T) {
	reads := cluster(t, `{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}`)
	writes := cluster(t, `{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`)
	path, day := filepath.Join(t.TempDir(), "kubeconfig"), time.Now().Add(-time.Hour)
	c := newClusters([]config.Cluster{{Name: "prod", Kubeconfig: path}},
		quietOptions(), mask.New(nil), true)
	access := func(want bool, token string) {
		t.Helper()
		cred, why := c.Access(t.Context(), "prod", "shop")
		if (cred != nil) != want || cred != nil && !strings.Contains(string(cred.Kubeconfig), token) {
			t.Fatalf("access %v (%s), want %v with %s", cred != nil, why, want, token)
		}
	}
	access(false, "")
	writeKubeconfig(t, path, reads, day)
	access(true, "tok-")
	writeKubeconfig(t, path, writes, day.Add(time.Minute))
	access(false, "")
	if a := c.gate.Access("prod"); a.ReadOnly != "no" {
		t.Errorf("%+v", a)
	}
	writeKubeconfig(t, path, reads, day.Add(2*time.Minute))
	access(true, filepath.Base(reads))
	for said, hidden := range map[string]bool{"tok-" + filepath.Base(reads): true, "tok-" + filepath.Base(writes): false} {
		for _, of := range []string{"prod", ""} {
			if got := c.Mask(of, "with "+said); (got != "with "+said) != hidden {
				t.Errorf("%q of %q became %q", said, of, got)
			}
		}
	}
	first, err := c.connect("prod")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if again, err := c.connect("prod"); err != nil || again.Client != first.Client {
		t.Errorf("a file that is gone for a moment: %v", err)
	}
}

// TestTheGateAsksAsTheGuardWould: a plugin that tells another identity where the
// environment is another one does not get its agents past the gate; nor does a
// kubeconfig that is written anew while the gate asks.
func TestTheGateAsksAsTheGuardWould(t *testing.T) {
	const rule = `{"verbs":["%s"],"apiGroups":["*"],"resources":["*"]}`
	var during func()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verbs := "*"
		if strings.HasSuffix(r.Header.Get("Authorization"), " reader") {
			verbs = "get"
		}
		if during != nil {
			during()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"gitVersion":"v1.36.0","status":{"resourceRules":[`+rule+`]}}`, verbs)
	}))
	t.Cleanup(server.Close)
	dir, day := t.TempDir(), time.Now().Add(-time.Hour)
	write := func(name, user string, at time.Time) {
		t.Helper()
		text := "apiVersion: v1\nkind: Config\ncurrent-context: a\nusers: [{name: u, user: " + user + "}]\n" +
			"clusters: [{name: a, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: a, context: {cluster: a, user: u}}]\n"
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Error(err)
		}
	}
	plugin := filepath.Join(dir, "plugin")
	script := "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"'${IDENTITY:-admin}'\"}}'\n"
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("IDENTITY", "reader") // which guards' plugins are not given
	write("plugged", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: "+plugin+", interactiveMode: Never}}", day)
	write("swapped", "{token: reader}", day)
	c := newClusters([]config.Cluster{{Name: "plugged", Kubeconfig: filepath.Join(dir, "plugged")}, {Name: "swapped", Kubeconfig: filepath.Join(dir, "swapped")}},
		quietOptions(), mask.New(nil), true)
	if cred, _ := c.Access(t.Context(), "plugged", "shop"); cred != nil {
		t.Error("an agent got a credential that is not the one that was asked about")
	}
	var once sync.Once
	during = func() { once.Do(func() { write("swapped", "{token: writer}", day.Add(time.Minute)) }) }
	if cred, why := c.Access(t.Context(), "swapped", "shop"); cred != nil {
		t.Errorf("an agent got a credential that nobody asked about: %s %s", cred.Kubeconfig, why)
	}
}

// TestNamespacesBoundAllReaders: what prepares an investigation, and the guard of
// its agent, do not even ask the cluster for another namespace, whatever the
// credential is good for.
func TestNamespacesBoundAllReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, path, cluster(t, `{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}`), time.Now())
	c := newClusters([]config.Cluster{{Name: "prod", Kubeconfig: path, Namespaces: []string{"shop", "bank"}}},
		quietOptions(), mask.New(nil), true)
	cred, why := c.Access(t.Context(), "prod", "shop")
	if cred == nil || !slices.Equal(cred.Namespaces, []string{"shop", "bank"}) {
		t.Errorf("%+v, %s", cred, why)
	}
	allowed := map[string]bool{}
	reader := c.reader("prod", c.mask.Learning(), func(_ context.Context, r journal.Request) error {
		allowed[r.Namespace] = r.Decision == "allow"
		return nil
	})
	for ns, want := range map[string]bool{"shop": true, "bank": true, "kube-system": false, "": false} {
		_, err := reader.List(t.Context(), "Pod", ns, "", "", 1)
		if allowed[ns] != want || !want && nightcrier.CodeOf(err) != nightcrier.Refused {
			t.Errorf("in %q: %v, %v", ns, allowed[ns], err)
		}
	}
	if _, err := reader.List(t.Context(), "Node", "", "", "", 1); !allowed[""] {
		t.Errorf("nodes: %v", err)
	}
}

// Beside the guard nothing is read but Helm's own Secrets, and those only in the
// namespaces that a cluster is bound to; what is refused is not even asked.
func TestOnlyReleasesAreReadBesideTheGuard(t *testing.T) {
	g := guarded{namespaces: []string{"shop"}, audit: func(_ context.Context, r journal.Request) error {
		t.Errorf("asked for %s/%s", r.Namespace, r.Name)
		return nil
	}}
	for _, secret := range [][2]string{{"shop", "db-password"}, {"bank", "sh.helm.release.v1.bank.v1"}} {
		if _, err := g.Release(t.Context(), secret[0], secret[1]); nightcrier.CodeOf(err) != nightcrier.Refused {
			t.Errorf("%s: %v", secret, err)
		}
	}
}
