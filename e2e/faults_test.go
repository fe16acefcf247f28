package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/rbac"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// seats gives the node a resource of which there is one.
func (h *hospital) seats() {
	h.Helper()
	patch := []byte(`{"status":{"capacity":{"kubetest.example/seat":"1"}}}`)
	node := h.resource("v1", "Node", "")
	_, err := node.Patch(h.Context(), kubetest.NodeName, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	h.must(err)
	h.eventually(func() string {
		return h.missing("", sight{Of: "Node", Path: `{.status.allocatable.kubetest\.example/seat}`, Is: "1"})
	})
}

// Every kind of fault happens on a real node. The product, which watches it with
// the credential that it makes for itself, sees each once, at the workload that a
// person would mend, says what the cause is, and knows when it is healed. It sees
// nothing else. What our own MCP server and Alertmanager say beside it is the same
// incident.
func TestFaultsOnARealNode(t *testing.T) {
	t.Parallel()
	h := &hospital{Cluster: kubetest.OneNode(t), site: newSite(t, "")}
	h.clusters = nil
	h.seats()
	h.admit()
	cl := config.Cluster{Name: "real", Watch: true, Kubeconfig: h.credential(t)}
	mcp := start(t, binary(t), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()},
		"mcp", "--kubeconfig", cl.Kubeconfig, "--listen", "127.0.0.1:0", "--workspace-root", filepath.Join(t.TempDir(), "none"))
	cl.MCP = config.MCP{Mode: "auto", Endpoint: mcp.says(t, `MCP at (http://127\.0\.0\.1:\d+/mcp)`)}
	h.env["NIGHTCRIER_STORM_FINGERPRINTS"], h.env["NIGHTCRIER_MAX_CONCURRENT_PER_CLUSTER"] = "1000", "8"
	h.env["NIGHTCRIER_LISTEN"] = "127.0.0.1:0"
	h.addr = h.app(func(o *app.Options) {
		o.Config.Clusters, o.Reach = []config.Cluster{cl}, nil
		o.WatchTimings, o.WatchPatience = watchTimings(), watchPatience
	}).Addr()
	together := slices.DeleteFunc(slices.Clone(h.all), func(sc *scenario) bool { return sc.Alone })
	h.course(together)
	for _, sc := range h.all {
		if sc.Alone {
			h.course([]*scenario{sc})
		}
	}
	mcp.stop(t)
}

// credential makes one as a person would: the product's manifest, applied, and
// the kubeconfig that it makes.
func (h *hospital) credential(t *testing.T) string {
	t.Helper()
	account := rbac.Account{Namespace: "nightcrier", Name: "reader"}
	manifest, err := rbac.Manifest(account)
	h.must(err)
	cmd := exec.Command(kubetest.Kubectl(t), "apply", "-f", "-")
	cmd.Env, cmd.Stdin = []string{"KUBECONFIG=" + h.Kubeconfig, "HOME=" + t.TempDir()}, bytes.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v: %s", err, out)
	}
	made, err := rbac.Kubeconfig(t.Context(), rbac.Request{Account: account, Kubeconfig: h.Kubeconfig, Duration: time.Hour})
	h.must(err)
	path := filepath.Join(t.TempDir(), "reader.kubeconfig")
	h.must(os.WriteFile(path, made.Kubeconfig, 0o600))
	return path
}

// stage is a part of a scenario's course. It is called until it returns "", and
// says meanwhile what is missing.
type stage struct {
	name string
	try  func() string
}

// stages are a scenario's whole course.
func (h *hospital) stages(sc *scenario) []stage {
	all := []stage{{"given", func() string {
		for _, obj := range sc.Given {
			h.create(sc.ns, obj)
		}
		return ""
	}}}
	steps := func(name string, steps []step) {
		for _, s := range steps {
			all = append(all, stage{name, func() string { return h.take(sc, s) }})
		}
	}
	steps("break", sc.Break)
	all = append(all, stage{"ill", func() string { return h.ill(sc) }}, stage{"alerted", func() string { return h.alert(sc) }},
		stage{"known", func() string { return h.known(sc) }})
	steps("heal", sc.Heal)
	return append(all, stage{"well", func() string { return h.well(sc) }}, stage{"over", func() string { return h.over(sc) }})
}

// beds is how many scenarios there are at once. A node that starts too many Pods
// at a time is slow, which is a fault of its own.
const beds = 12

// course lets scenarios take their courses beside each other.
func (h *hospital) course(all []*scenario) {
	h.Helper()
	running := map[*scenario]*progress{}
	for ; len(all)+len(running) > 0; time.Sleep(200 * time.Millisecond) {
		for len(all) > 0 && len(running) < beds {
			running[all[0]] = &progress{stages: h.stages(all[0]), began: time.Now(), since: time.Now()}
			all = all[1:]
		}
		h.read()
		for sc, p := range running {
			missing := p.advance()
			switch {
			case missing == "":
				h.Logf("%s is over after %v", sc.name, time.Since(p.began).Round(time.Second))
				delete(running, sc)
			case time.Since(p.since) > 2*patience:
				h.Errorf("%s is not %s: %s", sc.name, p.stages[0].name, missing)
				delete(running, sc)
			}
		}
	}
}

