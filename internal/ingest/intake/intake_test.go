package intake

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// memory is a store that only remembers what it was told.
type memory struct {
	accepted, suppressed []nightcrier.Event
	err                  error
}

func (m *memory) Accept(_ context.Context, ev nightcrier.Event, _ store.AcceptPolicy) (store.Decision, error) {
	m.accepted = append(m.accepted, ev)
	return store.Decision{EventID: ev.ID, Outcome: nightcrier.Opened}, m.err
}

func (m *memory) Suppress(_ context.Context, ev nightcrier.Event) (bool, error) {
	m.suppressed = append(m.suppressed, ev)
	return false, m.err
}

// cluster is an API server that knows owners, or does not.
type cluster struct {
	owners map[string]nightcrier.Resource
	err    error
	asked  int
}

func (c *cluster) Owner(_ context.Context, _ string, res nightcrier.Resource) (nightcrier.Resource, error) {
	c.asked++
	return c.owners[res.Name], c.err
}

// fault is a notification's params about a resource.
func fault(faultType, severity, kind, namespace, name string) []byte {
	return fmt.Appendf(nil, `{"level":"warning","logger":"kubernetes/faults","data":{"subscriptionId":"sub-1","cluster":"theirs",
		"faultId":"f1","faultType":%q,"severity":%q,"resource":{"apiVersion":"v1","kind":%q,"name":%q,"namespace":%q,"uid":"u-1"},
		"context":"c","timestamp":"2026-11-20T05:40:04Z"}}`, faultType, severity, kind, name, namespace)
}

var received = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func deliver(t *testing.T, in *Intake, raw []byte) store.Decision {
	t.Helper()
	d, err := in.Deliver(t.Context(), nightcrier.Delivery{Source: "mcp", Cluster: "prod", ReceivedAt: received, Raw: raw})
	if err != nil {
		t.Fatalf("deliver: %v", err)
	}
	return d
}

func TestSuppressedWithReason(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		raw    string
		reason nightcrier.Reason
		detail string
	}{
		{"not JSON", "\x00\xff{", nightcrier.Malformed, "JSON"},
		{"nothing", "", nightcrier.Malformed, ""},
		{"a path for a name", string(fault("CrashLoop", "critical", "Pod", "shop", "../../etc/passwd")), nightcrier.Malformed, "name"},
		{"a name with a newline", string(fault("CrashLoop", "critical", "Pod", "shop", "a\nb")), nightcrier.Malformed, "name"},
		{"oversized", `{"data":{"x":"` + strings.Repeat("a", 2<<20) + `"}}`, nightcrier.Oversized, ""},
		{"below the threshold", string(fault("CrashLoop", "info", "Pod", "shop", "web-0")), nightcrier.BelowThreshold, "severity_threshold warning"},
		{"in another namespace", string(fault("CrashLoop", "critical", "Pod", "elsewhere", "web-0")), nightcrier.OutsideNamespaces, "elsewhere/Pod/web-0"},
		{"another namespace itself", string(fault("NamespaceStuck", "critical", "Namespace", "", "elsewhere")), nightcrier.OutsideNamespaces, "Namespace/elsewhere"},
		{"a broken subscription", `{"data":{"subscriptionId":"s","cluster":"c","error":"watch failed","degraded":true}}`, nightcrier.SubscriptionErr, "degraded"},
		{"nothing wrong", `{"data":{"event":{"type":"Normal","reason":"Scheduled","message":"m","involvedObject":{"kind":"Pod","name":"web-0","namespace":"shop"}}}}`,
			nightcrier.NotAFault, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := &memory{}
			var seen []store.Decision
			in := New(Config{Store: m, Threshold: nightcrier.Warning, Namespaces: shopOnly, Metrics: func(d store.Decision) { seen = append(seen, d) }})
			d := deliver(t, in, []byte(tt.raw))
			if d.Outcome != nightcrier.Suppressed || d.Reason != tt.reason || !strings.Contains(d.Detail, tt.detail) {
				t.Errorf("decision %+v, want %s because of %q", d, tt.reason, tt.detail)
			}
			if len(m.accepted) != 0 || len(m.suppressed) != 1 || len(seen) != 1 || seen[0].Reason != tt.reason {
				t.Fatalf("accepted %v, suppressed %v, counted %v", m.accepted, m.suppressed, seen)
			}
			ev := m.suppressed[0]
			if !nightcrier.ValidID(ev.ID) || ev.Cluster != "prod" || ev.Source != "mcp" || !ev.ReceivedAt.Equal(received) || ev.Reason != tt.reason {
				t.Errorf("stored event %+v", ev)
			}
			if tt.reason == nightcrier.Malformed && string(ev.Raw) != tt.raw {
				t.Errorf("the payload was kept as %q", ev.Raw)
			}
		})
	}
}

