package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/text"
)

const (
	// callTime bounds one request to the API server.
	callTime = 15 * time.Second
	// maxAnswer bounds one answer of it, in bytes.
	maxAnswer = 8 << 20
)

// api makes the few requests there are. Kinds, namespaces and names were checked before.
type api struct {
	base *url.URL
	web  *http.Client
}

func newAPI(c *kube.Client) *api {
	base, transport := c.Upstream()
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &api{base: base, web: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// call is one request and what is told of it when it fails.
type call struct {
	method, path string
	query        url.Values
	kind         string // of the body
	body         []byte
	what         string
}

// send makes the request. The answer of one that does not succeed is an error with a code.
func (a *api) send(ctx context.Context, c call) (status int, answer map[string]any, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	target := *a.base
	target.Path, target.RawPath = strings.TrimRight(target.Path, "/")+c.path, ""
	target.RawQuery = c.query.Encode()
	req, err := http.NewRequestWithContext(ctx, c.method, target.String(), bytes.NewReader(c.body))
	if err != nil {
		return 0, nil, nightcrier.Errorf(nightcrier.Internal, "%s: %w", c.what, err)
	}
	req.Header.Set("Accept", "application/json")
	if c.kind != "" {
		req.Header.Set("Content-Type", c.kind)
	}
	resp, err := a.web.Do(req)
	if err != nil {
		return 0, nil, nightcrier.Errorf(nightcrier.Unreachable, "%s: the API server at %s does not answer: %s", c.what, a.base.Host, text.CutLine(err.Error(), 300))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, nightcrier.Errorf(nightcrier.Unreachable, "%s: the answer of %s ends early: %w", c.what, a.base.Host, err)
	case len(body) > maxAnswer:
		return 0, nil, nightcrier.Errorf(nightcrier.Exhausted, "%s: the answer is larger than %d bytes", c.what, maxAnswer)
	case resp.StatusCode/100 != 2:
		return resp.StatusCode, nil, refusal(c.what, resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, nil, nightcrier.Errorf(nightcrier.Unreachable, "%s: the answer of %s is no JSON", c.what, a.base.Host)
	}
	return resp.StatusCode, answer, nil
}

// refusal is what the API server says to a request that it does not grant.
func refusal(what string, status int, body []byte) error {
	var said struct {
		Message string
		Details struct {
			Causes []struct{ Reason, Message, Field string }
		}
	}
	_ = json.Unmarshal(body, &said) // what is no Status has no message
	message := text.CutLine(said.Message, 2000)
	if message == "" {
		message = fmt.Sprintf("it answers %d", status)
	}
	code := map[int]nightcrier.Code{
		http.StatusNotFound: nightcrier.NotFound, http.StatusForbidden: nightcrier.Refused, http.StatusConflict: nightcrier.Conflict,
		http.StatusBadRequest: nightcrier.Invalid, http.StatusUnprocessableEntity: nightcrier.Invalid, http.StatusRequestEntityTooLarge: nightcrier.Exhausted,
	}[status]
	if code == "" {
		code = nightcrier.Unreachable
	}
	var held []string
	for _, c := range said.Details.Causes {
		if c.Reason == "FieldManagerConflict" && len(held) < 10 {
			held = append(held, text.CutLine(c.Field+": "+c.Message, 200))
		}
	}
	if len(held) > 0 {
		return nightcrier.Errorf(nightcrier.Conflict, "%s: others have set these fields, and nothing is forced: leave them out (%s)", what, strings.Join(held, "; "))
	}
	return nightcrier.Errorf(code, "%s: %s", what, message)
}

// objectPath is where an object of a kind is, or all of them without a name.
func objectPath(k kinds.Kind, ns, name string) string {
	path := k.Path(ns)
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// get reads an object, nil when there is none.
func (a *api) get(ctx context.Context, k kinds.Kind, ns, name string) (map[string]any, error) {
	_, obj, err := a.send(ctx, call{method: http.MethodGet, path: objectPath(k, ns, name), what: "get " + k.Name + " " + ns + "/" + name})
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return nil, nil
	}
	return obj, err
}

// list reads at most limit objects that a selector chooses.
func (a *api) list(ctx context.Context, k kinds.Kind, ns, selector string, limit int) (items []map[string]any, more bool, err error) {
	q := url.Values{"limit": {fmt.Sprint(limit)}}
	if selector != "" {
		q.Set("labelSelector", selector)
	}
	_, all, err := a.send(ctx, call{method: http.MethodGet, path: objectPath(k, ns, ""), query: q, what: "list " + k.Plural + " in " + ns})
	if err != nil {
		return nil, false, err
	}
	list, _ := all["items"].([]any)
	for _, one := range list {
		if m, ok := one.(map[string]any); ok {
			items = append(items, m)
		}
	}
	return items, kubetool.TextAt(all, "metadata", "continue") != "", nil
}

// apply sends an object as our field manager. Nothing is forced.
func (a *api) apply(ctx context.Context, o object, body map[string]any, dry bool) (created bool, obj map[string]any, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return false, nil, nightcrier.Errorf(nightcrier.Internal, "write %s: %w", o, err)
	}
	q := url.Values{"fieldManager": {Manager}, "fieldValidation": {"Strict"}}
	what := "apply " + o.String()
	if dry {
		q.Set("dryRun", "All")
		what = "try " + o.String()
	}
	status, obj, err := a.send(ctx, call{method: http.MethodPatch, path: objectPath(o.kind, o.namespace, o.name), query: q, kind: "application/apply-patch+yaml", body: b, what: what})
	return status == http.StatusCreated, obj, err
}

// delete takes away exactly the object that was looked at.
func (a *api) delete(ctx context.Context, k kinds.Kind, ns, name string, obj map[string]any) error {
	b, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
		"preconditions": map[string]any{"uid": kubetool.TextAt(obj, "metadata", "uid")},
	})
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "write a deletion: %w", err)
	}
	_, _, err = a.send(ctx, call{method: http.MethodDelete, path: objectPath(k, ns, name), kind: "application/json", body: b, what: "delete " + k.Name + " " + ns + "/" + name})
	return err
}

// isOurs reports whether an object carries the mark and was applied by our field manager.
func isOurs(obj map[string]any) bool {
	return kubetool.TextAt(obj, "metadata", "labels", Mark) == Manager && slices.ContainsFunc(kubetool.ListAt(obj, "metadata", "managedFields"), func(f any) bool {
		return kubetool.TextAt(f, "manager") == Manager && kubetool.TextAt(f, "operation") == "Apply"
	})
}

// managersOf names who has set fields of an object.
func managersOf(obj map[string]any) string {
	var names []string
	for _, f := range kubetool.ListAt(obj, "metadata", "managedFields") {
		if name := kubetool.TextAt(f, "manager"); name != "" && !slices.Contains(names, name) && len(names) < 5 {
			names = append(names, text.CutLine(name, 60))
		}
	}
	if len(names) == 0 {
		return "something else"
	}
	return text.JoinWords(names, "and")
}