// progress is how far a scenario is.
type progress struct {
	stages       []stage // that are left
	began, since time.Time
}

// advance goes on as far as it can, and says what is missing then.
func (p *progress) advance() string {
	for {
		missing := p.stages[0].try()
		if missing != "" || len(p.stages) == 1 {
			return missing
		}
		p.stages, p.since = p.stages[1:], time.Now()
	}
}

// read sorts the incidents by the scenario that they are of. One that is of none
// is an error.
func (h *hospital) read() {
	h.Helper()
	h.found = map[*scenario][]nightcrier.Incident{}
	h.look(func(st *store.Store) {
		for _, inc := range h.incidents(st) {
			i := slices.IndexFunc(h.all, func(sc *scenario) bool {
				return inc.Owner.Namespace == sc.ns || inc.Owner.Namespace == "" && inc.Owner.Kind+"/"+inc.Owner.Name == sc.Fault.Owner
			})
			if i < 0 {
				h.Fatalf("an incident of no scenario: %s", summary(inc))
			}
			h.found[h.all[i]] = append(h.found[h.all[i]], inc)
		}
	})
}

func summary(all ...nightcrier.Incident) string {
	var b strings.Builder
	for _, inc := range all {
		fmt.Fprintf(&b, "%s/%s %s %s %s %s by %v: %s; cause: %q\n",
			inc.Owner.Kind, inc.Owner.Name, inc.Class, inc.FaultType, inc.Condition, inc.Status, inc.SeenBy, inc.Context, inc.RootCause)
	}
	return b.String()
}

// alert lets Alertmanager say it too.
func (h *hospital) alert(sc *scenario) string {
	h.Helper()
	if sc.Alert == nil {
		return ""
	}
	labels := []string{"namespace=" + sc.ns}
	for name, value := range sc.Alert {
		if value == "*" {
			list, err := h.resource("v1", "Pod", sc.ns).List(h.Context(), metav1.ListOptions{})
			h.must(err)
			value = list.Items[0].GetName()
		}
		labels = append(labels, name+"="+value)
	}
	raw, err := json.Marshal(notification(alert(sc.Alert["alertname"], "firing", time.Now().UTC().Format(time.RFC3339), labels...)))
	h.must(err)
	resp, err := http.Post("http://"+h.addr+hooks+"alertmanager/real", "application/json", bytes.NewReader(raw))
	h.must(err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.Status
	}
	return ""
}

// known says why the fault counts as not known yet; when it is known otherwise
// than it should be, that is an error.
func (h *hospital) known(sc *scenario) string {
	h.Helper()
	if len(h.found[sc]) == 0 {
		return "no incident"
	}
	inc := h.found[sc][0]
	said := summary(inc)
	switch {
	case inc.Status.Open() || inc.Severity < sc.Fault.Severity || !h.said(inc, sc.Fault.SeenBy):
		return said
	case inc.Owner.Kind+"/"+inc.Owner.Name != sc.Fault.Owner || inc.Class != sc.Fault.Class || !slices.Contains(sc.Fault.Types, inc.FaultType):
		h.Errorf("%s: %s, want %+v", sc.name, said, sc.Fault)
	case inc.Status != nightcrier.Resolved:
		h.Errorf("%s: %s", sc.name, said)
	case len(sc.Fault.Causes) > 0 && !slices.Contains(sc.Fault.Causes, h.cause(inc)):
		h.Errorf("%s: %s, want cause %v", sc.name, said, sc.Fault.Causes)
	}
	return ""
}

// over says why the fault does not count as over; a second incident is an error.
func (h *hospital) over(sc *scenario) string {
	h.Helper()
	list := h.found[sc]
	if len(list) > 1 {
		h.Errorf("%s: %d incidents: %s", sc.name, len(list), summary(list...))
		return ""
	}
	if len(list) == 0 || list[0].Condition != nightcrier.ConditionCleared {
		return summary(list...)
	}
	return ""
}

// said reports whether the sources, and the watch, have said that the fault is there.
// Who says so at the moment is another question: the watch has less patience here than
// the others, and when it sees no sign of a fault, nobody counts any more.
func (h *hospital) said(inc nightcrier.Incident, sources []string) (all bool) {
	h.Helper()
	missing := slices.Concat(sources, []string{"watch"})
	h.look(func(st *store.Store) {
		events, _, err := st.Events(h.Context(), store.EventFilter{IncidentID: inc.ID, Limit: 1000})
		h.must(err)
		for _, ev := range events {
			missing = slices.DeleteFunc(missing, func(s string) bool { return !ev.Cleared && s == ev.Source })
		}
	})
	return len(missing) == 0
}

// cause is what the report of the incident says, "" when it is undetermined.
func (h *hospital) cause(inc nightcrier.Incident) string {
	h.Helper()
	if root := h.report(inc).RootCause; root != nil {
		return root.Cause
	}
	return ""
}