// shopOnly looks at one namespace of prod.
func shopOnly(cluster string) []string {
	if cluster != "prod" {
		return []string{"none"}
	}
	return []string{"shop"}
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	m := &memory{}
	in := New(Config{Store: m, Threshold: nightcrier.Warning, Namespaces: shopOnly})
	deliver(t, in, fault("CrashLoop", "critical", "Pod", "shop", "cart-7d9f8b6c5d-x2x9z"))
	deliver(t, in, fault("PodCrash", "warning", "Pod", "shop", "cart-66b6c48dd5-7hsn9"))
	deliver(t, in, fault("DeploymentFailure", "critical", "Deployment", "shop", "cart"))
	deliver(t, in, fault("NodeUnhealthy", "critical", "Node", "", "n1"))
	want := []string{
		"prod/shop/Deployment/cart/workload", "prod/shop/Deployment/cart/workload", "prod/shop/Deployment/cart/workload",
		"prod/-/Node/n1/node",
	}
	for i, ev := range m.accepted {
		if ev.Fingerprint != want[i] || ev.Cluster != "prod" || ev.Reason != "" {
			t.Errorf("event %d has fingerprint %s (cluster %s, reason %q), want %s", i, ev.Fingerprint, ev.Cluster, ev.Reason, want[i])
		}
	}
	if len(m.accepted) != len(want) || len(m.suppressed) != 0 {
		t.Errorf("%d accepted, %d suppressed", len(m.accepted), len(m.suppressed))
	}
}

// The end of a fault is told to the store whatever its severity.
func TestClearedPassesTheThreshold(t *testing.T) {
	t.Parallel()
	m := &memory{}
	in := New(Config{Store: m, Threshold: nightcrier.Critical})
	over := strings.Replace(string(fault("CrashLoop", "info", "Pod", "shop", "web-0")), `"context"`, `"condition":"cleared","context"`, 1)
	deliver(t, in, []byte(over))
	if len(m.accepted) != 1 || !m.accepted[0].Cleared || m.accepted[0].Fingerprint != "prod/shop/StatefulSet/web/workload" {
		t.Errorf("accepted %+v, suppressed %+v", m.accepted, m.suppressed)
	}
}

func TestClusterIsNamed(t *testing.T) {
	t.Parallel()
	m := &memory{}
	in := New(Config{Store: m})
	raw := fault("CrashLoop", "critical", "Pod", "shop", "web-0")
	if _, err := in.Deliver(t.Context(), nightcrier.Delivery{Source: "cli", Raw: raw}); err != nil {
		t.Fatal(err)
	}
	nameless := strings.Replace(string(raw), `"cluster":"theirs",`, "", 1)
	if _, err := in.Deliver(t.Context(), nightcrier.Delivery{Source: "cli", Raw: []byte(nameless)}); err != nil {
		t.Fatal(err)
	}
	if len(m.accepted) != 1 || m.accepted[0].Cluster != "theirs" || m.accepted[0].ReceivedAt.IsZero() {
		t.Errorf("without a configured cluster: %+v", m.accepted)
	}
	if len(m.suppressed) != 1 || m.suppressed[0].Reason != nightcrier.Malformed {
		t.Errorf("without any cluster: %+v", m.suppressed)
	}
}

