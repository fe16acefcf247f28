package snapshot

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier/internal/text"
)

// api answers requests as an API server would. It holds no credential and asks for
// none: who serves it to others puts a guard before it.
type api struct{ snap *Snapshot }

// Handler returns a read-only Kubernetes API over the snapshot: discovery, get,
// list, watch and logs. Everything that would change something is refused. What
// the snapshot does not hold because nobody recorded it is forbidden, not missing.
func (s *Snapshot) Handler() http.Handler { return api{s} }

// ServeHTTP implements http.Handler.
func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if r.Method == http.MethodPost && len(parts) == 4 && (parts[1] == "authorization.k8s.io" || parts[1] == "authentication.k8s.io") {
		a.answerReview(w, r, parts[3])
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		writeFailure(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "this is a snapshot: it can be read, and nothing in it can be changed")
		return
	}
	switch parts[0] {
	case "api", "apis":
		a.answerResource(w, r, parts)
	case "version":
		a.answerVersion(w)
	case "healthz", "livez", "readyz":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok")
	case "openapi":
		openAPI(w, parts)
	default:
		writeFailure(w, http.StatusNotFound, metav1.StatusReasonNotFound, "a snapshot does not serve "+r.URL.Path)
	}
}

// request is what is asked of the objects of one kind.
type request struct {
	*collection
	namespace, name, subresource string
	form                         form
}

// answerResource answers what is below /api and /apis.
func (a api) answerResource(w http.ResponseWriter, r *http.Request, parts []string) {
	group, version, rest := "", "", parts[1:]
	if parts[0] == "apis" && len(rest) > 0 {
		group, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		version, rest = rest[0], rest[1:]
	}
	if len(rest) == 0 {
		a.answerDiscovery(w, r, parts[0], group, version)
		return
	}
	q := request{form: formOf(r)}
	if rest[0] == "namespaces" && len(rest) > 2 {
		q.namespace, rest = rest[1], rest[2:]
	}
	q.collection = a.snap.collections[group+"/"+rest[0]]
	if q.collection == nil || q.Version != version || q.isOptional() && len(q.objects) == 0 && !q.seen || len(rest) > 3 {
		writeFailure(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		return
	}
	if len(rest) > 1 {
		q.name = rest[1]
	}
	if len(rest) > 2 {
		q.subresource = rest[2]
	}
	a.answerRequest(w, r, q)
}

func (a api) answerRequest(w http.ResponseWriter, r *http.Request, q request) {
	if q.name == "" {
		a.answerList(w, r, q)
		return
	}
	o, why := q.byName[objectKey(q.namespace, q.name)], a.snap.whyWithheld(q.collection, q.namespace, nil)
	switch {
	case o == nil && why != "":
		notCaptured(w, "get", q, why)
	case o == nil:
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, q.Resource()+` "`+q.name+`" not found`,
			&metav1.StatusDetails{Name: q.name, Group: q.Group, Kind: q.Plural})
	case q.subresource == "log" && q.kind.Name == "Pod":
		a.answerLog(w, r, o)
	case q.subresource != "" && q.subresource != "status":
		writeFailure(w, http.StatusNotFound, metav1.StatusReasonNotFound, "a snapshot does not serve "+q.subresource)
	default:
		writeAnswer(w, http.StatusOK, a.objectInForm(q, o))
	}
}

// notCaptured says that what was asked for is not known.
func notCaptured(w http.ResponseWriter, verb string, q request, why string) {
	where := " in all namespaces"
	switch {
	case q.ClusterWide:
		where = ""
	case q.namespace != "":
		where = " in namespace " + q.namespace
	}
	writeFailure(w, http.StatusForbidden, metav1.StatusReasonForbidden,
		"cannot "+verb+" "+q.Resource()+where+": not in this snapshot: "+why)
}

// form is how an answer is wanted.
type form int

const (
	whole form = iota
	metadataForm
	tableForm
)

