package mcpserver

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/mask"
)

// maxNamespaces bounds the namespaces of one subscription.
const maxNamespaces = 100

// filters say what a subscriber wants; what is empty selects all.
type filters struct {
	Namespaces        []string `json:"namespaces,omitempty"`
	LabelSelector     string   `json:"labelSelector,omitempty"`
	InvolvedKind      string   `json:"involvedKind,omitempty"`
	InvolvedName      string   `json:"involvedName,omitempty"`
	InvolvedNamespace string   `json:"involvedNamespace,omitempty"`
	Type              string   `json:"type,omitempty"`
	Reason            string   `json:"reason,omitempty"`

	selector labels.Selector // of LabelSelector; nil selects all
}

// readFilters checks the filters of a subscription.
func readFilters(a kubetool.Args, mode string) (filters, error) {
	f := filters{
		Namespaces: a.Strings("namespaces"), LabelSelector: a.String("labelSelector"),
		InvolvedKind: a.String("involvedKind"), InvolvedName: a.String("involvedName"), InvolvedNamespace: a.String("involvedNamespace"),
		Type: a.String("type"), Reason: a.String("reason"),
	}
	wrong := func(format string, args ...any) (filters, error) {
		return f, nightcrier.Errorf(nightcrier.Invalid, "invalid subscription filters: "+format, args...)
	}
	if len(f.Namespaces) > maxNamespaces {
		return wrong("more than %d namespaces; leave them out to watch all", maxNamespaces)
	}
	for _, ns := range append([]string{f.InvolvedNamespace}, f.Namespaces...) {
		if err := (nightcrier.Resource{Kind: cmp.Or(f.InvolvedKind, "x"), Namespace: ns, Name: cmp.Or(f.InvolvedName, "x")}).Check(); err != nil {
			return wrong("%w", err)
		}
	}
	if f.LabelSelector != "" {
		s, err := labels.Parse(f.LabelSelector)
		if err != nil {
			return wrong("invalid label selector: %w", err)
		}
		if label, _ := mask.SelectsBySecret(f.LabelSelector); label != "" {
			return wrong("nothing is selected by what the label %s holds: its name speaks of a secret", label)
		}
		f.selector = s
	}
	switch {
	case f.Type != "" && f.Type != corev1.EventTypeNormal && f.Type != corev1.EventTypeWarning:
		return wrong("type must be 'Normal' or 'Warning'")
	case f.Type == corev1.EventTypeNormal && mode != modeEvents:
		return wrong("%s mode cannot filter for Normal events", mode)
	}
	return f, nil
}

// selectsFault reports whether f selects a fault, its labels apart. The kind and name
// of its owner count as well as its own.
func (f *filters) selectsFault(x detect.Fault) bool {
	return f.selectsObject(x.Resource, x.Owner) && hasPrefixFold(x.Type, f.Reason)
}

// selectsEvent is selectsFault for a Kubernetes event.
func (f *filters) selectsEvent(e *corev1.Event) bool {
	res := involvedResource(e)
	return (f.Type == "" || e.Type == f.Type) && f.selectsObject(res, res) && hasPrefixFold(e.Reason, f.Reason)
}

func (f *filters) selectsObject(res, owner nightcrier.Resource) bool {
	if len(f.Namespaces) > 0 && !slices.Contains(f.Namespaces, res.Namespace) {
		return false
	}
	if f.InvolvedNamespace != "" && f.InvolvedNamespace != res.Namespace {
		return false
	}
	return f.selectsName(res) || f.selectsName(owner)
}

func (f *filters) selectsName(res nightcrier.Resource) bool {
	return (f.InvolvedKind == "" || strings.EqualFold(f.InvolvedKind, res.Kind)) && (f.InvolvedName == "" || f.InvolvedName == res.Name)
}

func hasPrefixFold(s, prefix string) bool {
	return strings.HasPrefix(strings.ToLower(s), strings.ToLower(prefix))
}
