package compose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/collect"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
	"nightcrier.dev/nightcrier/internal/text"
)

// aRevision is a ReplicaSet of Deployment shop/cart.
func aRevision(number int, image string, before time.Duration, extra string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: ReplicaSet
metadata:
  namespace: shop
  name: cart-%[1]d
  creationTimestamp: %[3]q
  annotations: {deployment.kubernetes.io/revision: "%[1]d"}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: cart, controller: true, uid: u}]
spec:
  template:
    metadata: {labels: {app: cart, pod-template-hash: "%[1]d"}%[4]s}
    spec: {containers: [{name: app, image: %[2]q, env: [{name: DB, value: db}]}]}`, number, image, scenetest.Ago(before), extra)
}

func TestChangesOfAWorkload(t *testing.T) {
	const hour = time.Hour
	cases := []struct {
		name      string
		manifests []string
		// want are the changes, each as what, "by" who, and its details.
		want []string
	}{
		{"nothing is on record", []string{scenetest.EditedDeployment(48 * hour)}, nil},
		{
			"a rollout", []string{scenetest.EditedDeployment(2 * hour), aRevision(1, "cart:1", 300*hour, ""), aRevision(2, "cart:2", 2*hour, "")},
			[]string{`revision 2 of Deployment shop/cart was rolled out by kubectl-edit [container app image changed from "cart:1" to "cart:2"]`},
		},
		{"a rollout of long ago", []string{scenetest.EditedDeployment(48 * hour), aRevision(1, "cart:1", 300*hour, ""), aRevision(2, "cart:2", 48*hour, "")}, nil},
		{
			"a restart by hand", []string{
				scenetest.EditedDeployment(2 * hour), aRevision(1, "cart:1", 300*hour, ""),
				aRevision(2, "cart:1", 2*hour, `, annotations: {kubectl.kubernetes.io/restartedAt: "x"}`),
			},
			[]string{"Deployment shop/cart was restarted by hand: revision 2 of Deployment shop/cart by kubectl-edit []"},
		},
		{
			"a rollback", []string{
				scenetest.EditedDeployment(2 * hour), aRevision(3, "cart:1", 300*hour, ""), aRevision(2, "cart:2", 200*hour, ""),
				`{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, reason: ScalingReplicaSet, message: "Scaled up replica set cart-3 from 0 to 1", lastTimestamp: "` + scenetest.Ago(hour) + `", involvedObject: {kind: Deployment, namespace: shop, name: cart}}`,
			},
			[]string{`Deployment shop/cart was rolled back to what ReplicaSet cart-3 holds, now revision 3 by kubectl-edit [container app image changed from "cart:2" to "cart:1"]`},
		},
		{
			"what it uses was edited, other configuration and its own birth are no news", []string{
				scenetest.EditedDeployment(48 * hour),
				`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: settings, creationTimestamp: "` + scenetest.Ago(300*hour) + `", managedFields: [{manager: helm, operation: Update, time: "` + scenetest.Ago(hour) + `"}]}}`,
				`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: foreign, creationTimestamp: "` + scenetest.Ago(hour) + `"}}`,
				`{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: keys, creationTimestamp: "` + scenetest.Ago(30*24*hour) + `"}}`,
				`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: shop, name: wall, creationTimestamp: "` + scenetest.Ago(3*hour) + `"}}`,
			},
			[]string{
				"ConfigMap shop/settings, which Deployment shop/cart uses, was changed by helm []",
				"NetworkPolicy shop/wall was made by  []",
			},
		},
		{
			"who delivers it", []string{
				scenetest.EditedDeployment(48 * hour),
				`{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: sh.helm.release.v1.shop.v4, labels: {owner: helm, name: shop, version: "4", status: failed}, creationTimestamp: "` + scenetest.Ago(2*hour) + `"}}`,
				`{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {namespace: argocd, name: shop}, status: {sync: {revision: abc123}, operationState: {phase: Failed, finishedAt: "` + scenetest.Ago(3*hour) + `", message: "one or more objects failed to apply"}}}`,
				`{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {namespace: flux-system, name: shop}, status: {lastAppliedRevision: "main@sha1:1", conditions: [{type: Ready, status: "False", reason: BuildFailed, message: "no such file", lastTransitionTime: "` + scenetest.Ago(4*hour) + `"}]}}`,
			},
			[]string{
				"Helm installed revision 4 of release shop: failed by Helm []",
				"Argo CD synced Application argocd/shop to revision abc123: Failed by Argo CD [one or more objects failed to apply]",
				"Flux reconciled Kustomization flux-system/shop: Ready=False, reason BuildFailed, revision main@sha1:1 by Flux [no such file]",
			},
		},
		{
			"its autoscaler and its node", []string{
				scenetest.EditedDeployment(48 * hour),
				`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: shop, name: cart}, spec: {maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: cart}}}`,
				`{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, reason: SuccessfulRescale, message: "New size: 9; reason: cpu above target", lastTimestamp: "` + scenetest.Ago(hour) + `", involvedObject: {kind: HorizontalPodAutoscaler, namespace: shop, name: cart}}`,
				`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart-2-x, labels: {pod-template-hash: "2"}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: cart-2, controller: true, uid: u}]}, spec: {nodeName: n1, containers: []}}`,
				`{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {taints: [{key: maintenance, effect: NoExecute, timeAdded: "` + scenetest.Ago(2*hour) + `"}]}, status: {conditions: [{type: Ready, status: "True", reason: KubeletReady, lastTransitionTime: "` + scenetest.Ago(3*hour) + `"}]}}`,
				`{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {conditions: [{type: Ready, status: "False", reason: Gone, lastTransitionTime: "` + scenetest.Ago(3*hour) + `"}]}}`,
			},
			[]string{
				"Deployment shop/cart was scaled: New size: 9; reason: cpu above target by HorizontalPodAutoscaler cart []",
				"Node n1 got the taint maintenance:NoExecute by  []",
				"Node n1 became Ready=True, reason KubeletReady by  []",
			},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, ch := range changesOf(scenetest.New(t, strings.Join(c.manifests, "\n---\n")), scenetest.Cart, scenetest.Now, text.CutLine) {
				got = append(got, fmt.Sprintf("%s by %s %v", ch.What, ch.Who, ch.Details))
				if ch.At.IsZero() || ch.Correlation == "" || len(ch.Evidence) != 1 || ch.Object.Name == "" {
					t.Errorf("incomplete: %+v", ch)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// A change is told in relation to the first sign of trouble, and from a hostile
// cluster only so much of it.
func TestChangesAreBoundedAndCleaned(t *testing.T) {
	docs := []string{scenetest.EditedDeployment(48 * time.Hour)}
	for i := range 40 {
		docs = append(docs, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: "s%d\u202e", creationTimestamp: %q}}`, i, scenetest.Ago(time.Duration(i)*time.Minute)))
	}
	got := changesOf(scenetest.New(t, strings.Join(docs, "\n---\n")), scenetest.Cart, scenetest.Now.Add(-5*time.Minute), text.CutLine)
	if len(got) != maxChanges || !strings.HasSuffix(got[0].Correlation, "5m0s after the first sign of trouble") {
		t.Fatalf("%d changes, the first %+v", len(got), got[0])
	}
	if last := got[len(got)-1]; last.Correlation != "6m0s before the first sign of trouble" || strings.Contains(last.What, "\u202e") {
		t.Errorf("the last is %+v", last)
	}
}