// formOf takes the first form of those that are accepted.
func formOf(r *http.Request) form {
	for one := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		_, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		switch params["as"] {
		case "Table":
			return tableForm
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			return metadataForm
		case "":
			return whole
		}
	}
	return whole
}

// objectInForm is a single object in the form that is wanted.
func (a api) objectInForm(q request, o *object) any {
	switch q.form {
	case metadataForm:
		return o.partialMetadata()
	case tableForm:
		return a.newTable(q, []*object{o}, metav1.ListMeta{ResourceVersion: listVersion})
	}
	return json.RawMessage(o.raw)
}

func writeAnswer(w http.ResponseWriter, status int, body any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false) // what is quoted is found again as it is
	_ = out.Encode(body)     // a caller that hung up needs no answer
}

func writeFailure(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	writeStatus(w, code, reason, message, nil)
}

func writeStatus(w http.ResponseWriter, code int, reason metav1.StatusReason, message string, details *metav1.StatusDetails) {
	writeAnswer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: message, Reason: reason, Code: int32(code), Details: details,
	})
}

func (a api) answerVersion(w http.ResponseWriter) {
	v := a.snap.Version
	if v == "" {
		v = "v1.34.0" // clients want one
	}
	major, minor := "1", "34"
	if words := strings.Split(strings.TrimPrefix(v, "v"), "."); len(words) > 1 {
		major, minor = words[0], words[1]
	}
	writeAnswer(w, http.StatusOK, map[string]string{"major": major, "minor": minor, "gitVersion": v, "platform": "snapshot"})
}

// openAPI answers with a document that describes nothing: clients that would like
// to know more of a kind go on without.
func openAPI(w http.ResponseWriter, parts []string) {
	if len(parts) > 1 && parts[1] == "v3" {
		writeAnswer(w, http.StatusOK, map[string]any{"paths": map[string]any{}})
		return
	}
	writeAnswer(w, http.StatusOK, map[string]any{
		"swagger": "2.0", "info": map[string]string{"title": "snapshot", "version": "1"}, "paths": map[string]any{}, "definitions": map[string]any{},
	})
}

// readRules says what may be read: never all with a star, which means exec as well.
func (a api) readRules() (rules []map[string]any) {
	for _, c := range a.snap.servedCollections() {
		rules = append(rules, map[string]any{"verbs": readVerbs, "apiGroups": []string{c.Group}, "resources": []string{c.Plural}})
	}
	return append(rules, map[string]any{"verbs": []string{"get"}, "apiGroups": []string{""}, "resources": []string{"pods/log"}})
}

var readVerbs = []string{"get", "list", "watch"}

// answerReview answers who the caller is and what it may do: read.
func (a api) answerReview(w http.ResponseWriter, r *http.Request, resource string) {
	var in struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Spec       map[string]any `json:"spec"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&in); err != nil {
		writeFailure(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "this is no review: "+err.Error())
		return
	}
	var status map[string]any
	switch resource {
	case "selfsubjectaccessreviews":
		attrs, _ := in.Spec["resourceAttributes"].(map[string]any)
		verb, _ := attrs["verb"].(string)
		sub, _ := attrs["subresource"].(string)
		status = map[string]any{"allowed": slices.Contains(readVerbs, verb) && (sub == "" || sub == "log"), "reason": "a snapshot can only be read"}
	case "selfsubjectrulesreviews":
		status = map[string]any{"incomplete": false, "nonResourceRules": []any{}, "resourceRules": a.readRules()}
	case "selfsubjectreviews":
		status = map[string]any{"userInfo": map[string]any{"username": "snapshot", "groups": []string{"system:authenticated"}}}
	default:
		writeFailure(w, http.StatusNotFound, metav1.StatusReasonNotFound, "a snapshot does not answer "+text.CutLine(resource, maxSaid))
		return
	}
	writeAnswer(w, http.StatusCreated, map[string]any{"apiVersion": in.APIVersion, "kind": in.Kind, "metadata": map[string]any{}, "spec": in.Spec, "status": status})
}
