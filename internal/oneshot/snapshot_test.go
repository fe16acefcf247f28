package oneshot_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/oneshot"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// recorded is a namespace with a crashing Pod and a Secret, recorded and opened
// again.
func recorded(t *testing.T, kubeconfig func(*kubetest.Server) string) (*snapshot.Snapshot, string) {
	t.Helper()
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	_, rs := s.Deployment(t, ns, "cart")
	pod := s.Pod(t, ns, "cart-1", rs)
	s.CrashLoop(t, pod, 1, 4)
	s.SetLogs(pod, false, "starting\nfatal: password=hunter2-canary refused\n")
	s.SetLogs(pod, true, "starting\nfatal: before\n")
	s.Warn(t, pod, "BackOff", "Back-off restarting failed container app")
	s.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: ns}, Data: map[string][]byte{"pw": []byte("secret-canary")}})
	s.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "conf", Namespace: ns}, Data: map[string]string{"mode": "fast"}})
	snap, err := oneshot.Record(t.Context(), oneshot.RecordOptions{
		Kubeconfig: kubeconfig(s), Environ: os.Environ(), Cluster: "prod", Namespaces: []string{ns}, Logger: slog.New(slog.DiscardHandler),
		Progress: func(line string) { t.Log(line) }, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "snap")
	if err := snap.Save(dir, false); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			raw, _ := os.ReadFile(path)
			all.Write(raw)
		}
		return err
	})
	for _, canary := range []string{"secret-canary", "c2VjcmV0LWNhbmFye", "hunter2-canary", "fieldsV1"} {
		if strings.Contains(all.String(), canary) {
			t.Errorf("%s was recorded", canary)
		}
	}
	again, err := snapshot.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return again, ns
}

func admin(s *kubetest.Server) string { return s.Kubeconfig }

// kubectl runs kubectl against a served snapshot.
func kubectl(t *testing.T, kubeconfig string) func(args ...string) string {
	bin := kubetest.Kubectl(t)
	home := t.TempDir()
	return func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, bin, args...)
		cmd.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + home}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "FAILED: " + string(out)
		}
		return string(out)
	}
}

// The real kubectl reads a snapshot as it reads a cluster, and changes nothing.
func TestKubectlOnASnapshot(t *testing.T) {
	t.Parallel()
	snap, ns := recorded(t, admin)
	server, err := oneshot.ServeSnapshot(snap.Shift(time.Now()), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	if info, err := os.Stat(server.Kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig is %v, %v", info, err)
	}
	run := kubectl(t, server.Kubeconfig)
	for _, c := range []struct {
		args string
		want []string
	}{
		{"get pods", []string{"NAME", "READY", "STATUS", "RESTARTS", "cart-1", "0/1", "CrashLoopBackOff", "4 ("}},
		{"get po -o wide", []string{"NODE", kubetest.NodeName}},
		{"get po -A --no-headers", []string{ns, "cart-1"}},
		{"get pod cart-1 -o jsonpath={.status.containerStatuses[0].restartCount}", []string{"4"}},
		{"get deploy,rs,cm,secret,svc,events,no,ns,sa", []string{"deployment.apps/cart", "UP-TO-DATE", "replicaset.apps/cart", "configmap/conf", "secret/db", "BackOff", "node/" + kubetest.NodeName, "namespace/" + ns}},
		{"get all", []string{"pod/cart-1", "deployment.apps/cart"}},
		{"get pods --field-selector status.phase=Succeeded", []string{"No resources found"}},
		{"get pods -l app=nobody", []string{"No resources found"}},
		{"get events --field-selector involvedObject.name=cart-1,type=Warning", []string{"BackOff"}},
		{"get secret db -o yaml", []string{"name: db", "guard.nightcrier.dev/keys: pw"}},
		{"get cm conf -o yaml", []string{"mode: fast"}},
		{"describe pod cart-1", []string{"Controlled By:  ReplicaSet/cart", "CrashLoopBackOff", "Exit Code:    1", "Back-off restarting failed container"}},
		{"describe deployment cart", []string{"Selector:", "Replicas:"}},
		{"describe node " + kubetest.NodeName, []string{"Conditions:", "Ready", "cart-1"}},
		{"logs cart-1", []string{"starting", "fatal: password="}},
		{"logs cart-1 --previous --tail=1", []string{"fatal: before"}},
		{"logs deploy/cart", []string{"starting"}},
		{"api-resources", []string{"deployments", "deploy", "apps/v1", "pods", "po"}},
		{"version", []string{"Server Version"}},
		{"auth can-i list pods", []string{"yes"}},
		{"auth can-i * *", []string{"FAILED", "no"}},
		{"auth can-i get *", []string{"FAILED", "everything includes what acts"}},
		{"get pods --watch-only --request-timeout=2s", nil},
		{"events", []string{"BackOff"}},
		{"get pod nobody", []string{"FAILED", `pods "nobody" not found`}},
		{"get roles", []string{"FAILED", "not in this snapshot"}},
		{"get pods -n elsewhere", []string{"FAILED", "not in this snapshot"}},
		{"delete pod cart-1", []string{"FAILED", "Forbidden"}},
		{"scale deploy cart --replicas=0", []string{"FAILED"}},
		{"create configmap x", []string{"FAILED", "reads only"}},
		{"exec cart-1 -- sh", []string{"FAILED"}},
	} {
		out := run(strings.Fields(c.args)...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("kubectl %s: no %q in:\n%s", c.args, want, out)
			}
		}
		if strings.Contains(out, "canary") {
			t.Errorf("kubectl %s shows a secret:\n%s", c.args, out)
		}
	}
}

