package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/check/doctor"
	"nightcrier.dev/nightcrier/internal/oneshot"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/rbac"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// team has two namespaces of a real cluster, which has more.
type team struct {
	*house
	kube *kubetest.Server
	// own are theirs, foreign is not. A Pod crashes in the first and in that, and one
	// finds no node in the second.
	own     []string
	foreign string
	account rbac.Account
	config  string
}

// newTeam makes a credential as the documentation says.
func newTeam(t *testing.T) *team {
	t.Helper()
	h := &team{house: newHouse(t), kube: kubetest.Start(t)}
	h.own = []string{newPatient(t, h.kube).ns, h.kube.Namespace(t)}
	h.foreign = newPatient(t, h.kube).ns
	_, rs := h.kube.Deployment(t, h.own[1], "bank")
	h.kube.Unschedulable(t, h.own[1], rs.Name+"-x2k9q", rs, "0/1 nodes are available: 1 Insufficient cpu.")
	h.account = rbac.Account{Namespace: h.kube.Namespace(t), Name: "reader-" + h.own[0], Namespaces: h.own}
	manifest, err := rbac.Manifest(h.account)
	h.must(err)
	apply := exec.Command(kubetest.Kubectl(t), "apply", "-f", "-")
	apply.Env, apply.Stdin = []string{"KUBECONFIG=" + h.kube.Kubeconfig, "HOME=" + t.TempDir()}, bytes.NewReader(manifest)
	out, err := apply.CombinedOutput()
	h.want(err == nil, "kubectl apply: %v: %s", err, out)
	made, err := rbac.Kubeconfig(t.Context(), rbac.Request{Account: h.account, Kubeconfig: h.kube.Kubeconfig, Duration: time.Hour})
	h.must(err)
	kubeconfig := filepath.Join(t.TempDir(), "reader")
	h.must(os.WriteFile(kubeconfig, made.Kubeconfig, 0o600))
	h.config = "clusters: [{name: c1, watch: true, namespaces: [" + strings.Join(h.own, ", ") + "], kubeconfig: " + kubeconfig + "}]"
	return h
}

// serve starts the product with these lines as well.
func (h *team) serve(more ...string) {
	h.Helper()
	_, err := h.load(nil, append(more, h.config)...)
	h.must(err)
	h.run(func(o *app.Options) { o.WatchTimings, o.WatchPatience = watchTimings(), watchPatience })
}

// checks are what doctor says of the cluster, by code.
func (h *team) checks() map[string]doctor.Check {
	h.Helper()
	_, err := h.load(nil, h.config)
	h.must(err)
	found := map[string]doctor.Check{}
	for _, c := range doctor.Run(h.t.Context(), h.cfg, doctor.Options{ListTools: oneshot.ListTools}) {
		found[c.Code] = c
	}
	return found
}

// incident waits for the one of a namespace to end.
func (h *team) incident(ns string) (inc nightcrier.Incident) {
	h.Helper()
	h.eventually(func() string {
		for _, one := range h.incidents(h.Store()) {
			if one.Resource.Namespace == ns && !one.Status.Open() {
				inc = one
				return ""
			}
		}
		return "no incident of " + ns + " has ended"
	})
	return inc
}

// TestACredentialOfSomeNamespaces: a team whose credential is good for two
// namespaces, and later for nothing else, has them watched and investigated as
// far as that goes; it is told what cannot be seen, and nothing of others.
func TestACredentialOfSomeNamespaces(t *testing.T) {
	t.Parallel()
	h := newTeam(t)
	for _, code := range []string{doctor.CheckCluster, doctor.CheckCredential, doctor.CheckWatch} {
		h.want(h.checks()[code].Status == "ok", "with what the manifest grants: %+v", h.checks()[code])
	}
	h.kube.Delete(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: h.account.Name + "-wide"}})
	h.eventually(func() string {
		if c := h.checks()[doctor.CheckWatch]; c.Status != "warn" || !strings.Contains(c.Detail, "may not list namespaces, watch namespaces, list nodes") {
			return "doctor says " + c.Status + " " + c.Detail
		}
		return ""
	})

	h.serve("agent: {executor: builtin}")
	rep := h.report(h.incident(h.own[0]))
	h.want(rep.RootCause != nil && len(rep.NotChecked) == 0, "%+v", rep)
	rep = h.report(h.incident(h.own[1]))
	h.want(rep.RootCause != nil && len(rep.NotChecked) == 1, "%+v", rep)
	for _, n := range rep.NotChecked {
		h.want(n.What == "nodes" && strings.Contains(n.Why, "may not"), "not checked: %+v", n)
	}
	h.watches()
	h.otherNamespacesAreOthers()
	h.must(h.Stop(t.Context()))
	h.theAgentIsBound()
}

// watches holds what is said of the watch together.
func (h *team) watches() {
	h.Helper()
	h.eventually(func() string {
		st := h.Statuses()[0]
		if st.State != nightcrier.SourceSubscribed || len(st.Problems) != 3 {
			return string(st.State) + " " + strings.Join(st.Problems, "; ")
		}
		return ""
	})
	for i, kind := range []string{"Namespace", "Node", "APIService"} {
		if p := h.Statuses()[0].Problems[i]; !strings.HasPrefix(p, kind+": ") {
			h.Errorf("problem %d is %q, want one of %s", i, p, kind)
		}
	}
}

// otherNamespacesAreOthers: nobody looked into the third one, and what another
// source says of it is recorded and starts nothing.
func (h *team) otherNamespacesAreOthers() {
	h.Helper()
	dec := h.fault("d1", "critical") // of a namespace called made-up
	h.want(dec.Reason == nightcrier.OutsideNamespaces, "%+v", dec)
	for _, inc := range h.incidents(h.Store()) {
		h.want(inc.Resource.Namespace != h.foreign && inc.Resource.Namespace != "made-up", "an incident of %s", inc.Resource)
	}
}

// theAgentIsBound: an agent reads its namespaces, and its guard, not only the
// cluster, refuses the third one.
func (h *team) theAgentIsBound() {
	h.Helper()
	h.script(`cd "$OUTPUT_DIR/artifacts"; kubectl get pods -n ` + h.own[0] + ` -o name > own 2>&1; kubectl get pods -n ` + h.foreign + ` > foreign 2>&1; cd - > /dev/null; ` + reports)
	h.serve("agent: {script_path: " + h.env["AGENT_SCRIPT_PATH"] + "}")
	before := h.incidents(h.Store())
	_, rs := h.kube.Deployment(h.t, h.own[0], "till")
	h.kube.CrashLoop(h.t, h.kube.Pod(h.t, h.own[0], rs.Name+"-x2k9q", rs), 7, 4)
	h.eventually(func() string {
		if len(h.incidents(h.Store())) == len(before) {
			return "no fault is found"
		}
		return ""
	})
	var inc nightcrier.Incident
	for _, one := range h.incidents(h.Store()) {
		if one.Owner.Name == "till" {
			inc = h.closed(one.ID)
		}
	}
	own, foreign := h.inWorkspace(inc, "output/artifacts/own"), h.inWorkspace(inc, "output/artifacts/foreign")
	h.want(strings.Contains(own, "pod/"+rs.Name), "of its own namespace it sees %s", own)
	h.want(strings.Contains(foreign, "this guard reads namespace"), "of the third one it sees %s", foreign)
}
