package kubetool

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/text"
)

// The arguments that several tools have.
var (
	kindParam = Param{Name: "kind", Type: String, Required: true,
		About: "Kind, plural or short name (Pod, deployments, sts), custom resources too; with its group behind a dot where it is ambiguous (certificates.cert-manager.io)"}
	groupParam     = Param{Name: "group", Type: String, About: "API group of the kind, where its name alone is ambiguous"}
	nameParam      = Param{Name: "name", Type: String, Required: true, About: "Name of the object"}
	namespaceParam = Param{Name: "namespace", Type: String, Default: "default", About: "Namespace of the object; not used for cluster-wide kinds"}
	anyNamespace   = Param{Name: "namespace", Type: String, About: "Namespace to look in; all namespaces when not given"}
	labelsParam    = Param{Name: "labelSelector", Type: String, About: "Label selector, such as app=cart,tier!=cache"}
	fieldsParam    = Param{Name: "fieldSelector", Type: String, About: "Field selector, such as status.phase!=Running or spec.nodeName=node-1"}
)

var listTool = Tool{
	Name: "kubernetes_list", Title: "Kubernetes: List",
	About: "List objects of a kind as a table, the columns that kubectl shows. Namespaces, nodes, Secrets by name (never their data) and custom resources too.",
	Params: Params{kindParam, groupParam, anyNamespace, labelsParam, fieldsParam,
		{Name: "limit", Type: Integer, Min: 1, Max: 500, Default: 100, About: "The most objects to return"},
		{Name: "continue", Type: String, About: "Token from an earlier answer, to go on behind it"}},
	Output: SchemaOf[Rows](nil), run: listObjects,
}

func listObjects(ctx context.Context, r *reading, a Args) error {
	k, err := r.kindOf(ctx, a.String("kind"), a.String("group"))
	if err != nil {
		return err
	}
	ns := a.String("namespace")
	if err := checkNames(k.Name, ns, "x"); err != nil {
		return err
	}
	values, err := selectorQuery(a)
	if err != nil {
		return err
	}
	values.Set("limit", strconv.Itoa(a.Int("limit")))
	if c := a.String("continue"); c != "" {
		values.Set("continue", c)
	}
	accept := acceptTable
	doc, err := r.readRecorded(ctx, query{path: k.Path(ns), values: values, accept: accept, max: maxList, kind: "list"})
	if err != nil {
		return err
	}
	rows := r.rowsOfList(doc, ns == "" && !k.ClusterWide)
	r.writeTextf("%s%s: %d", k.Plural, inNamespace(k.Kind, ns), len(rows)-1)
	more := TextAt(doc, "metadata", "continue")
	if more != "" {
		r.writeTextf(", and there are more%s", remainingCount(doc))
	}
	r.writeTextf("\n")
	if len(rows) > 1 {
		r.writeTextf("%s", formatTable(rows))
	}
	if more != "" {
		r.writeTextf("(the rest: call again with continue=%s)\n", text.FoldLine(text.MarkHidden(more)))
	}
	r.rest = "narrow it with namespace, labelSelector, fieldSelector or limit"
	shown, cut := firstFitting(rows[1:], r.set.cfg.MaxText)
	r.data = &Rows{Kind: k.Name, Namespace: ns, Columns: rows[0], Rows: shown, Continue: more, Basis: Basis{Truncated: cut}}
	return nil
}

func remainingCount(doc any) string {
	if n, ok := ValueAt(doc, "metadata", "remainingItemCount").(int64); ok {
		return fmt.Sprintf(" (%d)", n)
	}
	return ""
}

func inNamespace(k kinds.Kind, ns string) string {
	switch {
	case k.ClusterWide:
		return ""
	case ns == "":
		return " in all namespaces"
	}
	return " in namespace " + ns
}

// selectorQuery checks the label and field selectors and puts them into a query.
func selectorQuery(a Args) (url.Values, error) {
	q := url.Values{}
	if s := a.String("labelSelector"); s != "" {
		if _, err := labels.Parse(s); err != nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "argument labelSelector: %w", err)
		}
		q.Set("labelSelector", s)
	}
	if s := a.String("fieldSelector"); s != "" {
		if _, err := fields.ParseSelector(s); err != nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "argument fieldSelector: %w", err)
		}
		q.Set("fieldSelector", s)
	}
	return q, nil
}

// checkNames refuses a namespace or a name that no cluster can have.
func checkNames(kind, ns, name string) error {
	return nightcrier.Resource{Kind: kind, Namespace: ns, Name: name}.Check()
}

// rowsOfList makes table rows of what a list answered: the server's own table, or
// name and age of each item.
func (r *reading) rowsOfList(doc any, withNamespace bool) [][]string {
	if TextAt(doc, "kind") == "Table" {
		return tableRows(doc, withNamespace)
	}
	rows := [][]string{{"NAME", "AGE"}}
	if withNamespace {
		rows[0] = append([]string{"NAMESPACE"}, rows[0]...)
	}
	for _, item := range ListAt(doc, "items") {
		row := []string{TextAt(item, "metadata", "name"), formatAge(r.currentTime(), timeAt(item, "metadata", "creationTimestamp"))}
		if withNamespace {
			row = append([]string{TextAt(item, "metadata", "namespace")}, row...)
		}
		rows = append(rows, row)
	}
	return rows
}

// tableRows takes the columns that kubectl shows without being asked for more.
func tableRows(doc any, withNamespace bool) [][]string {
	var head []string
	var shown []int
	if withNamespace {
		head = append(head, "NAMESPACE")
	}
	for i, c := range ListAt(doc, "columnDefinitions") {
		if priority, _ := ValueAt(c, "priority").(int64); priority == 0 {
			head = append(head, strings.ToUpper(TextAt(c, "name")))
			shown = append(shown, i)
		}
	}
	rows := [][]string{head}
	for _, row := range ListAt(doc, "rows") {
		var out []string
		if withNamespace {
			out = append(out, TextAt(row, "object", "metadata", "namespace"))
		}
		cells := ListAt(row, "cells")
		for _, i := range shown {
			cell := ""
			if i < len(cells) && cells[i] != nil {
				cell = fmt.Sprint(cells[i])
			}
			out = append(out, cell)
		}
		rows = append(rows, out)
	}
	return rows
}

func timeAt(doc any, keys ...string) time.Time {
	t, _ := time.Parse(time.RFC3339, TextAt(doc, keys...)) // unreadable is unknown
	return t
}