func TestStoreFails(t *testing.T) {
	t.Parallel()
	full := nightcrier.Errorf(nightcrier.Exhausted, "the disk is full")
	counted := 0
	in := New(Config{Store: &memory{err: full}, Metrics: func(store.Decision) { counted++ }})
	for _, raw := range [][]byte{fault("CrashLoop", "critical", "Pod", "shop", "web-0"), []byte("{")} {
		_, err := in.Deliver(t.Context(), nightcrier.Delivery{Cluster: "prod", Raw: raw})
		if nightcrier.CodeOf(err) != nightcrier.Exhausted || !errors.Is(err, full) {
			t.Errorf("error %v does not say what the store said", err)
		}
	}
	if counted != 0 {
		t.Error("an event that was not stored was counted")
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	now := received
	rollout := nightcrier.Resource{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Namespace: "shop", Name: "cart", UID: "u"}
	api := &cluster{owners: map[string]nightcrier.Resource{"cart-7d9f8b6c5d-x2x9z": rollout}}
	m := &memory{}
	in := New(Config{Store: m, Owners: api, Now: func() time.Time { return now }})
	last := func() string { return m.accepted[len(m.accepted)-1].Fingerprint }
	cart := fault("CrashLoop", "critical", "Pod", "shop", "cart-7d9f8b6c5d-x2x9z")

	deliver(t, in, cart)
	if last() != "prod/shop/Rollout/cart/workload" {
		t.Errorf("the cluster's answer gave %s", last())
	}
	api.err = nightcrier.Errorf(nightcrier.Unreachable, "down")
	deliver(t, in, cart)
	if last() != "prod/shop/Rollout/cart/workload" || api.asked != 1 {
		t.Errorf("a known owner gave %s after %d questions", last(), api.asked)
	}
	deliver(t, in, fault("CrashLoop", "critical", "Pod", "shop", "web-0"))
	deliver(t, in, fault("CrashLoop", "critical", "Pod", "shop", "web-1"))
	if last() != "prod/shop/StatefulSet/web/workload" || api.asked != 2 {
		t.Errorf("with the cluster down: %s after %d questions, want the name to do and no second question", last(), api.asked)
	}
	now = now.Add(ownerPause)
	api.err = nightcrier.Errorf(nightcrier.NotFound, "gone")
	deliver(t, in, fault("CrashLoop", "critical", "Pod", "shop", "web-1"))
	deliver(t, in, fault("CrashLoop", "critical", "Pod", "shop", "web-1"))
	if api.asked != 4 {
		t.Errorf("%d questions: a missing object must not silence the cluster", api.asked)
	}
}

func TestClassOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		faultType, kind string
		want            nightcrier.Class
	}{
		{"CrashLoop", "Deployment", nightcrier.ClassWorkload},
		{"OOMKilled", "Deployment", nightcrier.ClassWorkload},
		{"crash_loop", "Pod", nightcrier.ClassWorkload},
		{"PodCrash", "CronJob", nightcrier.ClassJob},
		{"JobFailure", "CronJob", nightcrier.ClassJob},
		{"Unschedulable", "Job", nightcrier.ClassScheduling},
		{"FailedMount", "StatefulSet", nightcrier.ClassStorage},
		{"NodePressure", "Node", nightcrier.ClassNode},
		{"SomethingNew", "Node", nightcrier.ClassNode},
		{"SomethingNew", "PersistentVolumeClaim", nightcrier.ClassStorage},
		{"SomethingNew", "Ingress", nightcrier.ClassService},
		{"SomethingNew", "Widget", nightcrier.ClassWorkload},
		{"", "", nightcrier.ClassWorkload},
	}
	for _, tt := range tests {
		if got := ClassOf(tt.faultType, tt.kind); got != tt.want {
			t.Errorf("ClassOf(%q, %q) = %s, want %s", tt.faultType, tt.kind, got, tt.want)
		}
	}
}

// What the sender wrote is stored without its secrets, whatever becomes of it;
// what a fault hangs on stays.
func TestSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	hide := func(cluster, text string) string { return strings.ReplaceAll(text, "hunter2", "<"+cluster+">") }
	legacy := `{"data":{"event":{"type":"Warning","reason":"BackOff","message":"m","involvedObject":{"kind":"Pod","name":"web-0","namespace":"shop"}},
		"logs":[{"container":"app","sample":"hunter2"}]}}`
	for name, raw := range map[string]string{
		"taken":           strings.Replace(string(fault("CrashLoop", "critical", "Pod", "shop", "web-0")), `"context":"c"`, `"context":"it said hunter2"`, 1),
		"a type":          string(fault("hunter2", "critical", "Pod", "shop", "web-0")),
		"logs":            legacy,
		"below threshold": strings.Replace(string(fault("CrashLoop", "info", "Pod", "shop", "web-0")), `"context":"c"`, `"context":"hunter2"`, 1),
		"malformed":       `{"password":"hunter2"`,
		"a bad name":      string(fault("CrashLoop", "critical", "Pod", "shop", "pass=hunter2")),
	} {
		m := &memory{}
		deliver(t, New(Config{Store: m, Threshold: nightcrier.Warning, Mask: hide}), []byte(raw))
		for _, ev := range append(m.accepted, m.suppressed...) {
			all := fmt.Sprintf("%+v %s", ev, ev.Raw)
			if strings.Contains(all, "hunter2") || !strings.Contains(string(ev.Raw), "<prod>") {
				t.Errorf("%s: %s", name, all)
			}
		}
	}
	m := &memory{}
	deliver(t, New(Config{Store: m, Threshold: nightcrier.Warning, Mask: hide}), fault("CrashLoop", "critical", "Pod", "shop", "hunter2-0"))
	if len(m.accepted) != 1 || m.accepted[0].Resource.Name != "hunter2-0" {
		t.Errorf("a legal name: %+v, %+v", m.accepted, m.suppressed)
	}
}

// keyBody is three lines out of the middle of a private key.
func keyBody() string {
	var lines []string
	for _, seed := range []string{"a", "b", "c"} {
		sum := sha512.Sum512([]byte(seed))
		lines = append(lines, base64.StdEncoding.EncodeToString(sum[:])[:64])
	}
	return strings.Join(lines, "\n")
}

