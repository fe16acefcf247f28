package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// listVersion is the resourceVersion of every list: nothing changes in here.
const listVersion = "1"

// selector chooses objects of a list.
type selector struct {
	labels labels.Selector
	fields fields.Selector
}

func selectorOf(q url.Values) (s selector, err error) {
	if s.labels, err = labels.Parse(q.Get("labelSelector")); err != nil {
		return s, err
	}
	s.fields, err = fields.ParseSelector(q.Get("fieldSelector"))
	return s, err
}

func (s selector) matchesObject(o *object) bool {
	return s.labels.Matches(labels.Set(o.labels)) && (s.fields.Empty() || s.fields.Matches(fieldsOf{o}))
}

// fieldsOf reads an object by the dotted names of field selectors.
type fieldsOf struct{ *object }

// Has implements fields.Fields.
func (f fieldsOf) Has(field string) bool { return true }

// Get implements fields.Fields. What is not there is empty, as the API has it.
func (f fieldsOf) Get(field string) string {
	if f.fields["kind"] == "Event" && (field == "source" || field == "reportingComponent") {
		return cmp.Or(f.textOfField("source.component"), f.textOfField("reportingComponent"))
	}
	return f.textOfField(field)
}

func (f fieldsOf) textOfField(field string) string {
	var v any = f.fields
	for name := range strings.SplitSeq(field, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[name]
	}
	switch v := v.(type) {
	case nil, map[string]any, []any:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// answerList answers a list, or starts a watch.
func (a api) answerList(w http.ResponseWriter, r *http.Request, q request) {
	query := r.URL.Query()
	sel, err := selectorOf(query)
	if err != nil {
		writeFailure(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if why := a.snap.whyWithheld(q.collection, q.namespace, query); why != "" {
		notCaptured(w, "list", q, why)
		return
	}
	var found []*object
	for _, o := range q.objects {
		if (q.namespace == "" || o.namespace == q.namespace) && sel.matchesObject(o) {
			found = append(found, o)
		}
	}
	if watch, _ := strconv.ParseBool(query.Get("watch")); watch {
		a.answerWatch(w, r, q, found)
		return
	}
	meta := metav1.ListMeta{ResourceVersion: listVersion}
	if found, err = cutPage(found, query, &meta); err != nil {
		writeFailure(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	writeAnswer(w, http.StatusOK, a.listInForm(q, found, meta))
}

// cutPage cuts a list to the part that is asked for. A continue token is the place
// where the next part begins.
func cutPage(found []*object, query url.Values, meta *metav1.ListMeta) ([]*object, error) {
	from := 0
	if token := query.Get("continue"); token != "" {
		var err error
		if from, err = strconv.Atoi(token); err != nil || from < 0 || from > len(found) {
			return nil, fmt.Errorf("continue: %q is no token of this list", token)
		}
	}
	found = found[from:]
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit <= 0 || limit >= len(found) {
		return found, nil
	}
	left := int64(len(found) - limit)
	meta.Continue, meta.RemainingItemCount = strconv.Itoa(from+limit), &left
	return found[:limit], nil
}

// listInForm returns a list in the form that is wanted.
func (a api) listInForm(q request, found []*object, meta metav1.ListMeta) any {
	if q.form == tableForm {
		return a.newTable(q, found, meta)
	}
	apiVersion, name := q.APIVersion(), q.kind.Name+"List"
	items := make([]any, 0, len(found))
	for _, o := range found {
		if q.form == metadataForm {
			items = append(items, o.partialMetadata())
		} else {
			items = append(items, json.RawMessage(o.raw))
		}
	}
	if q.form == metadataForm {
		apiVersion, name = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return map[string]any{"apiVersion": apiVersion, "kind": name, "metadata": meta, "items": items}
}

// answerWatch tells what there is, when that is asked for, and then nothing: it stays
// open until the caller leaves or its time is over.
func (a api) answerWatch(w http.ResponseWriter, r *http.Request, q request, found []*object) {
	query := r.URL.Query()
	ctx := r.Context()
	if n, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && n > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(n)*time.Second)
		defer cancel()
	}
	initial, _ := strconv.ParseBool(query.Get("sendInitialEvents"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	if from := query.Get("resourceVersion"); initial || from == "" || from == "0" {
		for _, o := range found {
			if out.Encode(watchEvent("ADDED", a.objectInForm(q, o))) != nil {
				return
			}
		}
	}
	if initial {
		_ = out.Encode(watchEvent("BOOKMARK", map[string]any{"apiVersion": q.APIVersion(), "kind": q.kind.Name, "metadata": metav1.ObjectMeta{
			ResourceVersion: listVersion, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}))
	}
	_ = http.NewResponseController(w).Flush()
	<-ctx.Done()
}

func watchEvent(what string, object any) map[string]any {
	return map[string]any{"type": what, "object": object}
}
