package deploy_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/deploy"
)

// podOf is a Deployment whose Pods hold what an attack wants, in their spec, indented by six.
func podOf(name, app, spec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      containers: [{name: c, image: busybox}]
%[3]s`, name, app, spec)
}

func container(fields string) string {
	return strings.Replace(podOf("a", "a", ""), "image: busybox", "image: busybox, "+fields, 1)
}

func metadata(fields string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, " + fields + "}\ndata: {a: b}"
}

func service(fields string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}], " + fields + "}"
}

func ingress(spec string) string {
	return "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\nspec: " + spec
}

// No attack reaches the cluster: none is written, and each is told why.
func TestAttacks(t *testing.T) {
	b := newBench(t, exampleHosts)
	bombs := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n"
	for name, c := range map[string]struct{ manifest, says string }{
		"another namespace":        {metadata("namespace: kube-system"), "kube-system"},
		"a namespace as a path":    {metadata("namespace: ../kube-system"), "not a name"},
		"a name as a path":         {strings.Replace(metadata("labels: {}"), "name: a", "name: ../../secrets/x", 1), "not a name"},
		"a name with a slash":      {strings.Replace(metadata("labels: {}"), "name: a", "name: a/status", 1), "not a name"},
		"a name with a query":      {strings.Replace(metadata("labels: {}"), "name: a", `name: "a?force=true"`, 1), "not a name"},
		"no name":                  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {}", "metadata.name"},
		"generateName":             {metadata("generateName: a-"), "generateName"},
		"ownerReferences":          {metadata("ownerReferences: [{apiVersion: v1, kind: Pod, name: x, uid: y}]"), "ownerReferences"},
		"finalizers":               {metadata("finalizers: [x.io/y]"), "finalizers"},
		"managedFields":            {metadata("managedFields: []"), "managedFields"},
		"annotation of others":     {metadata("annotations: {nginx.ingress.kubernetes.io/configuration-snippet: x}"), "--key"},
		"label of others":          {metadata("labels: {sidecar.istio.io/inject: \"true\"}"), "--key"},
		"somebody else's mark":     {metadata("labels: {nightcrier.dev/deployed-by: me}"), "nightcrier.dev"},
		"a List":                   {"apiVersion: v1\nkind: List\nitems: []", "List"},
		"a ConfigMapList":          {"apiVersion: v1\nkind: ConfigMapList\nitems: []", "List"},
		"a Secret":                 {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}", "Secret"},
		"a Pod":                    {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}", "Pod"},
		"a DaemonSet":              {"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}", "DaemonSet"},
		"a ClusterRoleBinding":     {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}", "ClusterRoleBinding"},
		"a webhook":                {"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}", "Mutating"},
		"a CRD":                    {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}", "CustomResource"},
		"a Namespace":              {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}", "Namespace"},
		"another group's kind":     {"apiVersion: evil.example.com/v1\nkind: Deployment\nmetadata: {name: a}", "apiVersion"},
		"an older version":         {"apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: a}", "apiVersion"},
		"status":                   {metadata("labels: {}") + "\nstatus: {x: y}", "status"},
		"an unknown field":         {container("hostNetwrok: true"), "hostNetwrok"},
		"hostPath":                 {podOf("a", "a", "      volumes: [{name: v, hostPath: {path: /}}]"), "hostPath"},
		"hostNetwork":              {podOf("a", "a", "      hostNetwork: true"), "hostNetwork"},
		"hostPID":                  {podOf("a", "a", "      hostPID: true"), "hostPID"},
		"hostIPC":                  {podOf("a", "a", "      hostIPC: true"), "hostIPC"},
		"another ServiceAccount":   {podOf("a", "a", "      serviceAccountName: admin"), "serviceAccountName"},
		"the ServiceAccount, old":  {podOf("a", "a", "      serviceAccount: admin"), "serviceAccount"},
		"a mounted token":          {podOf("a", "a", "      automountServiceAccountToken: true"), "automountServiceAccountToken"},
		"a projected token":        {podOf("a", "a", "      volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]"), "serviceAccountToken"},
		"ephemeral containers":     {podOf("a", "a", "      ephemeralContainers: [{name: e, image: x}]"), "ephemeralContainers"},
		"nodeName":                 {podOf("a", "a", "      nodeName: n1"), "nodeName"},
		"tolerations":              {podOf("a", "a", "      tolerations: [{operator: Exists}]"), "tolerations"},
		"a priority":               {podOf("a", "a", "      priorityClassName: system-node-critical"), "priorityClassName"},
		"sysctls":                  {podOf("a", "a", "      securityContext: {sysctls: [{name: kernel.msgmax, value: \"1\"}]}"), "sysctls"},
		"a claim of others":        {podOf("a", "a", "      volumes: [{name: v, persistentVolumeClaim: {claimName: db}}]"), "persistentVolumeClaim"},
		"a Secret as a volume":     {podOf("a", "a", "      volumes: [{name: v, secret: {secretName: db}}]"), "--secret"},
		"a projected Secret":       {podOf("a", "a", "      volumes: [{name: v, projected: {sources: [{secret: {name: db}}]}}]"), "--secret"},
		"a CSI volume":             {podOf("a", "a", "      volumes: [{name: v, csi: {driver: x}}]"), "csi"},
		"a Secret to pull with":    {podOf("a", "a", "      imagePullSecrets: [{name: db}]"), "--secret"},
		"a Secret as a variable":   {container("env: [{name: A, valueFrom: {secretKeyRef: {name: db, key: p}}}]"), "--secret"},
		"a Secret as all":          {container("envFrom: [{secretRef: {name: db}}]"), "--secret"},
		"privileged":               {container("securityContext: {privileged: true}"), "privileged"},
		"more rights":              {container("securityContext: {allowPrivilegeEscalation: true}"), "allowPrivilegeEscalation"},
		"a capability":             {container("securityContext: {capabilities: {add: [SYS_ADMIN]}}"), "add[0]"},
		"seccomp off":              {container("securityContext: {seccompProfile: {type: Unconfined}}"), "seccompProfile"},
		"procMount":                {container("securityContext: {procMount: Unmasked}"), "procMount"},
		"a port of the node":       {container("ports: [{containerPort: 80, hostPort: 80}]"), "hostPort"},
		"a device":                 {container("volumeDevices: [{name: v, devicePath: /dev/x}]"), "volumeDevices"},
		"a probe elsewhere":        {container("livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}}"), "host"},
		"a hook elsewhere":         {container("lifecycle: {preStop: {tcpSocket: {host: 10.0.0.1, port: 80}}}"), "host"},
		"a link in a volume":       {strings.Replace(podOf("a", "a", "      volumes: [{name: v, emptyDir: {}}]"), "image: busybox", "image: busybox, volumeMounts: [{name: v, mountPath: /v, subPath: link}]", 1), "subPath"},
		"a path out of a volume":   {strings.Replace(podOf("a", "a", "      volumes: [{name: v, configMap: {name: a}}]"), "image: busybox", "image: busybox, volumeMounts: [{name: v, mountPath: /v, subPath: ../..}]", 1), "subPath"},
		"a path of the container":  {container("volumeMounts: [{name: v, mountPath: /v, subPathExpr: $(A)}]"), "subPathExpr"},
		"propagation":              {container("volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]"), "mountPropagation"},
		"in an init container":     {podOf("a", "a", "      initContainers: [{name: i, image: x, securityContext: {privileged: true}}]"), "initContainers[0]"},
		"in a CronJob":             {"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {hostPID: true, restartPolicy: Never, containers: [{name: c, image: x}]}}}}}", "hostPID"},
		"a Job over other Pods":    {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {manualSelector: true, selector: {}, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}", "manualSelector"},
		"annotations of its Pods":  {strings.Replace(podOf("a", "a", ""), "metadata: {labels:", "metadata: {annotations: {vault.hashicorp.com/agent-inject: \"true\"}, labels:", 1), "--key"},
		"a volume of others":       {"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {volumeClaimTemplates: [{metadata: {name: d}, spec: {volumeName: pv1}}]}", "volumeName"},
		"a thousand Pods":          {strings.Replace(podOf("a", "a", ""), "spec:\n  selector", "spec:\n  replicas: 1000\n  selector", 1), "replicas"},
		"a load balancer":          {service("type: LoadBalancer"), "type"},
		"a node port":              {service("type: NodePort"), "type"},
		"external addresses":       {service("externalIPs: [1.1.1.1]"), "externalIPs"},
		"an external name":         {service("type: ExternalName, externalName: evil.example.com"), "externalName"},
		"a host of others":         {ingress("{rules: [{host: bank.example.com}]}"), "bank.example.com"},
		"every host":               {ingress("{rules: [{http: {paths: []}}]}"), "every host"},
		"a default backend":        {ingress("{defaultBackend: {service: {name: a, port: {number: 80}}}}"), "defaultBackend"},
		"a Service of others":      {ingress("{rules: [{host: a.apps.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: theirs, port: {number: 80}}}}]}}]}"), "theirs"},
		"a certificate of others":  {ingress("{tls: [{secretName: bank}]}"), "--secret"},
		"scaling others":           {"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: theirs}}", "theirs"},
		"others' Pods kept away":   {podOf("a", "a", "      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {}, namespaceSelector: {}}]}}"), "namespaceSelector"},
		"kept away, softly":        {podOf("a", "a", "      affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {topologyKey: kubernetes.io/hostname, namespaces: [prod]}}]}}"), "namespaces"},
		"a host of the world":      {podOf("a", "a", "      hostname: example\n      subdomain: com"), "hostname"},
		"the API server's name":    {strings.Replace(service("selector: {a: b}"), "name: a", "name: kubernetes", 1), "API server"},
		"all hosts of a pattern":   {ingress("{rules: [{host: \"*.apps.example.com\"}]}"), "hosts of others"},
		"a proxy's configuration":  {ingress("{rules: [{host: a.apps.example.com, http: {paths: [{path: \"/a {} } location /b {\", pathType: ImplementationSpecific, backend: {service: {name: a, port: {number: 80}}}}]}}]}"), "more than a path"},
		"a YAML bomb":              {bombs, "anchors"},
		"a deep document":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: " + strings.Repeat("{a: ", 60) + "1" + strings.Repeat("}", 60), "within each other"},
		"brackets without end":     {strings.Repeat("[", 10000), "deep"},
		"a key given twice":        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nmetadata: {name: b}", "twice"},
		"an object given twice":    {metadata("labels: {}") + "\n---\n" + metadata("labels: {}"), "twice"},
		"a tag":                    {"apiVersion: v1\nkind: ConfigMap\nmetadata: !!python/object {name: a}", "tags"},
		"a merge key":              {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n<<: {kind: Secret}", "merge"},
		"too many objects":         {strings.Repeat("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n", 31), "31 objects"},
		"a huge manifest":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("x", 70<<10) + "}", "larger than"},
		"nothing":                  {"---\n---\n", "no object"},
		"a text":                   {"hello", "no object"},
		"JSON of another kind":     {`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"}}`, "ServiceAccount"},
		"the second of a manifest": {metadata("labels: {}") + "\n---\n" + service("type: LoadBalancer"), "document 2"},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := b.apply(c.manifest)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %q, %v; want %q", said, err, c.says)
			}
			if code := nightcrier.CodeOf(err); code != nightcrier.Refused && code != nightcrier.Invalid && code != nightcrier.Exhausted {
				t.Errorf("the code is %q of %v", code, err)
			}
			if len(b.writes) > 0 {
				t.Errorf("written: %v", b.writes)
			}
		})
	}
}

