package rules

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func refusedWith(message string) *scene.Facts {
	f := scenetest.FactsOf()
	f.Deployment = &scene.Read[appsv1.Deployment]{Object: appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
		}}},
	}, Ref: scene.Ref{Evidence: "E3", Source: "get deployment"}}
	return f
}

func TestRefusals(t *testing.T) {
	const pods = `pods "cart-x" is forbidden: `
	for message, want := range map[string]string{
		pods + "exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4":                                                                                                             "quota-exceeded",
		pods + "failed quota: compute: must specify limits.cpu for: app; limits.memory for: app":                                                                                                       "quota-exceeded",
		pods + "[maximum memory usage per Container is 16Mi, but limit is 64Mi, maximum cpu usage per Pod is 1, but limit is 2]":                                                                       "limit-range-refused",
		pods + "minimum cpu usage per Container is 100m, but request is 10m":                                                                                                                           "limit-range-refused",
		pods + "memory max limit to request ratio per Container is 2, but provided ratio is 4.000000":                                                                                                  "limit-range-refused",
		pods + `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "app" must set ...)`:                                                                            "pod-security-refused",
		pods + "unable to validate against any security context constraint: [provider restricted: ...]":                                                                                                "pod-security-refused",
		pods + `error looking up service account shop/robot: serviceaccount "robot" not found`:                                                                                                         "serviceaccount-missing",
		pods + "no PriorityClass with name urgent was found":                                                                                                                                           "priority-class-missing",
		pods + `ValidatingAdmissionPolicy 'cost' with binding 'cost' denied request: every Pod needs a cost centre`:                                                                                    "admission-policy-refused",
		`admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod/shop/cart was blocked`:                                                                                         "admission-webhook-refused",
		`Internal error occurred: failed calling webhook "cost.example.com": failed to call webhook: Post "https://cost.policy.svc:443/review?timeout=10s": no endpoints available for service "cost"`: "admission-webhook-unavailable",
		`Internal error occurred: failed calling webhook "cost.example.com": Post "https://cost.policy.svc:443/review?timeout=30s": dial tcp 10.0.0.1:443: connect: connection refused`:                "admission-webhook-unavailable",
		`Pod "cart-x" is invalid: spec.containers[0].resources.requests: Invalid value: "512Mi": must be less than or equal to memory limit of 256Mi`:                                                  "invalid-pod-template",
		pods + "pod rejected: RuntimeClass \"gvisor\" not found":                                                                                                                                       "pod-creation-refused",
		// The words of whoever denies decide nothing.
		`admission webhook "x.example.com" denied the request: exceeded quota: compute, failed calling webhook "y"`: "admission-webhook-refused",
	} {
		got := ApplyRules(refusedWith(message))
		if len(got) != 1 || got[0].Cause != want {
			t.Errorf("%s\ngot %+v, want %s", message, got, want)
			continue
		}
		scenetest.CheckFinding(t, got[0])
	}
	if got := ApplyRules(refusedWith(`pods "cart-0" already exists`)); len(got) > 0 {
		t.Errorf("a passing conflict: %+v", got)
	}
}

const webhookAway = `Internal error occurred: failed calling webhook "cost.example.com": failed to call webhook: Post "https://cost.policy.svc:443/review": no endpoints available for service "cost"`

// The webhook's configuration is what is wrong, unless what serves it is.
func TestWebhookIsNamedWithWhatServesIt(t *testing.T) {
	f := refusedWith(webhookAway)
	f.Scene = scenetest.New(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: costs}, webhooks: [{name: cost.example.com, clientConfig: {service: {namespace: policy, name: cost}}}]}
---
{apiVersion: v1, kind: Service, metadata: {namespace: policy, name: cost}, spec: {selector: {app: cost}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: policy, name: cost-server}, spec: {template: {metadata: {labels: {app: cost}}}}}`)
	n := ApplyRules(f)[0]
	if n.Object != (nightcrier.Object{Kind: "ValidatingWebhookConfiguration", Name: "costs"}) || n.Affected[0].Name != "cart" {
		t.Errorf("object %v, affected %v", n.Object, n.Affected)
	}
	if len(n.DependsOn) != 2 || n.DependsOn[1] != (nightcrier.Object{Kind: "Deployment", Namespace: "policy", Name: "cost-server"}) {
		t.Errorf("depends on %v", n.DependsOn)
	}
	unread := ApplyRules(refusedWith(webhookAway))[0]
	if unread.Object.Kind != "Deployment" || unread.DependsOn[0] != (nightcrier.Object{Kind: "Service", Namespace: "policy", Name: "cost"}) {
		t.Errorf("with its configuration unread: %v, %v", unread.Object, unread.DependsOn)
	}
}

const shortSet = `
{apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: shop, name: db, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {replicas: 3, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, resources: {requests: {cpu: "1"}}}]}}}, status: {replicas: 2, readyReplicas: 2}}
---
`

func TestQuotaIsFullWithoutAnEvent(t *testing.T) {
	quota := func(status string) *scene.Facts {
		return inScene(scenetest.New(t, shortSet+`{apiVersion: v1, kind: ResourceQuota, metadata: {namespace: shop, name: compute}, status: `+status+`}`), "StatefulSet", "db")
	}
	for status, want := range map[string]bool{
		`{hard: {requests.cpu: "2"}, used: {requests.cpu: "2"}}`: true,
		`{hard: {pods: "2"}, used: {pods: "2"}}`:                 true,
		`{hard: {cpu: "3"}, used: {cpu: "2"}}`:                   false,
		`{hard: {configmaps: "2"}, used: {configmaps: "2"}}`:     false,
	} {
		got := ApplyRules(quota(status))
		if want != (len(got) == 1 && got[0].Cause == "quota-exceeded" && strings.Contains(got[0].Summary, "compute")) {
			t.Errorf("%s: %+v", status, got)
		}
	}
	whole := quota(`{hard: {pods: "2"}, used: {pods: "2"}}`)
	whole.Scene.StatefulSets[0].Object.Status.Replicas = 3
	if got := ApplyRules(whole); len(got) > 0 {
		t.Errorf("it has what it wants: %+v", got)
	}
}

func TestRefusalIsOverOnceThePodsAreThere(t *testing.T) {
	s := scenetest.New(t, strings.Replace(shortSet, "replicas: 2, readyReplicas: 2", "replicas: 3, readyReplicas: 3", 1)+
		`{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, reason: FailedCreate, message: 'pods "db-2" is forbidden: exceeded quota: compute', involvedObject: {kind: StatefulSet, namespace: shop, name: db}, lastTimestamp: "2026-03-01T11:59:00Z"}`)
	if got := ApplyRules(inScene(s, "StatefulSet", "db")); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	s.StatefulSets[0].Object.Status.Replicas = 2
	if got := ApplyRules(inScene(s, "StatefulSet", "db")); len(got) != 1 || got[0].Cause != "quota-exceeded" {
		t.Errorf("still short: %+v", got)
	}
	s.Now = s.Now.Add(time.Hour)
	if got := ApplyRules(inScene(s, "StatefulSet", "db")); len(got) > 0 {
		t.Errorf("an old complaint: %+v", got)
	}
}
