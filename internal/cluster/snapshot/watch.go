package snapshot

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
