// Package columns knows what `kubectl get` shows of objects: the columns of a kind, and the
// cells of one object.
package columns

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Column is one of `kubectl get`. A wide one is shown with -o wide only.
type Column struct {
	Name string
	Wide bool
}

// Layout is how objects of a kind are shown: the columns, and the cells of one.
type Layout struct {
	Columns []Column
	// Cells returns nil for an object that is not as its kind should be. Ages are as of
	// now.
	Cells func(raw []byte, now time.Time) []any
}

// LayoutOf is that of a kind. Of one that nobody knows there are a name and an age.
func LayoutOf(kind string) Layout {
	if known, ok := layouts[kind]; ok {
		return known
	}
	return Layout{newColumns("Name, Age"), func([]byte, time.Time) []any { return nil }}
}

func newColumns(narrow string, wide ...string) []Column {
	var list []Column
	for _, name := range splitColumns(narrow) {
		list = append(list, Column{Name: name})
	}
	for _, name := range wide {
		list = append(list, Column{Name: name, Wide: true})
	}
	return list
}

// layoutOf makes a layout of a function on the typed object.
func layoutOf[T any](cols []Column, cells func(o *T, now time.Time) []any) Layout {
	return Layout{cols, func(raw []byte, now time.Time) []any {
		var typed T
		if json.Unmarshal(raw, &typed) != nil {
			return nil
		}
		return cells(&typed, now)
	}}
}

// FormatAge writes how long ago something was.
func FormatAge(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(at.Time))
}
