package columns

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

func splitColumns(names string) []string { return strings.Split(names, ", ") }

// layouts are the columns that people know of kubectl. Kinds that are not here
// have a name and an age.
var layouts = map[string]Layout{
	"Pod": layoutOf(newColumns("Name, Ready, Status, Restarts, Age", "IP", "Node", "Nominated Node", "Readiness Gates"), podCells),
	"Deployment": layoutOf(newColumns("Name, Ready, Up-to-date, Available, Age", "Containers", "Images", "Selector"), func(d *appsv1.Deployment, now time.Time) []any {
		names, images := templateOf(d.Spec.Template)
		return []any{d.Name, readyRatio(d.Status.ReadyReplicas, d.Spec.Replicas), d.Status.UpdatedReplicas, d.Status.AvailableReplicas, FormatAge(d.CreationTimestamp, now),
			names, images, metav1.FormatLabelSelector(d.Spec.Selector)}
	}),
	"ReplicaSet": layoutOf(newColumns("Name, Desired, Current, Ready, Age", "Containers", "Images", "Selector"), func(s *appsv1.ReplicaSet, now time.Time) []any {
		names, images := templateOf(s.Spec.Template)
		return []any{s.Name, replicaCount(s.Spec.Replicas), s.Status.Replicas, s.Status.ReadyReplicas, FormatAge(s.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(s.Spec.Selector)}
	}),
	"StatefulSet": layoutOf(newColumns("Name, Ready, Age", "Containers", "Images"), func(s *appsv1.StatefulSet, now time.Time) []any {
		names, images := templateOf(s.Spec.Template)
		return []any{s.Name, readyRatio(s.Status.ReadyReplicas, s.Spec.Replicas), FormatAge(s.CreationTimestamp, now), names, images}
	}),
	"DaemonSet": layoutOf(newColumns("Name, Desired, Current, Ready, Up-to-date, Available, Node Selector, Age", "Containers", "Images", "Selector"), func(s *appsv1.DaemonSet, now time.Time) []any {
		names, images := templateOf(s.Spec.Template)
		st := s.Status
		return []any{s.Name, st.DesiredNumberScheduled, st.CurrentNumberScheduled, st.NumberReady, st.UpdatedNumberScheduled, st.NumberAvailable,
			joinLabels(s.Spec.Template.Spec.NodeSelector), FormatAge(s.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(s.Spec.Selector)}
	}),
	"Job":     layoutOf(newColumns("Name, Status, Completions, Duration, Age", "Containers", "Images", "Selector"), jobCells),
	"CronJob": layoutOf(newColumns("Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age", "Containers", "Images"), cronJobCells),
	"Service": layoutOf(newColumns("Name, Type, Cluster-IP, External-IP, Port(s), Age", "Selector"), serviceCells),
	"Node":    layoutOf(newColumns("Name, Status, Roles, Age, Version", "Internal-IP", "OS-Image", "Kernel-Version", "Container-Runtime"), nodeCells),
	"Event":   layoutOf(newColumns("Last Seen, Type, Reason, Object, Message", "Source", "First Seen", "Count", "Name"), eventCells),
	"Namespace": layoutOf(newColumns("Name, Status, Age"), func(n *corev1.Namespace, now time.Time) []any {
		return []any{n.Name, string(n.Status.Phase), FormatAge(n.CreationTimestamp, now)}
	}),
	"ConfigMap": layoutOf(newColumns("Name, Data, Age"), func(m *corev1.ConfigMap, now time.Time) []any {
		return []any{m.Name, len(m.Data) + len(m.BinaryData), FormatAge(m.CreationTimestamp, now)}
	}),
	"Secret": layoutOf(newColumns("Name, Type, Data, Age"), func(s *corev1.Secret, now time.Time) []any {
		return []any{s.Name, string(s.Type), len(s.Data), FormatAge(s.CreationTimestamp, now)}
	}),
	"PersistentVolumeClaim": layoutOf(newColumns("Name, Status, Volume, Capacity, Access Modes, StorageClass, Age", "VolumeMode"), func(c *corev1.PersistentVolumeClaim, now time.Time) []any {
		size := c.Status.Capacity[corev1.ResourceStorage]
		capacity := ""
		if c.Spec.VolumeName != "" {
			capacity = size.String()
		}
		return []any{c.Name, string(c.Status.Phase), c.Spec.VolumeName, capacity, joinAccessModes(c.Status.AccessModes), valueOrZero(c.Spec.StorageClassName), FormatAge(c.CreationTimestamp, now),
			string(valueOrZero(c.Spec.VolumeMode))}
	}),
	"PersistentVolume": layoutOf(newColumns("Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, Reason, Age"), func(v *corev1.PersistentVolume, now time.Time) []any {
		size, claim := v.Spec.Capacity[corev1.ResourceStorage], ""
		if ref := v.Spec.ClaimRef; ref != nil {
			claim = ref.Namespace + "/" + ref.Name
		}
		return []any{v.Name, size.String(), joinAccessModes(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), string(v.Status.Phase), claim, v.Spec.StorageClassName, v.Status.Reason,
			FormatAge(v.CreationTimestamp, now)}
	}),
	"StorageClass": layoutOf(newColumns("Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age"), func(c *storagev1.StorageClass, now time.Time) []any {
		name := c.Name
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			name += " (default)"
		}
		return []any{name, c.Provisioner, string(valueOrZero(c.ReclaimPolicy)), string(valueOrZero(c.VolumeBindingMode)), valueOrZero(c.AllowVolumeExpansion), FormatAge(c.CreationTimestamp, now)}
	}),
	"EndpointSlice": layoutOf(newColumns("Name, AddressType, Ports, Endpoints, Age"), sliceCells),
	"Ingress":       layoutOf(newColumns("Name, Class, Hosts, Address, Ports, Age"), ingressCells),
	"NetworkPolicy": layoutOf(newColumns("Name, Pod-Selector, Age"), func(p *networkingv1.NetworkPolicy, now time.Time) []any {
		return []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), FormatAge(p.CreationTimestamp, now)}
	}),
	"HorizontalPodAutoscaler": layoutOf(newColumns("Name, Reference, Targets, MinPods, MaxPods, Replicas, Age"), autoscalerCells),
	"PodDisruptionBudget": layoutOf(newColumns("Name, Min Available, Max Unavailable, Allowed Disruptions, Age"), func(b *policyv1.PodDisruptionBudget, now time.Time) []any {
		least, most := "N/A", "N/A"
		if v := b.Spec.MinAvailable; v != nil {
			least = v.String()
		}
		if v := b.Spec.MaxUnavailable; v != nil {
			most = v.String()
		}
		return []any{b.Name, least, most, b.Status.DisruptionsAllowed, FormatAge(b.CreationTimestamp, now)}
	}),
	"ResourceQuota": layoutOf(newColumns("Name, Request, Limit, Age"), quotaCells),
}

func valueOrZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// replicaCount is a number of replicas, which is one when nobody said it.
func replicaCount(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func readyRatio(ready int32, want *int32) string {
	return fmt.Sprintf("%d/%d", ready, replicaCount(want))
}

func templateOf(t corev1.PodTemplateSpec) (names, images string) {
	var n, i []string
	for _, c := range t.Spec.Containers {
		n, i = append(n, c.Name), append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

// joinLabels writes a map of labels as selectors are written.
func joinLabels(m map[string]string) string {
	if len(m) == 0 {
		return "<none>"
	}
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key+"="+m[key])
	}
	return strings.Join(list, ",")
}

func orNone(list []string) string { return cmp.Or(strings.Join(list, ","), "<none>") }

func joinAccessModes(list []corev1.PersistentVolumeAccessMode) string {
	short := map[corev1.PersistentVolumeAccessMode]string{
		corev1.ReadWriteOnce: "RWO", corev1.ReadOnlyMany: "ROX", corev1.ReadWriteMany: "RWX", corev1.ReadWriteOncePod: "RWOP",
	}
	var out []string
	for _, m := range list {
		out = append(out, cmp.Or(short[m], string(m)))
	}
	return strings.Join(out, ",")
}

func jobCells(j *batchv1.Job, now time.Time) []any {
	status, took := "Running", ""
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed || c.Type == batchv1.JobSuspended) {
			status = string(c.Type)
		}
	}
	if start := j.Status.StartTime; start != nil {
		end := now
		if j.Status.CompletionTime != nil {
			end = j.Status.CompletionTime.Time
		}
		took = duration.HumanDuration(end.Sub(start.Time))
	}
	names, images := templateOf(j.Spec.Template)
	return []any{j.Name, status, readyRatio(j.Status.Succeeded, j.Spec.Completions), took, FormatAge(j.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(j.Spec.Selector)}
}

func cronJobCells(c *batchv1.CronJob, now time.Time) []any {
	last := "<none>"
	if c.Status.LastScheduleTime != nil {
		last = FormatAge(*c.Status.LastScheduleTime, now)
	}
	names, images := templateOf(c.Spec.JobTemplate.Spec.Template)
	suspend := "False"
	if valueOrZero(c.Spec.Suspend) {
		suspend = "True"
	}
	return []any{c.Name, c.Spec.Schedule, cmp.Or(valueOrZero(c.Spec.TimeZone), "<none>"), suspend, len(c.Status.Active), last, FormatAge(c.CreationTimestamp, now), names, images}
}

