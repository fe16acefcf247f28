package snapshot

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// column is a column of `kubectl get`. A wide one is shown with -o wide only.
type column struct {
	name string
	wide bool
}

// layout is how objects of a kind are shown: the columns, and the cells of one.
type layout struct {
	columns []column
	cells   func(o *object, now time.Time) ([]any, error)
}

func newColumns(narrow string, wide ...string) []column {
	var list []column
	for _, name := range splitColumns(narrow) {
		list = append(list, column{name: name})
	}
	for _, name := range wide {
		list = append(list, column{name: name, wide: true})
	}
	return list
}

// layoutOf makes a layout of a function on the typed object.
func layoutOf[T any](cols []column, cells func(o *T, now time.Time) []any) layout {
	return layout{cols, func(o *object, now time.Time) ([]any, error) {
		var typed T
		if err := json.Unmarshal(o.raw, &typed); err != nil {
			return nil, err
		}
		return cells(&typed, now), nil
	}}
}

// newTable shows objects as `kubectl get` prints them. Ages are as of the moment of
// the snapshot.
func (a api) newTable(q request, found []*object, meta metav1.ListMeta) metav1.Table {
	show, ok := layouts[q.kind.Name]
	if !ok {
		show = layout{newColumns("Name, Age"), nil}
	}
	t := metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, ListMeta: meta, Rows: []metav1.TableRow{}}
	for _, c := range show.columns {
		d := metav1.TableColumnDefinition{Name: c.name, Type: "string"}
		if c.name == "Name" {
			d.Format = "name"
		}
		if c.wide {
			d.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, d)
	}
	for _, o := range found {
		t.Rows = append(t.Rows, a.newRow(show, o))
	}
	return t
}

func (a api) newRow(show layout, o *object) metav1.TableRow {
	var cells []any
	var err error
	if show.cells != nil {
		cells, err = show.cells(o, a.snap.CapturedAt)
	}
	if cells == nil || err != nil { // an object that is not as its kind should be
		cells = make([]any, len(show.columns))
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
	return formatAge(metav1.NewTime(at), a.snap.CapturedAt)
}

func formatAge(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(at.Time))
}
