package snapshot

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier/internal/text"
)

// answerLog answers with a container's log, in the words of the kubelet where there is
// none.
func (a api) answerLog(w http.ResponseWriter, r *http.Request, pod *object) {
	q := r.URL.Query()
	name, err := containerOf(pod, q.Get("container"))
	if err != nil {
		writeFailure(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	previous, _ := strconv.ParseBool(q.Get("previous"))
	text, ok := a.snap.logs[logKey{pod.namespace, pod.name, name, previous}]
	if !ok {
		noLog(w, pod, name, previous)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write(cutLog(text, q))
}

// containerOf is the container whose log is meant.
func containerOf(pod *object, name string) (string, error) {
	all := containerNames(pod.fields)
	switch {
	case name == "" && len(all) == 1:
		return all[0], nil
	case name == "":
		return "", fmt.Errorf("a container name must be specified for pod %s, choose one of: [%s]", pod.name, strings.Join(all, " "))
	case !slices.Contains(all, name):
		return "", fmt.Errorf("container %s is not valid for pod %s", text.CutLine(name, maxSaid), pod.name)
	}
	return name, nil
}

// noLog tells apart that there was no log from that nobody recorded it.
func noLog(w http.ResponseWriter, pod *object, name string, previous bool) {
	status := statusOf(pod.fields, name)
	restarts, _ := status["restartCount"].(int64)
	state, _ := status["state"].(map[string]any)
	last, _ := status["lastState"].(map[string]any)
	waiting, isWaiting := state["waiting"].(map[string]any)
	switch {
	case previous && restarts == 0 && len(last) == 0:
		writeFailure(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod.name))
	case !previous && (len(state) == 0 || isWaiting && restarts == 0 && len(last) == 0):
		writeFailure(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf("container %q in pod %q is waiting to start: %v", name, pod.name, waiting["reason"]))
	default:
		writeFailure(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("the log of container %q of pod %q is not in this snapshot", name, pod.name))
	}
}

// statusOf is the status of a container of a Pod, nil without one.
func statusOf(pod map[string]any, name string) map[string]any {
	status, _ := pod["status"].(map[string]any)
	for _, part := range []string{"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"} {
		list, _ := status[part].([]any)
		for _, one := range list {
			if c, ok := one.(map[string]any); ok && c["name"] == name {
				return c
			}
		}
	}
	return nil
}

// cutLog leaves the part of a log that is asked for: its last lines, and the first
// bytes of those.
func cutLog(text []byte, q url.Values) []byte {
	if n, err := strconv.Atoi(q.Get("tailLines")); err == nil && n >= 0 {
		text = lastLines(text, n)
	}
	if n, err := strconv.Atoi(q.Get("limitBytes")); err == nil && n > 0 && n < len(text) {
		text = text[:n]
	}
	return text
}

func lastLines(text []byte, n int) []byte {
	at := len(text)
	if at > 0 && text[at-1] == '\n' {
		at--
	}
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	if n > 0 || at < 0 {
		return text
	}
	if at == len(text) { // no lines are wanted
		return nil
	}
	return text[at+1:]
}
