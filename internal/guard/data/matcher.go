package data

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/text"
)

// The systems compare and change text before it is masked here. What a question says of
// text would answer, by yes and no, what masking hides: a pattern finds a password letter
// by letter. So it may test labels that identify something by any pattern, all others by
// whole values, and those that speak of secrets not at all.

// identifying are labels that say what was measured or who wrote a line: names, kinds and
// states, which are shown anyway.
var identifying = []string{
	"__name__", "alertname", "alertstate", "app", "apiserver", "apiversion", "channel", "cluster", "code", "component", "condition", "container", "container_name", "controller", "cpu",
	"cronjob", "daemonset", "deployment", "detected_level", "device", "direction", "endpoint", "env", "environment", "exported_container", "exported_instance", "exported_job",
	"exported_namespace", "exported_pod", "exported_service", "filename", "fstype", "group", "handler", "horizontalpodautoscaler", "host", "hostname", "image", "ingress", "instance", "interface", "job",
	"job_name", "kind", "le", "level", "logger", "method", "mode", "mountpoint", "name", "namespace", "node", "node_name", "nodename", "operation", "owner_kind", "owner_name", "persistentvolume",
	"persistentvolumeclaim", "phase", "pod", "pod_name", "poddisruptionbudget", "protocol", "quantile", "queue", "reason", "region", "release", "replicaset", "resource", "resourcequota", "role", "route",
	"rule_group", "scope", "service", "service_name", "service_namespace", "severity", "severity_text", "state", "statefulset", "status", "status_code", "storageclass", "stream", "subresource", "tier", "topic", "type",
	"uid", "unit", "verb", "version", "volumename", "workload", "workload_kind", "workload_name", "workload_type", "zone",
}

// identifyingFamilies begin the names of such labels, as collectors make them of
// Kubernetes' and OpenTelemetry's.
var identifyingFamilies = []string{"app_kubernetes_io_", "k8s_", "label_app_kubernetes_io_", "label_kubernetes_io_", "label_topology_kubernetes_io_"}

func (s *system) isIdentifying(label string) bool {
	return label == s.NamespaceLabel || slices.Contains(identifying, label) ||
		slices.ContainsFunc(identifyingFamilies, func(start string) bool { return strings.HasPrefix(label, start) })
}

// checkMatcher refuses a test of a label that would tell more of its value than an answer
// shows.
func (s *system) checkMatcher(m *labels.Matcher) error {
	pattern := m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp
	switch {
	case mask.NamesSecret(m.Name):
		return nightcrier.Errorf(nightcrier.Refused, "nothing is selected by the label %s: its name speaks of a secret, and an answer would tell what is in it. Leave it out; answers show such a label masked", text.CutBytes(m.Name, 64))
	case !pattern || s.isIdentifying(m.Name) || m.Value == "" || m.Value == ".*" || m.Value == ".+" || len(m.SetMatches()) > 0:
		return nil
	}
	return nightcrier.Errorf(nightcrier.Refused, "a pattern on the label %s is not asked: it would test text before it is masked, piece by piece. Compare whole values, %s=\"a\" or %s=~\"a|b\"; patterns may be on labels that identify, such as namespace, pod, container, job, instance, code", text.CutBytes(m.Name, 64), text.CutBytes(m.Name, 64), text.CutBytes(m.Name, 64))
}

// checkListed refuses to list the values of a label that speaks of secrets.
func checkListed(label string) error {
	if mask.NamesSecret(label) {
		return nightcrier.Errorf(nightcrier.Refused, "the values of %s are not listed: its name speaks of a secret", label)
	}
	return nil
}