// Of a Helm release the newest Secrets are read.
func TestNewestReleases(t *testing.T) {
	var docs []string
	for version := range 4 {
		docs = append(docs, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: sh.helm.release.v1.shop.v%d, labels: {owner: helm, name: shop}, creationTimestamp: %q}}`, version, scenetest.Ago(time.Duration(10-version)*time.Hour)))
	}
	s := scenetest.New(t, strings.Join(docs, "\n---\n"))
	want := []string{"sh.helm.release.v1.shop.v3", "sh.helm.release.v1.shop.v2"}
	if got := collect.NewestReleases(s, "shop"); !slices.Equal(got, want) || len(collect.NewestReleases(s, "other")) != 0 {
		t.Errorf("releases to read: %q, want %q", got, want)
	}
}

// A release's chart is told against the one before it, its values never.
func TestChangesOfAChart(t *testing.T) {
	secret := func(version string) string {
		return `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: sh.helm.release.v1.shop.v` + version + `, labels: {owner: helm, name: shop, version: "` + version + `", status: deployed}, creationTimestamp: "` + scenetest.Ago(time.Hour) + `"}}`
	}
	s := scenetest.New(t, strings.Join([]string{scenetest.EditedDeployment(48 * time.Hour), secret("3"), secret("4")}, "\n---\n"))
	for version, chart := range map[int]string{3: "1.4.2", 4: "1.5.0"} {
		rel := changes.Release{Name: "shop", Version: version}
		rel.Chart.Metadata.Name, rel.Chart.Metadata.Version, rel.Info.Description = "shop", chart, "Upgrade complete"
		s.Releases = append(s.Releases, scene.Read[changes.Release]{Object: rel, Ref: scene.Ref{Evidence: "E3", Source: "helm"}})
	}
	got := changesOf(s, scenetest.Cart, scenetest.Now, text.CutLine)
	want := []string{"chart shop 1.5.0, before it shop 1.4.2", "Upgrade complete"}
	if len(got) != 2 || !slices.ContainsFunc(got, func(c nightcrier.Change) bool { return slices.Equal(c.Details, want) }) {
		t.Errorf("got %+v", got)
	}
}
