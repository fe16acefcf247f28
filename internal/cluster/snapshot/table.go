package snapshot

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"nightcrier.dev/nightcrier/internal/cluster/snapshot/internal/columns"
)

// newTable shows objects as `kubectl get` prints them. Ages are as of the moment of
// the snapshot.
func (a api) newTable(q request, found []*object, meta metav1.ListMeta) metav1.Table {
	show := columns.LayoutOf(q.kind.Name)
	t := metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, ListMeta: meta, Rows: []metav1.TableRow{}}
	for _, c := range show.Columns {
		d := metav1.TableColumnDefinition{Name: c.Name, Type: "string"}
		if c.Name == "Name" {
			d.Format = "name"
		}
		if c.Wide {
			d.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, d)
	}
	for _, o := range found {
		t.Rows = append(t.Rows, a.newRow(show, o))
	}
	return t
}

func (a api) newRow(show columns.Layout, o *object) metav1.TableRow {
	cells := show.Cells(o.raw, a.snap.CapturedAt)
	if cells == nil {
		cells = make([]any, len(show.Columns))
		for i := range cells {
			cells[i] = "<unknown>"
		}
		cells[0], cells[len(cells)-1] = o.name, a.ageOf(o)
	}
	md, err := json.Marshal(o.partialMetadata())
	if err != nil {
		md = nil // a row without is still a row
	}
	return metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Raw: md}}
}

func (a api) ageOf(o *object) string {
	md, _ := o.fields["metadata"].(map[string]any)
	text, _ := md["creationTimestamp"].(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "<unknown>"
	}
	return columns.FormatAge(metav1.NewTime(at), a.snap.CapturedAt)
}
