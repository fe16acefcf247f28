package deploy

import (
	"encoding/json"
	"testing"

	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
)

// Whatever a manifest holds, what is taken of it is bound to the namespace and marked, and
// its Pods have nothing of their node.
func FuzzManifest(f *testing.F) {
	f.Add("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}]}")
	f.Add("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}], hostNetwork: false, volumes: [{name: v, emptyDir: {}}]}}}")
	f.Add(`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"a"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"containers":[]}}}}}}`)
	f.Add("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: b}}")
	p := Policy{Namespaces: []string{"apps"}}
	if err := p.check(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		all, err := p.readManifest(manifest, "apps")
		if err != nil {
			return
		}
		for _, o := range all {
			b, err := json.Marshal(o.body)
			if err != nil {
				t.Fatalf("%v: %v", o, err)
			}
			if o.namespace != "apps" || kubetool.TextAt(o.body, "metadata", "namespace") != "apps" || kubetool.TextAt(o.body, "metadata", "labels", Mark) != Manager || checkName("", o.name) != nil {
				t.Errorf("%v is %s", o, b)
			}
			if pod := podOf(o); pod != nil && (pod["automountServiceAccountToken"] != false || pod["hostNetwork"] == true || pod["hostPID"] == true) {
				t.Errorf("its Pods have %v", pod)
			}
			if podHasHostPath(o) {
				t.Errorf("%v mounts %s", o, b)
			}
		}
	})
}

func podHasHostPath(o object) bool {
	volumes, _ := podOf(o)["volumes"].([]any)
	for _, one := range volumes {
		if v, _ := one.(map[string]any); v["hostPath"] != nil {
			return true
		}
	}
	return false
}
