package compose

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// Bounds of the timeline.
const (
	// recent is how long before the first sign of trouble a change counts as one to
	// look at.
	recent     = 24 * time.Hour
	maxChanges = 12
	maxDetails = 8
)

// timeline collects what changed before a workload broke.
type timeline struct {
	s     *scene.Scene
	about nightcrier.Object
	broke time.Time
	clean func(s string, limit int) string
	all   []nightcrier.Change
}

// changesOf is what changed around a workload before it broke, the newest first.
func changesOf(s *scene.Scene, about nightcrier.Object, broke time.Time, clean func(string, int) string) []nightcrier.Change {
	t := &timeline{s: s, about: about, broke: broke, clean: clean}
	t.addRollouts()
	t.addDeliveries()
	t.addReleases()
	t.addEdits()
	t.addScaling()
	t.addNodeChanges()
	slices.SortStableFunc(t.all, func(a, b nightcrier.Change) int { return b.At.Compare(a.At) })
	return t.all[:min(len(t.all), maxChanges)]
}

// addChange notes a change, if it is near enough to the trouble to have to do with it.
func (t *timeline) addChange(at time.Time, o nightcrier.Object, ref scene.Ref, who, what string, details ...string) {
	if at.IsZero() || at.Before(t.broke.Add(-recent)) || at.After(t.s.Now) {
		return
	}
	c := nightcrier.Change{
		At: at.UTC(), What: t.clean(what, scene.MaxText), Who: t.clean(who, scene.MaxQuote), Evidence: []string{ref.Evidence},
		Object: nightcrier.Object{Kind: t.clean(o.Kind, scene.MaxQuote), Namespace: t.clean(o.Namespace, scene.MaxQuote), Name: t.clean(o.Name, scene.MaxQuote)},
	}
	for _, d := range details[:min(len(details), maxDetails)] {
		c.Details = append(c.Details, t.clean(d, scene.MaxText))
	}
	if more := len(details) - maxDetails; more > 0 {
		c.Details = append(c.Details, fmt.Sprintf("and %d more", more))
	}
	switch gap := t.broke.Sub(at).Round(time.Second); {
	case gap >= 0:
		c.Correlation = gap.String() + " before the first sign of trouble"
	default:
		c.Correlation = (-gap).String() + " after the first sign of trouble"
	}
	t.all = append(t.all, c)
}

// revision is one state of a workload's Pod template.
type revision struct {
	number   int64
	name     string
	made     time.Time
	template any
	notes    map[string]string
	ref      scene.Ref
}

// revisionNote is where a Deployment numbers its ReplicaSets.
const revisionNote = "deployment.kubernetes.io/revision"

// revisions are those of the workload, the newest first.
func (t *timeline) revisions() []revision {
	var out []revision
	if t.about.Kind == "Deployment" {
		for _, rs := range t.s.ReplicaSets {
			if t.owns(&rs.Object) {
				n, _ := strconv.ParseInt(rs.Object.Annotations[revisionNote], 10, 64) // unnumbered is oldest
				out = append(out, revision{n, rs.Object.Name, rs.Object.CreationTimestamp.Time, asJSON(rs.Object.Spec.Template), rs.Object.Annotations, rs.Ref})
			}
		}
	} else {
		for _, o := range t.s.Others {
			if o.Object.GetKind() != "ControllerRevision" || !t.owns(&o.Object) {
				continue
			}
			n, _, _ := unstructured.NestedInt64(o.Object.Object, "revision")
			template, _, _ := unstructured.NestedMap(o.Object.Object, "data", "spec", "template")
			out = append(out, revision{n, o.Object.GetName(), o.Object.GetCreationTimestamp().Time, template, o.Object.GetAnnotations(), o.Ref})
		}
	}
	slices.SortFunc(out, func(a, b revision) int { return cmp.Or(cmp.Compare(b.number, a.number), b.made.Compare(a.made)) })
	return out
}

func (t *timeline) owns(o metav1.Object) bool {
	up := scene.ControllerOf(o)
	return up.Kind == t.about.Kind && up.Namespace == t.about.Namespace && up.Name == t.about.Name
}

