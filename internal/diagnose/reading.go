package diagnose

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

// collector makes the reads of one diagnosis and records each of them.
type collector struct {
	in          Input
	reads       int
	missed      []nightcrier.NotChecked
	involved    []nightcrier.Resource
	permissions map[string]any
	// logless is set once a node did not answer for a log.
	logless bool
	// gone is set once the cluster did not answer: asking on would only wait.
	gone bool
}

// stop is an error that ends the diagnosis: the caller left, or the evidence
// cannot be kept. All other failures become a line of what was not checked.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// record keeps a body, masked, and returns where it was read.
func (c *collector) record(kind, source string, body []byte) (Ref, error) {
	id, err := c.in.Evidence.Record(kind, source, []byte(c.in.Mask(string(body))))
	if err != nil {
		return Ref{}, stop{fmt.Errorf("record %s: %w", source, err)}
	}
	return Ref{Evidence: id, Source: source}, nil
}

// failed notes that a read did not succeed. It returns an error only when the
// diagnosis must end.
func (c *collector) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return stop{context.Cause(ctx)}
	}
	if nightcrier.CodeOf(err) == nightcrier.Unreachable {
		c.gone = true
	}
	c.miss(what, err.Error())
	return nil
}

func (c *collector) miss(what, why string) {
	c.missed = append(c.missed, nightcrier.NotChecked{What: what, Why: oneLine(c.in.Mask(why), maxQuote)})
}

// canRead reports whether asking the cluster makes sense.
func (c *collector) canRead() bool { return c.in.Reader != nil && !c.gone }

// get reads an object into into. The ref is zero when it could not be read,
// which is noted; missing is true when the cluster says that there is no such
// object, which is recorded as evidence.
func (c *collector) get(ctx context.Context, res nightcrier.Resource, into any) (ref Ref, missing bool, err error) {
	if !c.canRead() {
		return Ref{}, false, nil
	}
	source := "kubectl get " + strings.ToLower(res.Kind) + " " + res.Name + namespaceFlag(res.Namespace) + " -o json"
	c.reads++
	body, err := c.in.Reader.Get(ctx, res)
	switch {
	case nightcrier.CodeOf(err) == nightcrier.NotFound:
		ref, err = c.record("error", source, []byte(err.Error()))
		return ref, true, err
	case err != nil:
		return Ref{}, false, c.failed(ctx, res.String(), err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return Ref{}, false, c.failed(ctx, res.String(), err)
	}
	c.involve(res)
	ref, err = c.record("object", source, scrub(body))
	return ref, false, err
}

func namespaceFlag(ns string) string {
	if ns == "" {
		return ""
	}
	return " -n " + ns
}

// query names a list to read.
type query struct {
	kind, ns       string // of namespaced objects, no ns means all namespaces
	labels, fields string
	limit          int
}

func (q query) source() string {
	s := "kubectl get " + strings.ToLower(q.kind) + "s"
	if q.ns == "" && q.kind == "Pod" {
		s += " -A"
	}
	s += namespaceFlag(q.ns)
	if q.labels != "" {
		s += " -l " + q.labels
	}
	if q.fields != "" {
		s += " --field-selector " + q.fields
	}
	return s + " -o json"
}

// readList reads the items of q.
func readList[T any](ctx context.Context, c *collector, q query) ([]Read[T], error) {
	if !c.canRead() {
		return nil, nil
	}
	c.reads++
	body, err := c.in.Reader.List(ctx, q.kind, q.ns, q.labels, q.fields, q.limit)
	if err != nil {
		return nil, c.failed(ctx, q.source(), err)
	}
	var answer struct {
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
		Items []T `json:"items"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, c.failed(ctx, q.source(), err)
	}
	if answer.Metadata.Continue != "" {
		c.miss(q.source(), fmt.Sprintf("only the first %d were read", len(answer.Items)))
	}
	ref, err := c.record("list", q.source(), scrub(body))
	if err != nil {
		return nil, err
	}
	out := make([]Read[T], 0, len(answer.Items))
	for _, item := range answer.Items {
		out = append(out, Read[T]{item, ref})
	}
	return out, nil
}

// Bounds of one container's log.
const (
	logLines = 100
	logBytes = 64 << 10
)

// log reads the end of a container's log. A log that does not exist, as before
// the first start, is no excerpt and nothing missed.
func (c *collector) log(ctx context.Context, pod *corev1.Pod, container string, previous bool) (*LogExcerpt, error) {
	if !c.canRead() || c.logless {
		return nil, nil
	}
	source := fmt.Sprintf("kubectl logs %s -c %s -n %s --tail=%d", pod.Name, container, pod.Namespace, logLines)
	if previous {
		source += " --previous"
	}
	c.reads++
	body, err := c.in.Reader.Logs(ctx, pod.Namespace, pod.Name, container, previous, logLines, logBytes)
	switch code := nightcrier.CodeOf(err); {
	case code == nightcrier.NotFound, code == nightcrier.Invalid: // there is none, says the kubelet
		return nil, nil
	case err != nil && code != nightcrier.Unreachable:
		return nil, c.failed(ctx, source, err)
	case err != nil:
		// The API server answers 5xx when the node, not the cluster, is away.
		c.logless = true
		c.miss(source, err.Error())
		return nil, ctx.Err()
	case notALog.Match(body):
		c.miss(source, string(body))
		return nil, nil
	case len(body) == 0:
		return nil, nil
	}
	ref, err := c.record("log", source, body)
	if err != nil {
		return nil, err
	}
	return &LogExcerpt{
		Namespace: pod.Namespace, Pod: pod.Name, Container: container, Previous: previous,
		Evidence: ref.Evidence, Text: c.in.Mask(string(body)),
	}, nil
}

// involve remembers an object that belongs to the incident.
func (c *collector) involve(res nightcrier.Resource) {
	for _, r := range c.involved {
		if r.Kind == res.Kind && r.Namespace == res.Namespace && r.Name == res.Name {
			return
		}
	}
	c.involved = append(c.involved, res)
}

// secretName matches names of environment variables whose value is a secret.
var secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|credential|private|api_?key|access_?key|dsn|connection_?string`)

const hidden = "‹hidden›"

// scrub takes out of an object, or of a list of them, what no report needs and
// what may hold a secret: managed fields, the last applied configuration, and
// the values of variables that are named like one.
func scrub(body []byte) []byte {
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	var v any
	if in.Decode(&v) != nil {
		return body
	}
	scrubValue(v)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // what is quoted must be found again as it is
	if enc.Encode(v) != nil {
		return body
	}
	return out.Bytes()
}

func scrubValue(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			scrubValue(e)
		}
	case map[string]any:
		delete(v, "managedFields")
		delete(v, corev1.LastAppliedConfigAnnotation)
		if v["nodeInfo"] != nil {
			delete(v, "images") // what a node has pulled is most of its size
		}
		name, _ := v["name"].(string)
		if value, ok := v["value"].(string); ok && value != "" && secretName.MatchString(name) {
			v["value"] = hidden
		}
		for _, e := range v {
			scrubValue(e)
		}
	}
}
