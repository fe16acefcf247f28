package rules

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

const blocked = `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T11:00:00Z"}
spec:
  nodeName: n1
  containers:
  - name: app
    image: cart
    ENV
  volumes: [VOLUME]
status:
  phase: Pending
  containerStatuses: [{name: app, ready: false, state: {waiting: {reason: REASON}}}]
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: conf}, data: {addr: "db:5432"}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: db}, data: {user: ""}}`

// When the kubelet's words are gone, what is named is compared with what is there.
func TestConfigAbsent(t *testing.T) {
	of := func(env, volume, reason string) *scene.Facts {
		return factsOf(scenetest.New(t, strings.NewReplacer("ENV", env, "VOLUME", volume, "REASON", reason).Replace(blocked)))
	}
	const stuck, creating = "CreateContainerConfigError", "ContainerCreating"
	key := func(kind, name, key, more string) string {
		return "env: [{name: X, valueFrom: {" + kind + ": {name: " + name + ", key: " + key + more + "}}}]"
	}
	check(t, []rulecase{
		{"config map", of(key("configMapKeyRef", "cnf", "addr", ""), "", stuck), []string{"missing-configmap"}},
		{"its key", of(key("configMapKeyRef", "conf", "adr", ""), "", stuck), []string{"missing-config-key"}},
		{"secret", of(key("secretKeyRef", "bd", "user", ""), "", stuck), []string{"missing-secret"}},
		{"its key", of(key("secretKeyRef", "db", "usr", ""), "", stuck), []string{"missing-config-key"}},
		{"optional", of(key("configMapKeyRef", "cnf", "addr", ", optional: true"), "", creating), nil},
		{"all of it", of("envFrom: [{configMapRef: {name: cnf}}]", "", stuck), []string{"missing-configmap"}},
		{"volume", of("", "{name: v, configMap: {name: cnf}}", creating), []string{"missing-configmap"}},
		{"item of a volume", of("", "{name: v, configMap: {name: conf, items: [{key: x, path: x}]}}", creating), []string{"missing-config-key"}},
		{"secret volume", of("", "{name: v, secret: {secretName: tls}}", creating), []string{"missing-secret"}},
		{"projected", of("", "{name: v, projected: {sources: [{secret: {name: tls}}]}}", creating), []string{"missing-secret"}},
		{"all there", of(key("secretKeyRef", "db", "user", ""), "{name: v, configMap: {name: conf}}", creating), nil},
		{"runs", of("", "{name: v, configMap: {name: cnf}}", "CrashLoopBackOff"), []string{"crash-on-start"}},
	})
	partial := of(key("configMapKeyRef", "cnf", "addr", ""), "", creating)
	partial.Scene = scenetest.Unlisted(partial.Scene)
	check(t, []rulecase{{"not all were read", partial, nil}})
	if n := ApplyRules(of(key("configMapKeyRef", "cnf", "addr", ""), "", stuck))[0]; !strings.Contains(n.Summary, "ConfigMap cnf, which env X of container app names, does not exist") {
		t.Errorf("%q", n.Summary)
	}
}

func TestRunAsNonRoot(t *testing.T) {
	const config = "CreateContainerConfigError"
	check(t, []rulecase{
		{"root", scenetest.FactsOf(scenetest.Pod(waiting(config, `container has runAsNonRoot and image will run as root (pod: "cart_shop(1)", container: app)`))), []string{"run-as-non-root-refused"}},
		{"a user by name", scenetest.FactsOf(scenetest.Pod(waiting(config, `container has runAsNonRoot and image has non-numeric user (nginx), cannot verify user is non-root (pod: "cart_shop(1)", container: app)`))), []string{"run-as-non-root-refused"}},
		{"user 0", scenetest.FactsOf(scenetest.Pod(waiting(config, `container's runAsUser breaks non-root policy (pod: "cart_shop(1)", container: app)`))), []string{"run-as-non-root-refused"}},
	})
}

func TestImagePlatform(t *testing.T) {
	const pull = `Failed to pull image "cart:7": `
	pulling := func(m string) *scene.Facts {
		return scenetest.FactsOf(scenetest.Pod(waiting("ErrImagePull", m)))
	}
	check(t, []rulecase{
		{"containerd", pulling(pull + `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/cart:7": no match for platform in manifest sha256:1: not found`), []string{"image-platform-mismatch"}},
		{"docker", pulling(pull + `no matching manifest for linux/arm64/v8 in the manifest list entries`), []string{"image-platform-mismatch"}},
		{"windows", pulling(pull + `image operating system "windows" cannot be used on this platform`), []string{"image-platform-mismatch"}},
		{"at the start", scenetest.FactsOf(scenetest.Pod(waiting("RunContainerError", `failed to create containerd task: exec /cart: exec format error: unknown`))), []string{"image-platform-mismatch"}},
		{"another manifest", pulling(pull + "manifest unknown"), []string{"image-not-found"}},
	})
}

func TestUnresolvedReference(t *testing.T) {
	of := func(name, value string) *scene.Facts {
		return scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", 0), env(name, value)))
	}
	later := scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", 0), env("URL", "http://$(HOST)/"), env("HOST", "db")))
	before := scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", 0), env("HOST", "x"), env("URL", "http://$(HOST)/")))
	check(t, []rulecase{
		{"not defined", of("URL", "http://$(DB_HOST):80/"), []string{"bad-env-reference", "crash-on-start"}},
		{"defined later", later, []string{"bad-env-reference", "crash-on-start"}},
		{"defined", before, []string{"crash-on-start"}},
		{"escaped", of("URL", "http://$$(DB_HOST)/"), []string{"crash-on-start"}},
		{"of a Service", of("URL", "http://$(DB_SERVICE_HOST)/"), []string{"crash-on-start"}},
		{"well", scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0), env("URL", "$(X)"))), nil},
	})
}