func serviceCells(s *corev1.Service, now time.Time) []any {
	var outside, ports []string
	outside = append(outside, s.Spec.ExternalIPs...)
	for _, in := range s.Status.LoadBalancer.Ingress {
		outside = append(outside, cmp.Or(in.IP, in.Hostname))
	}
	shown := orNone(outside)
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		shown = s.Spec.ExternalName
	case s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(outside) == 0:
		shown = "<pending>"
	}
	for _, p := range s.Spec.Ports {
		port := strconv.Itoa(int(p.Port))
		if p.NodePort > 0 {
			port += ":" + strconv.Itoa(int(p.NodePort))
		}
		ports = append(ports, port+"/"+string(cmp.Or(p.Protocol, corev1.ProtocolTCP)))
	}
	return []any{s.Name, string(cmp.Or(s.Spec.Type, corev1.ServiceTypeClusterIP)), cmp.Or(s.Spec.ClusterIP, "<none>"), shown, orNone(ports), FormatAge(s.CreationTimestamp, now), joinLabels(s.Spec.Selector)}
}

func nodeCells(n *corev1.Node, now time.Time) []any {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = "NotReady"
			if c.Status == corev1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	var roles []string
	for label := range n.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	ip := "<none>"
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			ip = a.Address
		}
	}
	info := n.Status.NodeInfo
	return []any{n.Name, status, orNone(roles), FormatAge(n.CreationTimestamp, now), info.KubeletVersion, ip, info.OSImage, info.KernelVersion, info.ContainerRuntimeVersion}
}

func eventCells(e *corev1.Event, now time.Time) []any {
	first := e.FirstTimestamp
	if first.IsZero() {
		first = metav1.NewTime(e.EventTime.Time)
	}
	last := e.LastTimestamp
	if last.IsZero() {
		last = first
	}
	times := e.Count
	if e.Series != nil {
		last, times = metav1.NewTime(e.Series.LastObservedTime.Time), e.Series.Count
	}
	return []any{FormatAge(last, now), e.Type, e.Reason, strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name, strings.TrimSpace(e.Message),
		cmp.Or(e.Source.Component, e.ReportingController), FormatAge(first, now), max(times, 1), e.Name}
}

func sliceCells(s *discoveryv1.EndpointSlice, now time.Time) []any {
	var ports, addresses []string
	for _, p := range s.Ports {
		if p.Port != nil {
			ports = append(ports, strconv.Itoa(int(*p.Port)))
		}
	}
	for _, e := range s.Endpoints {
		addresses = append(addresses, e.Addresses...)
	}
	if len(addresses) > 3 {
		addresses = append(addresses[:3:3], fmt.Sprintf("+ %d more...", len(addresses)-3))
	}
	return []any{s.Name, string(s.AddressType), orNone(ports), orNone(addresses), FormatAge(s.CreationTimestamp, now)}
}

func ingressCells(i *networkingv1.Ingress, now time.Time) []any {
	var hosts, addresses []string
	for _, r := range i.Spec.Rules {
		hosts = append(hosts, cmp.Or(r.Host, "*"))
	}
	for _, in := range i.Status.LoadBalancer.Ingress {
		addresses = append(addresses, cmp.Or(in.IP, in.Hostname))
	}
	ports := "80"
	if len(i.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	return []any{i.Name, cmp.Or(valueOrZero(i.Spec.IngressClassName), "<none>"), cmp.Or(strings.Join(hosts, ","), "*"), strings.Join(addresses, ","), ports, FormatAge(i.CreationTimestamp, now)}
}

func autoscalerCells(a *autoscalingv2.HorizontalPodAutoscaler, now time.Time) []any {
	var targets []string
	for i, m := range a.Spec.Metrics {
		if m.Resource == nil {
			continue
		}
		have, want := "<unknown>", valueOrZero(m.Resource.Target.AverageUtilization)
		if i < len(a.Status.CurrentMetrics) && a.Status.CurrentMetrics[i].Resource != nil {
			if v := a.Status.CurrentMetrics[i].Resource.Current.AverageUtilization; v != nil {
				have = fmt.Sprintf("%d%%", *v)
			}
		}
		targets = append(targets, fmt.Sprintf("%s: %s/%d%%", m.Resource.Name, have, want))
	}
	ref := a.Spec.ScaleTargetRef
	return []any{a.Name, ref.Kind + "/" + ref.Name, cmp.Or(strings.Join(targets, ", "), "<unknown>"), replicaCount(a.Spec.MinReplicas), a.Spec.MaxReplicas, a.Status.CurrentReplicas, FormatAge(a.CreationTimestamp, now)}
}

func quotaCells(q *corev1.ResourceQuota, now time.Time) []any {
	var requests, limits []string
	for name := range q.Status.Hard {
		used, hard := q.Status.Used[name], q.Status.Hard[name]
		text := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits.") {
			limits = append(limits, text)
		} else {
			requests = append(requests, text)
		}
	}
	slices.Sort(requests)
	slices.Sort(limits)
	return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), FormatAge(q.CreationTimestamp, now)}
}
