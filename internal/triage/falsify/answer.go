package falsify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"

	"nightcrier.dev/nightcrier"
)

// Bounds of one answer.
const (
	maxListed = 200
	maxLines  = 500
	maxLog    = 256 << 10
)

// answer is what the cluster said to a question.
type answer struct {
	evidence string
	// body is what the outcome is decided on; cut is set when there was more.
	body []byte
	cut  bool
	// text tells a log from objects.
	text bool
}

// askQuestion reads what q asks for and records it. That there is no such object is an
// answer too.
func (t *tester) askQuestion(ctx context.Context, q question, source string) (answer, error) {
	ctx = t.in.Mark(ctx, source)
	switch {
	case q.verb == "logs":
		body, err := t.runRead(func() ([]byte, error) {
			return t.in.Reader.Logs(ctx, q.ns, q.name, q.container, q.previous, q.tail, maxLog)
		})
		return t.recordAnswer("log", source, body, err)
	case q.name == "":
		body, err := t.runRead(func() ([]byte, error) { return t.in.Reader.List(ctx, q.kind, q.ns, q.labels, q.fields, maxListed) })
		return t.applyJSONPath(q)(t.recordAnswer("list", source, body, err))
	}
	body, err := t.runRead(func() ([]byte, error) { return t.in.Reader.Get(ctx, q.asResource()) })
	a, err := t.applyJSONPath(q)(t.recordAnswer("object", source, body, err))
	if err != nil || q.verb != "describe" {
		return a, err
	}
	source += " (its events)"
	events, err := t.runRead(func() ([]byte, error) {
		return t.in.Reader.List(t.in.Mark(ctx, source), "Event", cmp.Or(q.ns, metav1.NamespaceDefault), "", "involvedObject.kind="+q.kind+",involvedObject.name="+q.name, maxListed)
	})
	more, err := t.recordAnswer("list", source, events, err)
	if err != nil {
		return answer{}, err
	}
	if !a.text && !more.text {
		a.body, a.cut = slices.Concat([]byte("["), a.body, []byte(","), more.body, []byte("]")), a.cut || more.cut
	}
	return a, nil
}

func (q question) asResource() nightcrier.Resource {
	r := nightcrier.Resource{Kind: q.kind, Namespace: q.ns, Name: q.name}
	if q.verb == "top" {
		r.APIVersion = "metrics.k8s.io/v1beta1"
	}
	return r
}

func (t *tester) runRead(do func() ([]byte, error)) ([]byte, error) {
	t.reads++
	return do()
}

// recordAnswer records an answer.
func (t *tester) recordAnswer(kind, source string, body []byte, err error) (answer, error) {
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		kind, body, err = "error", []byte(err.Error()), nil
	}
	if err != nil {
		return answer{}, err
	}
	body = t.in.Clean(body)
	a := answer{body: body, text: kind == "log" || kind == "error", cut: kind == "list" && isPartialList(body) || kind == "log" && len(body) >= maxLog}
	if a.evidence, err = t.in.Evidence.Record(kind, source, body); err != nil {
		return answer{}, &unkept{err}
	}
	return a, nil
}

// unkept is that evidence cannot be kept, which ends all tests. What the cluster
// says, such as more than is read of one answer, ends one.
type unkept struct{ error }

func (u *unkept) Unwrap() error { return u.error }

func isPartialList(list []byte) bool {
	var l struct {
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
	}
	return json.Unmarshal(list, &l) == nil && l.Metadata.Continue != ""
}

// applyJSONPath takes out of an answer what the command's jsonpath names.
func (t *tester) applyJSONPath(q question) func(answer, error) (answer, error) {
	return func(a answer, err error) (answer, error) {
		if err != nil || q.jsonpath == "" || a.text {
			return a, err
		}
		var doc any
		if err := json.Unmarshal(a.body, &doc); err != nil {
			return a, nightcrier.Errorf(nightcrier.Unreachable, "the answer is not JSON")
		}
		path := jsonpath.New("test").AllowMissingKeys(true)
		var out bytes.Buffer
		if err := path.Parse(q.jsonpath); err != nil {
			return a, refuseCommand("its jsonpath cannot be read")
		}
		if err := path.Execute(&limited{&out, maxLog}, doc); err != nil {
			return a, refuseCommand("its jsonpath does not fit the answer")
		}
		a.body, a.text = out.Bytes(), true
		return a, nil
	}
}

// limited refuses to hold more than so many bytes: a jsonpath may repeat.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, nightcrier.Errorf(nightcrier.Exhausted, "more than %d bytes", maxLog)
	}
	l.left -= len(p)
	return l.to.Write(p)
}
