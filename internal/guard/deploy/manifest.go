package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"k8s.io/apimachinery/pkg/util/validation"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// Bounds of a manifest.
const (
	maxObjects = 30
	maxDepth   = 32
)

// object is one document of a manifest, after it was found to be allowed.
type object struct {
	kind            kinds.Kind
	namespace, name string
	body            map[string]any
	// needs are objects that it points at, which must be ours.
	needs []need
}

// need is an object that another points at, and where it does.
type need struct{ kind, name, at string }

func (o object) String() string { return o.kind.Name + " " + o.namespace + "/" + o.name }

// readManifest reads all documents, and checks each by the policy. The error is that of the
// first that is not allowed.
func (p Policy) readManifest(manifest, namespace string) ([]object, error) {
	docs, fault := strictyaml.ReadNodes([]byte(manifest))
	if fault != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "manifest: line %d: %s", fault.Line, fault.Text)
	}
	switch {
	case len(docs) == 0:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "manifest: it holds no object")
	case len(docs) > maxObjects:
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "manifest: it holds %d objects, and one call applies at most %d: apply it in parts", len(docs), maxObjects)
	}
	var all []object
	seen := map[string]bool{}
	for i, doc := range docs {
		v, err := decodeNode(doc, 0)
		if err == nil {
			var o object
			if o, err = p.readObject(v, namespace); err == nil && seen[o.String()] {
				err = fmt.Errorf("%s stands in the manifest twice", o)
			}
			seen[o.String()] = true
			all = append(all, o)
		}
		if err != nil {
			code := nightcrier.Refused
			if nightcrier.CodeOf(err) == nightcrier.Invalid {
				code = nightcrier.Invalid
			}
			return nil, nightcrier.Errorf(code, "manifest: document %d (line %d): %w", i+1, doc.Line, err)
		}
	}
	return all, nil
}

// decodeNode is what a document says as the API takes it: no keys given twice, no aliases,
// numbers as they are written. Nulls say nothing and are left out.
func decodeNode(n *yaml.Node, depth int) (any, error) {
	invalid := func(format string, args ...any) (any, error) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "line %d: %w", n.Line, fmt.Errorf(format, args...))
	}
	if strictyaml.IsUnsupported(n) {
		return invalid("%w", strictyaml.ErrUnsupported)
	}
	if depth > maxDepth {
		return invalid("more than %d things stand within each other", maxDepth)
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for k, value := range strictyaml.Pairs(n) {
			if strictyaml.IsUnsupported(k) {
				return invalid("%w", strictyaml.ErrUnsupported)
			}
			if k.Kind != yaml.ScalarNode {
				return invalid("a key is no single value")
			}
			if _, twice := m[k.Value]; twice {
				return invalid("the key %.60q is given twice", k.Value)
			}
			v, err := decodeNode(value, depth+1)
			if err != nil {
				return nil, err
			}
			m[k.Value] = v
		}
		for k, v := range m {
			if v == nil {
				delete(m, k)
			}
		}
		return m, nil
	case yaml.SequenceNode:
		l := []any{}
		for _, c := range n.Content {
			v, err := decodeNode(c, depth+1)
			if err != nil {
				return nil, err
			}
			l = append(l, v)
		}
		return l, nil
	case yaml.ScalarNode:
		return decodeScalar(n)
	}
	return invalid("it cannot be read")
}

func decodeScalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		if b, err := strconv.ParseBool(strings.ToLower(n.Value)); err == nil {
			return b, nil
		}
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return i, nil
		}
		return nil, nightcrier.Errorf(nightcrier.Invalid, "line %d: %.40q is too large for a number: put it in quotes if it is text", n.Line, n.Value)
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && f-f == 0 {
			return f, nil
		}
	}
	return n.Value, nil
}

