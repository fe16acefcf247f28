package kubetool

import (
	"cmp"
	"context"
	"net/url"

	"k8s.io/apimachinery/pkg/api/resource"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

var topTool = Tool{
	Name: "kubernetes_top", Title: "Kubernetes: Top",
	About: "What Pods or nodes use of CPU and memory now, where the cluster has a metrics API.",
	Params: Params{
		{Name: "kind", Type: String, Enum: []string{"pods", "nodes"}, Also: []string{"Pod", "pod", "Node", "node"}, Default: "pods", About: "What to measure"},
		anyNamespace,
		{Name: "name", Type: String, About: "Only this Pod or node"},
		labelsParam},
	Output: SchemaOf[Usage](nil), run: showUsage,
}

func showUsage(ctx context.Context, r *reading, a Args) error {
	k := kinds.MustNamed("PodMetrics")
	if word := a.String("kind"); word[0] == 'n' || word[0] == 'N' {
		k = kinds.MustNamed("NodeMetrics")
	}
	ns, name := a.String("namespace"), a.String("name")
	if err := checkNames(k.Name, ns, cmp.Or(name, "x")); err != nil {
		return err
	}
	values, err := selectorQuery(a)
	if err != nil {
		return err
	}
	q := query{path: k.Path(ns), values: values, accept: acceptJSON, max: maxList, kind: "list"}
	if name != "" {
		if ns == "" && !k.ClusterWide {
			return nightcrier.Errorf(nightcrier.Invalid, "argument namespace is missing: name the namespace of Pod %s", name)
		}
		q.path, q.values, q.kind = q.path+"/"+url.PathEscape(name), nil, "object"
	}
	doc, err := r.readRecorded(ctx, q)
	if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.Unreachable && ctx.Err() == nil {
		return nightcrier.Errorf(code, "no metrics (is there a metrics API, metrics.k8s.io, in the cluster, and such an object?): %w", err)
	}
	if err != nil {
		return err
	}
	items := ListAt(doc, "items")
	if name != "" {
		items = []any{doc}
	}
	rows := usageRows(items, k)
	r.writeTextf("%s%s: %d\n%s", k.Plural, inNamespace(k, ns), len(items), formatTable(rows))
	r.rest = "narrow it with namespace, name or labelSelector"
	shown, cut := firstFitting(usageOf(rows[1:], k), r.set.cfg.MaxText)
	r.data = &Usage{Usage: shown, Basis: Basis{Truncated: cut}}
	return nil
}

func usageOf(rows [][]string, k kinds.Kind) (all []UsageRow) {
	for _, row := range rows {
		one := UsageRow{CPU: row[len(row)-2], Memory: row[len(row)-1]}
		if k.ClusterWide {
			one.Node = row[0]
		} else {
			one.Namespace, one.Pod, one.Container = row[0], row[1], row[2]
		}
		all = append(all, one)
	}
	return all
}

// usageRows has a row for each node, or each container of each Pod.
func usageRows(items []any, k kinds.Kind) [][]string {
	if k.ClusterWide {
		rows := [][]string{{"NODE", "CPU", "MEMORY"}}
		for _, n := range items {
			rows = append(rows, append([]string{TextAt(n, "metadata", "name")}, formatUsage(ValueAt(n, "usage"))...))
		}
		return rows
	}
	rows := [][]string{{"NAMESPACE", "POD", "CONTAINER", "CPU", "MEMORY"}}
	for _, p := range items {
		for _, c := range ListAt(p, "containers") {
			row := []string{TextAt(p, "metadata", "namespace"), TextAt(p, "metadata", "name"), TextAt(c, "name")}
			rows = append(rows, append(row, formatUsage(ValueAt(c, "usage"))...))
		}
	}
	return rows
}

// formatUsage writes CPU in thousandths of a core and memory in MiB.
func formatUsage(doc any) []string {
	out := []string{TextAt(doc, "cpu"), TextAt(doc, "memory")}
	if q, err := resource.ParseQuantity(out[0]); err == nil {
		out[0] = resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI).String()
	}
	if q, err := resource.ParseQuantity(out[1]); err == nil {
		out[1] = resource.NewQuantity((q.Value()+(1<<20)-1)>>20<<20, resource.BinarySI).String()
	}
	return out
}