// Descriptions, annotations and samples quote logs, cut anywhere: what stands open at the
// ends of a quotation is masked as it is in a log, in each place where it is kept.
func TestExcerptsOfLogsAreMasked(t *testing.T) {
	t.Parallel()
	masker := mask.New([]byte("key"))
	whole := func(_, text string) string { return masker.String(text) }
	log := func(_, text string) string { masked, _ := masker.Log([]byte(text)); return string(masked) }
	body := keyBody()
	for name, c := range map[string]struct{ said, secret string }{
		"a key without its head":    {"the last lines:\n" + body + "\n", strings.Split(body, "\n")[1]},
		"a key without its end":     {"starting\n-----BEGIN PRIVATE KEY-----\n" + body, strings.Split(body, "\n")[1]},
		"a manifest line by line":   {"2026-01-01T00:00:00Z INFO kind: Secret\n2026-01-01T00:00:00Z INFO data:\n2026-01-01T00:00:00Z INFO   a: c3dvcmRmaXNoLXN3b3JkZmlzaA==\n", "c3dvcmRmaXNoLXN3b3JkZmlzaA"},
		"a value before its name":   {"env:\n- value: swordfish77\n", "swordfish77"},
		"what is a secret anywhere": {"two lines,\npassword=swordfish77 here", "swordfish77"},
	} {
		quoted, err := json.Marshal(c.said)
		if err != nil {
			t.Fatal(err)
		}
		for _, quoted := range []string{string(quoted), strings.ReplaceAll(string(quoted), `\n`, `\u000a`)} {
			legacy := `{"data":{"event":{"type":"Warning","reason":"BackOff","message":` + quoted + `,"involvedObject":{"kind":"Pod","name":"web-0","namespace":"shop"}},"logs":[{"container":"app","sample":` + quoted + `,"error":` + quoted + `}]}}`
			for dialect, raw := range map[string]string{
				"flat":        strings.Replace(string(fault("CrashLoop", "critical", "Pod", "shop", "web-0")), `"context":"c"`, `"context":`+quoted, 1),
				"legacy":      legacy,
				"a bad name":  strings.Replace(string(fault("CrashLoop", "critical", "Pod", "shop", "Web 0")), `"context":"c"`, `"context":`+quoted, 1),
				"no document": c.said,
			} {
				m := &memory{}
				deliver(t, New(Config{Store: m, Mask: whole, MaskLog: log}), []byte(raw))
				for _, ev := range append(m.accepted, m.suppressed...) {
					if all := fmt.Sprintf("%+v %s", ev, ev.Raw); strings.Contains(all, c.secret) || !mask.Tagged(all) {
						t.Errorf("%s, %s: %s", name, dialect, all)
					}
					if dialect != "no document" && !json.Valid(ev.Raw) {
						t.Errorf("%s, %s is no JSON any more: %s", name, dialect, ev.Raw)
					}
				}
			}
		}
	}
}

// What is no secret stays as it was written, byte for byte.
func TestExcerptsKeepWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	masker := mask.New([]byte("key"))
	log := func(_, text string) string { masked, _ := masker.Log([]byte(text)); return string(masked) }
	raw := strings.Replace(string(fault("CrashLoop", "critical", "Pod", "shop", "web-0")), `"context":"c"`,
		`"context":"a \"b\" \\ <c>\npanic: no such table \u0022users\u0022\n\tat main.go:17\nexit 1\n", "x":["","\\"]`, 1)
	m := &memory{}
	deliver(t, New(Config{Store: m, Mask: func(_, text string) string { return masker.String(text) }, MaskLog: log}), []byte(raw))
	if len(m.accepted) != 1 || !strings.Contains(raw, string(m.accepted[0].Raw)) || m.accepted[0].Context != "a \"b\" \\ <c>\npanic: no such table \"users\"\n\tat main.go:17\nexit 1\n" {
		t.Errorf("%+v of %s", m.accepted, raw)
	}
}

// A text that is too long is cut between words: the half of a value that we hold is known to
// nobody.
func TestNoHalfOfASecretIsStored(t *testing.T) {
	t.Parallel()
	const held = "held-by-us-and-nobody-else"
	masker := mask.New([]byte("key"), held)
	for over := 1; over < len(held); over++ {
		said := strings.Repeat("y", 16<<10-over-1) + " " + held + " end"
		raw := strings.Replace(string(fault("CrashLoop", "critical", "Pod", "shop", "web-0")), `"context":"c"`, `"context":"`+said+`"`, 1)
		m := &memory{}
		deliver(t, New(Config{Store: m, Mask: func(_, text string) string { return masker.String(text) }}), []byte(raw))
		if len(m.accepted) != 1 || strings.Contains(m.accepted[0].Context, "held") || strings.Contains(string(m.accepted[0].Raw), "held") {
			t.Fatalf("%d bytes over: %+v ends in %.60q", over, m.suppressed, m.accepted[0].Context[len(m.accepted[0].Context)-40:])
		}
	}
}