const claiming = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: busybox}]}
  volumeClaimTemplates: [{metadata: {name: data-my}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
`

// A StatefulSet takes no volume of others by a name that adds up to that of their claim.
func TestClaimsOfOthersAreLeftAlone(t *testing.T) {
	claim := func(ns, name string, labels map[string]string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns, Labels: labels},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	}
	b := newBench(t)
	b.api.Create(t, claim(b.ns, "data-my-db-0", map[string]string{deploy.Mark: deploy.Manager}))
	b.api.Create(t, claim(b.ns, "data-my-db-x", nil))
	if said, err := b.apply(claiming); err != nil {
		t.Fatal(said, err)
	}
	written := len(b.writes)
	b.api.Create(t, claim(b.ns, "data-my-db-7", nil)) // of the StatefulSet my-db with the template data
	if said, err := b.apply(strings.Replace(claiming, "spec:", "spec:\n  replicas: 8", 1)); nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), "data-my-db-7") {
		t.Errorf("it says %s, %v", said, err)
	}
	if len(b.writes) != written {
		t.Errorf("written: %v", b.writes[written:])
	}
}

// Pods that may not stand beside others keep only Pods of this server away.
func TestPodsKeepOnlyOursAway(t *testing.T) {
	b := newBench(t)
	if said, err := b.apply(podOf("a", "a", "      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchExpressions: [{key: app, operator: Exists}]}}]}}")); err != nil {
		t.Fatal(said, err)
	}
	got := b.must(t, "kubectl_get", map[string]any{"resource": "deploy", "name": "a"})
	if _, below, _ := strings.Cut(got, "podAntiAffinity"); !strings.Contains(below[:min(400, len(below))], deploy.Mark) {
		t.Errorf("it is %s", got)
	}
}

// What is asked of the other tools leads nowhere else either.
func TestAttacksOnNames(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"kubectl_get", map[string]any{"resource": "secrets"}},
		{"kubectl_get", map[string]any{"resource": "configmaps", "namespace": "kube-system"}},
		{"kubectl_get", map[string]any{"resource": "configmaps", "name": "../secrets/x"}},
		{"kubectl_get", map[string]any{"resource": "pods/exec", "name": "x"}},
		{"kubectl_delete", map[string]any{"kind": "Namespace", "name": "default"}},
		{"kubectl_delete", map[string]any{"kind": "Pod", "name": "x"}},
		{"kubectl_delete", map[string]any{"kind": "ConfigMap", "name": ""}},
		{"kubectl_delete", map[string]any{"kind": "ConfigMap", "name": "x?dryRun=All"}},
		{"kubectl_rollout_status", map[string]any{"kind": "Node", "name": "x"}},
		{"kubectl_rollout_status", map[string]any{"kind": "Deployment", "name": "x", "wait_seconds": 100000}},
	} {
		if said, _, err := b.call(t.Context(), c.tool, c.args); err == nil {
			t.Errorf("%s %v says %s", c.tool, c.args, said)
		}
	}
}

// A policy that would be a hole is refused at the start.
func TestPoliciesThatAreRefused(t *testing.T) {
	b := newBench(t)
	for name, p := range map[string]deploy.Policy{
		"no namespace":    {},
		"kube-system":     {Namespaces: []string{"kube-system"}},
		"no name":         {Namespaces: []string{"../x"}},
		"Secrets":         {Namespaces: []string{b.ns}, Kinds: []string{"Secret"}},
		"every host":      {Namespaces: []string{b.ns}, Hosts: []string{"*"}},
		"every key":       {Namespaces: []string{b.ns}, Keys: []string{"*/*"}},
		"a broken search": {Namespaces: []string{b.ns}, Hosts: []string{"["}},
	} {
		cfg := b.cfg
		cfg.Policy = p
		if _, err := deploy.Open(t.Context(), cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// Values that look like secrets are not repeated, neither in results nor in errors.
func TestAnswersAreMasked(t *testing.T) {
	b := newBench(t)
	if said, err := b.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: hunter2-hunter2}"); err != nil {
		t.Fatal(said, err)
	}
	if said := b.must(t, "kubectl_get", map[string]any{"resource": "cm", "name": "a"}); strings.Contains(said, "hunter2-hunter2") {
		t.Errorf("get says %s", said)
	}
	if said, err := b.apply("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80, name: hunter2-hunter2, protocol: hunter2-hunter2}]}"); err == nil || strings.Contains(err.Error(), "hunter2-hunter2") {
		t.Errorf("%s, %v", said, err)
	}
}