// readObject checks one document, and completes it: its namespace, its mark, and what keeps
// it apart from what others made.
func (p Policy) readObject(v any, namespace string) (object, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return object{}, nightcrier.Errorf(nightcrier.Invalid, "it is no object: apiVersion, kind and metadata are missing")
	}
	apiVersion, _ := m["apiVersion"].(string)
	name, _ := m["kind"].(string)
	if name == "List" || strings.HasSuffix(name, "List") {
		return object{}, fmt.Errorf("a %s is not taken: write its items as documents, with --- between them", text.CutLine(name, 60))
	}
	k, known := kinds.Named(name)
	if !known || !slices.Contains(p.Kinds, name) {
		return object{}, fmt.Errorf("kind %.60q may not be applied by this server, which takes %s", name, text.JoinWords(p.Kinds, "and"))
	}
	if want := strings.TrimPrefix(k.Group+"/"+k.Version, "/"); apiVersion != want {
		return object{}, nightcrier.Errorf(nightcrier.Invalid, "apiVersion of a %s must be %s, not %.60q", name, want, apiVersion)
	}
	o := object{kind: k, body: m}
	c := &checking{policy: p}
	if status, ok := m["status"].(map[string]any); ok && len(status) == 0 {
		delete(m, "status") // generated manifests have it
	}
	if err := c.objectOf(shapeOf(name))("", m); err != nil {
		return o, err
	}
	meta, _ := m["metadata"].(map[string]any)
	if o.name, _ = meta["name"].(string); o.name == "" {
		return o, nightcrier.Errorf(nightcrier.Invalid, "metadata.name is missing")
	}
	if name == "Service" && o.name == "kubernetes" {
		return o, fmt.Errorf("metadata.name: Pods find the API server by the Service kubernetes: use another name")
	}
	o.namespace, _ = meta["namespace"].(string)
	switch {
	case o.namespace == "" && namespace == "":
		return o, nightcrier.Errorf(nightcrier.Invalid, "metadata.namespace is missing: say which of %s", text.JoinWords(p.Namespaces, "and"))
	case o.namespace == "":
		o.namespace = namespace
	case !slices.Contains(p.Namespaces, o.namespace):
		return o, fmt.Errorf("metadata.namespace: this server applies nothing in %.80q, only in %s", o.namespace, text.JoinWords(p.Namespaces, "and"))
	}
	meta["namespace"] = o.namespace
	o.needs = c.needs
	if err := checkSubPaths(podOf(o)); err != nil {
		return o, err
	}
	setMarks(o)
	return o, nil
}

// checkSubPaths lets a part of a volume be mounted only where no container can have put a
// link: in what the cluster itself fills.
func checkSubPaths(pod map[string]any) error {
	filled := map[string]bool{}
	volumes, _ := pod["volumes"].([]any)
	for _, one := range volumes {
		v, _ := one.(map[string]any)
		name, _ := v["name"].(string)
		filled[name] = v["configMap"] != nil || v["secret"] != nil || v["projected"] != nil || v["downwardAPI"] != nil
	}
	for _, list := range []string{"initContainers", "containers"} {
		all, _ := pod[list].([]any)
		for _, one := range all {
			c, _ := one.(map[string]any)
			mounts, _ := c["volumeMounts"].([]any)
			for _, each := range mounts {
				m, _ := each.(map[string]any)
				if name, _ := m["name"].(string); m["subPath"] != nil && !filled[name] {
					return fmt.Errorf("%s: subPath of the volume %.60q may not be set: a container could have put a link there", list, name)
				}
			}
		}
	}
	return nil
}

// checkName is for names that become part of a path.
func checkName(at, name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nightcrier.Errorf(nightcrier.Invalid, "%s: %.80q is not a name: use lower-case letters, digits, '-' and '.'", at, name)
	}
	return nil
}

// setMarks labels an object and the Pods that come of it, and has its selectors ask for the
// label: so a Service leads to no Pods of others, and a workload takes over none.
func setMarks(o object) {
	mark := func(path ...string) {
		m := o.body
		for _, step := range path {
			next, ok := m[step].(map[string]any)
			if !ok {
				next = map[string]any{}
				m[step] = next
			}
			m = next
		}
		m[Mark] = Manager
	}
	mark("metadata", "labels")
	switch o.kind.Name {
	case "Service":
		mark("spec", "selector")
	case "Deployment", "StatefulSet":
		mark("spec", "selector", "matchLabels")
		mark("spec", "template", "metadata", "labels")
	case "Job":
		mark("spec", "template", "metadata", "labels")
	case "CronJob":
		mark("spec", "jobTemplate", "metadata", "labels")
		mark("spec", "jobTemplate", "spec", "template", "metadata", "labels")
	}
	if pod := podOf(o); pod != nil {
		pod["automountServiceAccountToken"] = false
		terms, _ := mapAt(pod, "affinity", "podAntiAffinity")["requiredDuringSchedulingIgnoredDuringExecution"].([]any)
		for _, one := range terms { // where others may not be, those may not come either
			term, _ := one.(map[string]any)
			if selector := mapAt(term, "labelSelector"); selector != nil {
				labels := map[string]any{Mark: Manager}
				maps.Copy(labels, mapAt(selector, "matchLabels"))
				selector["matchLabels"] = labels
			}
		}
	}
}

// templatePath is where a kind has its Pods' template, nil where it has none.
func templatePath(kind string) []string {
	switch kind {
	case "Deployment", "StatefulSet", "Job":
		return []string{"spec", "template"}
	case "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template"}
	}
	return nil
}

func podOf(o object) map[string]any {
	if path := templatePath(o.kind.Name); path != nil {
		return mapAt(o.body, append(path, "spec")...)
	}
	return nil
}

// mapAt walks down to a mapping, nil where there is none.
func mapAt(m map[string]any, path ...string) map[string]any {
	for _, step := range path {
		m, _ = m[step].(map[string]any)
	}
	return m
}

// textAt is a text of an object, "" where there is none.
func textAt(m map[string]any, path ...string) string {
	s, _ := mapAt(m, path[:len(path)-1]...)[path[len(path)-1]].(string)
	return s
}
