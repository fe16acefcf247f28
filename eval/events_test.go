package eval

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventLine is an Event in one line: "Warning BackOff x12 15m..20s: message".
var eventLine = regexp.MustCompile(`(?s)^(Normal|Warning) (\S+)(?: x(\d+))? ([0-9dhms]+)(?:\.\.([0-9dhms]+))?: (.+)$`)

// component says who reports what the kubelet does not.
var component = map[string]string{
	"Scheduled": "default-scheduler", "FailedScheduling": "default-scheduler", "Preempted": "default-scheduler",
	"ScalingReplicaSet": "deployment-controller", "NotTriggerScaleUp": "cluster-autoscaler", "TriggeredScaleUp": "cluster-autoscaler",
	"NodeNotReady": "node-controller", "RegisteredNode": "node-controller", "TaintManagerEviction": "taint-eviction-controller",
	"SuccessfulRescale": "horizontal-pod-autoscaler", "FailedGetResourceMetric": "horizontal-pod-autoscaler",
	"FailedComputeMetricsReplicas": "horizontal-pod-autoscaler", "FailedGetScale": "horizontal-pod-autoscaler",
	"ProvisioningFailed": "persistentvolume-controller", "WaitForFirstConsumer": "persistentvolume-controller",
	"ExternalProvisioning": "persistentvolume-controller", "FailedBinding": "persistentvolume-controller",
	"FailedAttachVolume": "attachdetach-controller", "SuccessfulAttachVolume": "attachdetach-controller",
	"BackoffLimitExceeded": "job-controller", "DeadlineExceeded": "job-controller", "Completed": "job-controller", "Suspended": "job-controller",
	"NoPods": "controllermanager", "CalculateExpectedPodCountFailed": "controllermanager",
}

func componentOf(reason, kind string) string {
	if c := component[reason]; c != "" {
		return c
	}
	switch kind {
	case "ReplicaSet", "StatefulSet", "DaemonSet", "Job":
		return strings.ToLower(kind) + "-controller"
	case "CronJob":
		return "cronjob-controller"
	case "Service":
		return "service-controller"
	case "HorizontalPodAutoscaler":
		return "horizontal-pod-autoscaler"
	}
	return "kubelet"
}

// about is what an Event is about.
type about struct{ kind, namespace, name, fieldPath, host string }

// event puts an Event, written as one line, on the stage.
func (s *stage) event(of about, line string) error {
	line, err := s.fill(line)
	if err != nil {
		return err
	}
	m := eventLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("event %q is not like \"Warning BackOff x12 15m..20s: message\"", line)
	}
	first, err := span(m[4])
	if err != nil {
		return err
	}
	last := first
	if m[5] != "" {
		if last, err = span(m[5]); err != nil {
			return err
		}
	}
	count := 1
	if m[3] != "" {
		count, _ = strconv.Atoi(m[3])
	}
	ns := of.namespace
	if ns == "" {
		ns = metav1.NamespaceDefault
	}
	by := componentOf(m[2], of.kind)
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      of.name + "." + fmt.Sprintf("%x", uidOf(m[2]+m[6], ns, of.kind+of.name))[:16],
			Namespace: ns, CreationTimestamp: at(first),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: apiVersionOf(of.kind), Kind: of.kind, Namespace: of.namespace, Name: of.name,
			UID: uidOf(of.kind, of.namespace, of.name), FieldPath: of.fieldPath,
		},
		Type: m[1], Reason: m[2], Message: strings.TrimSpace(m[6]), Count: int32(count),
		FirstTimestamp: at(first), LastTimestamp: at(last),
		Source: corev1.EventSource{Component: by}, ReportingController: by,
	}
	if by == "kubelet" {
		e.Source.Host, e.ReportingInstance = of.host, of.host
	}
	if of.kind == "Node" {
		e.InvolvedObject.APIVersion, e.InvolvedObject.UID = "", "" // as kubelets write it
	}
	return s.typed(e)
}

// eventsOf takes {"Deployment/cart": [lines]}; a kind may be followed by
// namespace/name.
func (s *stage) eventsOf(v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("events must be a map from KIND/NAME to lines")
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		of, err := s.objectNamed(key)
		if err != nil {
			return err
		}
		lines, ok := m[key].([]any)
		if !ok {
			return fmt.Errorf("events of %s must be a list", key)
		}
		for _, line := range lines {
			if err := s.event(of, fmt.Sprint(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// objectNamed reads KIND/NAME or KIND/NAMESPACE/NAME.
func (s *stage) objectNamed(key string) (about, error) {
	key, err := s.fill(key)
	part := strings.Split(key, "/")
	of := about{kind: part[0], name: part[len(part)-1]}
	switch {
	case err != nil:
	case len(part) == 3:
		of.namespace = part[1]
	case len(part) != 2:
		err = fmt.Errorf("%q is not KIND/NAME", key)
	case !clusterWide[of.kind]:
		of.namespace = s.Namespace
	}
	return of, err
}

// started are the events of a container that started, as long as they are kept.
func started(image, name string, age time.Duration) []string {
	if age > time.Hour {
		return nil
	}
	secs := fmt.Sprintf("%ds", int(age.Seconds()))
	return []string{
		fmt.Sprintf("Normal Pulled %s: Container image %q already present on machine", secs, image),
		fmt.Sprintf("Normal Created %s: Created container: %s", secs, name),
		fmt.Sprintf("Normal Started %s: Started container %s", secs, name),
	}
}