// What the credential may not read is noted, and forbidden again in the snapshot.
func TestRecordWithoutPermission(t *testing.T) {
	t.Parallel()
	snap, _ := recorded(t, func(s *kubetest.Server) string { return s.ReadOnly(t) })
	noted := ""
	for _, n := range snap.NotCaptured {
		noted += n.What + ": " + n.Why + "\n"
	}
	if !strings.Contains(noted, "secrets in ") || !strings.Contains(noted, "may not") {
		t.Errorf("that Secrets could not be read is not noted:\n%s", noted)
	}
	if _, err := snap.Client().List(t.Context(), "Secret", snap.Namespaces[0], "", "", 0); err == nil {
		t.Error("Secrets that were not recorded count as not there")
	}
}

func TestServeSnapshotIsLocal(t *testing.T) {
	t.Parallel()
	if s, err := oneshot.ServeSnapshot(&snapshot.Snapshot{}, "0.0.0.0:0", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a snapshot is served to the network")
		_ = s.Close()
	}
}

// The ordinary pipeline looks at a snapshot as of its own moment, without a
// cluster.
func TestTriageOfASnapshot(t *testing.T) {
	t.Parallel()
	snap, ns := recorded(t, admin)
	cfg, _, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []nightcrier.Resource{{Kind: "deploy", Name: "cart"}, {Kind: "pod", Namespace: ns, Name: "cart-1"}} {
		got, err := triage.Run(t.Context(), triage.Options{
			Config: cfg, Logger: slog.New(slog.DiscardHandler), Version: "test", Executor: config.Builtin, Target: target, Snapshot: snap,
		})
		if err != nil {
			t.Fatal(err)
		}
		if rep := got.Report; rep == nil || !rep.Valid || rep.RootCause == nil || rep.Cluster != "prod" || rep.Permissions["canWrite"] != "no" {
			t.Errorf("%s: the report is %+v", target, rep)
		} else if rep.BlastRadius["credential"] != nil || rep.BlastRadius["credentialRisks"] != nil {
			t.Errorf("%s: what may be read in a snapshot is told as the risk of a credential: %v", target, rep.BlastRadius)
		}
	}
	_, err = triage.Run(t.Context(), triage.Options{
		Config: cfg, Logger: slog.New(slog.DiscardHandler), Version: "test", Executor: config.Builtin,
		Target: nightcrier.Resource{Kind: "deploy", Name: "nobody"}, Snapshot: snap,
	})
	if nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("a Deployment that is not in the snapshot: %v", err)
	}
}

// What the real kubectl writes is a snapshot, in both of its forms.
func TestKubectlWritesSnapshots(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	_, rs := s.Deployment(t, ns, "cart")
	pod := s.Pod(t, ns, "cart-1", rs)
	s.CrashLoop(t, pod, 1, 4)
	s.SetLogs(pod, false, "starting\nfatal: no\n")
	s.Warn(t, pod, "BackOff", "Back-off restarting failed container app")
	run := kubectl(t, s.Kubeconfig)
	dir := t.TempDir()
	for _, form := range []string{"json", "yaml"} {
		dump := filepath.Join(dir, "dump-"+form)
		if out := run("cluster-info", "dump", "-n", ns, "--output-directory", dump, "-o", form); strings.HasPrefix(out, "FAILED") {
			t.Fatal(out)
		}
		flat := filepath.Join(dir, "flat-"+form)
		for name, text := range map[string]string{
			"all." + form: run("get", "pods,events,deploy,rs", "-n", ns, "-o", form), "nodes." + form: run("get", "nodes", "-o", form), "cart-1.log": run("logs", "cart-1", "-n", ns),
		} {
			if err := os.MkdirAll(flat, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(flat, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, dir := range []string{dump, flat} {
			snap, err := snapshot.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(snap.NotCaptured) > 0 {
				t.Errorf("%s: %v", dir, snap.NotCaptured)
			}
			log, err := snap.Client().Logs(t.Context(), ns, "cart-1", "app", false, 1, 0)
			if err != nil || string(log) != "fatal: no\n" {
				t.Errorf("%s: the log is %q, %v", dir, log, err)
			}
			for kind, want := range map[string]string{"Pod": `"cart-1"`, "Deployment": `"cart"`, "Event": `"BackOff"`, "Node": kubetest.NodeName} {
				list, err := snap.Client().List(t.Context(), kind, "", "", "", 0)
				if err != nil || !strings.Contains(string(list), want) {
					t.Errorf("%s: the list of %ss lacks %s: %s, %v", dir, kind, want, list, err)
				}
			}
		}
	}
}