// asJSON is an object as its JSON is decoded.
func asJSON(v any) any {
	body, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	_ = json.Unmarshal(body, &out) // we wrote it
	return out
}

// addRollouts tells what the newest revision of the workload changed.
func (t *timeline) addRollouts() {
	revs := t.revisions()
	if len(revs) == 0 {
		return
	}
	now := revs[0]
	named := fmt.Sprintf("revision %d of %s", now.number, t.about)
	if len(revs) == 1 {
		t.addChange(now.made, t.about, now.ref, t.whoRolled(), named+" is its first")
		return
	}
	details := changes.Between(revs[1].template, now.template, t.clean)
	at, what := now.made, named+" was rolled out"
	switch {
	case now.made.Before(revs[1].made): // an older ReplicaSet was taken up again
		at, what = t.tookUp(now), fmt.Sprintf("%s was rolled back to what ReplicaSet %s holds, now revision %d", t.about, now.name, now.number)
	case restartOnly(details):
		what, details = t.about.String()+" was restarted by hand: "+named, nil
	}
	if cause := now.notes["kubernetes.io/change-cause"]; cause != "" {
		what += " (" + cause + ")"
	}
	t.addChange(at, t.about, now.ref, t.whoRolled(), what, details...)
}

// restartOnly reports whether nothing differs but the mark of kubectl rollout restart.
func restartOnly(details []string) bool {
	return len(details) == 1 && strings.Contains(details[0], "kubectl.kubernetes.io/restartedAt")
}

// tookUp is when the Deployment last scaled a ReplicaSet up, else when it says
// that its rollout moved.
func (t *timeline) tookUp(r revision) time.Time {
	for e := range t.s.EventsAbout(t.about.Kind, t.about.Namespace, t.about.Name) {
		if e.Object.Reason == "ScalingReplicaSet" && strings.HasPrefix(e.Object.Message, "Scaled up replica set "+r.name+" ") {
			return scene.EventLastSeen(&e.Object)
		}
	}
	if d := scene.FindObject(t.s.Deployments, t.about.Namespace, t.about.Name); d != nil {
		for _, c := range d.Object.Status.Conditions {
			if c.Type == appsv1.DeploymentProgressing {
				return c.LastUpdateTime.Time
			}
		}
	}
	return time.Time{}
}

// whoRolled is what last wrote the workload.
func (t *timeline) whoRolled() string {
	meta, _ := t.s.WorkloadOf(t.about)
	if meta == nil {
		return ""
	}
	_, who := scene.LastEdit(meta)
	return who
}

// addDeliveries tells what Argo CD and Flux did last.
func (t *timeline) addDeliveries() {
	for _, o := range t.s.Others {
		text := func(fields ...string) string {
			s, _, _ := unstructured.NestedString(o.Object.Object, fields...)
			return s
		}
		is := nightcrier.Object{Kind: o.Object.GetKind(), Namespace: o.Object.GetNamespace(), Name: o.Object.GetName()}
		switch is.Kind {
		case "Application":
			what := fmt.Sprintf("Argo CD synced %s to revision %s: %s", is, cmp.Or(text("status", "sync", "revision"), "unknown"), cmp.Or(text("status", "operationState", "phase"), text("status", "sync", "status")))
			t.addChange(parseTime(text("status", "operationState", "finishedAt")), is, o.Ref, "Argo CD", what, nonEmpty(text("status", "operationState", "message"))...)
		case "Kustomization", "HelmRelease":
			t.addReconciliation(o, is)
		}
	}
}

// addReconciliation tells what Flux says of its last try.
func (t *timeline) addReconciliation(o scene.Read[unstructured.Unstructured], is nightcrier.Object) {
	conditions, _, _ := unstructured.NestedSlice(o.Object.Object, "status", "conditions")
	revision, _, _ := unstructured.NestedString(o.Object.Object, "status", "lastAppliedRevision")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if c["type"] != "Ready" {
			continue
		}
		at, _ := c["lastTransitionTime"].(string)
		reason, _ := c["reason"].(string)
		message, _ := c["message"].(string)
		what := fmt.Sprintf("Flux reconciled %s: Ready=%v, reason %s", is, c["status"], reason)
		if revision != "" {
			what += ", revision " + revision
		}
		t.addChange(parseTime(at), is, o.Ref, "Flux", what, nonEmpty(message)...)
	}
}

