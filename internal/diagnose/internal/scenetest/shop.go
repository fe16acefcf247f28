package scenetest

import (
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// WellShop is a namespace of three workloads, each behind its Service: web talks to cart
// and cart to db, by their settings; web stands behind an Ingress.
var WellShop = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: shop, name: front}, spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 8080}}}}]}}]}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: shop, name: web}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data}, spec: {storageClassName: fast, volumeName: pv-1}, status: {phase: Bound}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: cart-config}, data: {DB_ADDR: "db:5432"}}
---
` + WellWorkload("web", `{name: CART_URL, value: "http://cart:8080"}`, "") + "\n---\n" +
	WellWorkload("cart", `{name: X, valueFrom: {configMapKeyRef: {name: cart-config, key: DB_ADDR}}}`, "") + "\n---\n" +
	WellWorkload("db", `{name: MODE, value: web}`, `{name: d, persistentVolumeClaim: {claimName: data}}`)

// WellWorkload is a Deployment that is well, its Pod and its Service.
func WellWorkload(name, env, volume string) string {
	return strings.NewReplacer("NAME", name, "ENV", env, "VOLUME", volume).Replace(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: NAME}, spec: {replicas: 1, selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {volumes: [VOLUME], containers: [{name: app, env: [ENV], ports: [{containerPort: 8080}]}]}}}, status: {replicas: 1, readyReplicas: 1, availableReplicas: 1, updatedReplicas: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: NAME-5d4f8c7b9d-x2x4z, creationTimestamp: "2026-03-01T10:00:00Z", labels: {app: NAME, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: NAME-5d4f8c7b9d, uid: u, controller: true}]}, spec: {nodeName: n1, volumes: [VOLUME], containers: [{name: app, env: [ENV], ports: [{containerPort: 8080}]}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: app, ready: true, state: {running: {startedAt: "2026-03-01T10:00:00Z"}}}]}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: NAME}, spec: {clusterIP: 10.0.0.9, selector: {app: NAME}, ports: [{port: 8080, targetPort: 8080}]}}`)
}

// InShop names an object of namespace shop, or a cluster-wide one.
func InShop(kind, name string) nightcrier.Object {
	if kind == "Node" || kind == "StorageClass" || kind == "PersistentVolume" {
		return nightcrier.Object{Kind: kind, Name: name}
	}
	return nightcrier.Object{Kind: kind, Namespace: "shop", Name: name}
}

// Headline is a finding in short: its cause and its object.
func Headline(n scene.Finding) string { return n.Cause + " " + n.Object.Kind + " " + n.Object.Name }

// JoinDocs joins YAML documents.
func JoinDocs(all ...string) string { return strings.Join(all, "\n---\n") }

// LongName and short are how long ago things were made.
var LongName, Short = Now.Add(-time.Hour).Format(time.RFC3339), Now.Add(-time.Minute).Format(time.RFC3339)

// ServiceOf is a Service of namespace shop.
func ServiceOf(name, selector, ports string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: %s, creationTimestamp: %q}, spec: {clusterIP: 10.96.0.7, selector: {%s}, ports: [%s]}}`, name, LongName, selector, ports)
}

// Port80 leads to the port that a container of these tests listens on.
const Port80 = "{port: 80, targetPort: 8080}"

// Cart is the Deployment that most tests are about.
var Cart = nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}

// Ago writes when it was so long before now.
func Ago(d time.Duration) string { return Now.Add(-d).UTC().Format(time.RFC3339) }

// EditedDeployment is Deployment cart, which somebody edited so long ago.
func EditedDeployment(edited time.Duration) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  namespace: shop
  name: cart
  creationTimestamp: %q
  labels: {kustomize.toolkit.fluxcd.io/name: shop, kustomize.toolkit.fluxcd.io/namespace: flux-system}
  managedFields: [{manager: kubectl-edit, operation: Update, time: %q}]
spec:
  selector: {matchLabels: {app: cart}}
  template:
    spec:
      containers: [{name: app, image: "cart:2", envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: keys}}]}]`,
		Ago(30*24*time.Hour), Ago(edited))
}

// CartDeployment is Deployment cart, with more of a spec and a status.
func CartDeployment(spec, status string) string {
	return `
{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {` + spec + ` template: {metadata: {labels: {app: cart}}}}, status: {` + status + `}}
`
}

// CartService is the Service before Deployment cart.
const CartService = `---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: cart}, spec: {selector: {app: cart}, ports: [{port: 80}]}}`