func parseTime(s string) time.Time {
	at, _ := time.Parse(time.RFC3339, s) // unreadable is unknown
	return at
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// addReleases tells of Helm's releases by the labels of the Secrets that it keeps
// them in, and of their charts where those could be read.
func (t *timeline) addReleases() {
	told := map[string]int{}
	for _, sec := range t.s.HelmSecrets(t.about.Namespace) {
		m := sec.Object.ObjectMeta
		name := m.Labels["name"]
		if told[name]++; told[name] > scene.MaxReleases {
			continue
		}
		o := nightcrier.Object{Kind: "HelmRelease", Namespace: m.Namespace, Name: name}
		what := fmt.Sprintf("Helm installed revision %s of release %s: %s", m.Labels["version"], name, cmp.Or(m.Labels["status"], "status unknown"))
		number, _ := strconv.Atoi(m.Labels["version"]) // of none there is no chart
		t.addChange(m.CreationTimestamp.Time, o, sec.Ref, "Helm", what, t.compareCharts(name, number)...)
	}
}

// compareCharts says what a revision of a Helm release brought, against the one before.
func (t *timeline) compareCharts(name string, number int) (out []string) {
	var is, was *changes.Release
	for i := range t.s.Releases {
		switch r := &t.s.Releases[i].Object; {
		case r.Name == name && r.Version == number:
			is = r
		case r.Name == name && r.Version == number-1:
			was = r
		}
	}
	if is == nil {
		return nil
	}
	chart := func(r *changes.Release) string { return r.Chart.Metadata.Name + " " + r.Chart.Metadata.Version }
	line := "chart " + chart(is)
	if was != nil && chart(was) != chart(is) {
		line += ", before it " + chart(was)
	}
	if v := is.Chart.Metadata.AppVersion; v != "" {
		line += ", app version " + v
	}
	return append([]string{line}, nonEmpty(is.Info.Description)...)
}

// addEdits tells of objects beside the workload that somebody wrote.
func (t *timeline) addEdits() {
	s, uses := t.s, configOf(t.s, t.about)
	for i := range s.ConfigMaps {
		t.addEdit("ConfigMap", &s.ConfigMaps[i].Object, s.ConfigMaps[i].Ref, uses)
	}
	for i := range s.Secrets {
		if s.Secrets[i].Object.Labels["owner"] != "helm" {
			t.addEdit("Secret", &s.Secrets[i].Object, s.Secrets[i].Ref, uses)
		}
	}
	for i := range s.Services {
		t.addEdit("Service", &s.Services[i].Object, s.Services[i].Ref, nil)
	}
	for i := range s.NetworkPolicies {
		t.addEdit("NetworkPolicy", &s.NetworkPolicies[i].Object, s.NetworkPolicies[i].Ref, nil)
	}
	for i := range s.Quotas {
		t.addEdit("ResourceQuota", &s.Quotas[i].Object, s.Quotas[i].Ref, nil)
	}
	for i := range s.LimitRanges {
		t.addEdit("LimitRange", &s.LimitRanges[i].Object, s.LimitRanges[i].Ref, nil)
	}
	for i := range s.Ingresses {
		t.addEdit("Ingress", &s.Ingresses[i].Object, s.Ingresses[i].Ref, nil)
	}
}

// newborn is how long after its creation writing an object is still making it.
const newborn = time.Minute

// addEdit tells that an object of the workload's namespace was made or changed, of
// configuration only if the workload uses it.
func (t *timeline) addEdit(kind string, o metav1.Object, ref scene.Ref, uses map[nightcrier.Object]bool) {
	is := nightcrier.Object{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	config := kind == "ConfigMap" || kind == "Secret"
	if is.Namespace != t.about.Namespace || config && !uses[is] {
		return
	}
	what := is.String()
	if config {
		what += ", which " + t.about.String() + " uses,"
	}
	made := o.GetCreationTimestamp().Time
	if at, who := scene.LastEdit(o); at.Sub(made) > newborn {
		t.addChange(at, is, ref, who, what+" was changed")
		return
	} else if bornWith(t.s, t.about, made) {
		return // a namespace that was just set up is no news
	} else {
		t.addChange(made, is, ref, who, what+" was made")
	}
}

// bornWith reports whether something was made together with the workload.
func bornWith(s *scene.Scene, about nightcrier.Object, made time.Time) bool {
	meta, _ := s.WorkloadOf(about)
	return meta != nil && made.Sub(meta.CreationTimestamp.Time).Abs() < newborn
}

// configOf are the ConfigMaps and Secrets that a workload's Pods name.
func configOf(s *scene.Scene, about nightcrier.Object) map[nightcrier.Object]bool {
	uses := map[nightcrier.Object]bool{}
	for _, spec := range podSpecsOf(s, about) {
		note := func(kind, name string) {
			if name != "" {
				uses[nightcrier.Object{Kind: kind, Namespace: about.Namespace, Name: name}] = true
			}
		}
		scene.NamesOfConfig(spec, note)
	}
	return uses
}

// podSpecsOf are the specifications of a workload's Pods: its template's, and
// those of its Pods.
func podSpecsOf(s *scene.Scene, about nightcrier.Object) []corev1.PodSpec {
	var out []corev1.PodSpec
	switch about.Kind {
	case "Deployment":
		if d := scene.FindObject(s.Deployments, about.Namespace, about.Name); d != nil {
			out = append(out, d.Object.Spec.Template.Spec)
		}
	case "StatefulSet":
		if d := scene.FindObject(s.StatefulSets, about.Namespace, about.Name); d != nil {
			out = append(out, d.Object.Spec.Template.Spec)
		}
	case "DaemonSet":
		if d := scene.FindObject(s.DaemonSets, about.Namespace, about.Name); d != nil {
			out = append(out, d.Object.Spec.Template.Spec)
		}
	}
	for p := range s.PodsBelow(about) {
		out = append(out, p.Object.Spec)
		break // they are alike
	}
	return out
}

// addScaling tells of autoscalers' steps, and of scaling that no rollout explains.
func (t *timeline) addScaling() {
	for _, h := range t.s.Autoscalers {
		ref := h.Object.Spec.ScaleTargetRef
		if h.Object.Namespace != t.about.Namespace || ref.Kind != t.about.Kind || ref.Name != t.about.Name {
			continue
		}
		o := nightcrier.Object{Kind: "HorizontalPodAutoscaler", Namespace: h.Object.Namespace, Name: h.Object.Name}
		for e := range t.s.EventsAbout(o.Kind, o.Namespace, o.Name) {
			if e.Object.Reason == "SuccessfulRescale" {
				t.addChange(scene.EventLastSeen(&e.Object), o, e.Ref, o.Kind+" "+o.Name, t.about.String()+" was scaled: "+e.Object.Message)
			}
		}
	}
}

// addNodeChanges tells what happened to the nodes that the workload's Pods are on.
func (t *timeline) addNodeChanges() {
	on := map[string]bool{}
	for p := range t.s.PodsBelow(t.about) {
		on[p.Object.Spec.NodeName] = true
	}
	for _, n := range t.s.Nodes {
		o := nightcrier.Object{Kind: "Node", Name: n.Object.Name}
		if t.about != o && !on[n.Object.Name] {
			continue
		}
		for _, c := range n.Object.Status.Conditions {
			if c.Type == corev1.NodeReady || c.Status == corev1.ConditionTrue {
				t.addChange(c.LastTransitionTime.Time, o, n.Ref, "", fmt.Sprintf("%s became %s=%s, reason %s", o, c.Type, c.Status, c.Reason), nonEmpty(c.Message)...)
			}
		}
		for _, taint := range n.Object.Spec.Taints {
			if taint.TimeAdded != nil {
				t.addChange(taint.TimeAdded.Time, o, n.Ref, "", fmt.Sprintf("%s got the taint %s", o, taint.ToString()))
			}
		}
		for e := range t.s.EventsAbout("Node", "", o.Name) {
			if e.Object.Reason == "Rebooted" {
				t.addChange(scene.EventLastSeen(&e.Object), o, e.Ref, "", o.String()+" was rebooted")
			}
		}
	}
}
