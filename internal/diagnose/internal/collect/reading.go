// Package collect reads what a diagnosis looks at into a Scene: the incident's object, its
// namespace, and those parts of the cluster that something there points at. Every read is
// bounded, recorded as evidence, and named as not checked when it fails. Where no cluster
// answers, what the event says is made into a scene of hearsay.
package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of one diagnosis, whatever the cluster is like.
const (
	maxReads = 120
	atOnce   = 6 // reads under way at the same time
	// patience is for the whole of it, readPatience for one read.
	patience     = 20 * time.Second
	readPatience = 5 * time.Second
	maxRead      = 96 << 20 // bytes of all answers
	// tooOften is how many reads in a row may go unanswered before the cluster
	// counts as gone: asking on would only wait.
	tooOften = 3
)

// Collector makes the reads of one diagnosis and records each of them.
type Collector struct {
	in    Input
	Scene *scene.Scene
	home  string    // the namespace that is looked at
	until time.Time // no read begins after it

	Reads       int
	bytes       int
	missed      []nightcrier.NotChecked
	denied      []string // what the credential may not read
	silent      []string // what was not answered after the first, which is in missed
	away        bool     // something was not answered
	Involved    []nightcrier.Resource
	Permissions map[string]any
	// had are the objects that were read, so that none is read twice.
	had map[nightcrier.Object]object
	// logless are the nodes that did not answer for a log.
	logless map[string]bool
	// closed are the lists that the credential may not read.
	closed     map[scene.KindIn]bool
	askedNodes bool // the list of all nodes was asked for
	// unanswered counts reads in a row without an answer.
	unanswered atomic.Int32
	// told is set when anything of the cluster was read, if only that there is no such
	// object; what the credential may do is nothing of it.
	told atomic.Bool
	// spent says once which bound ended the reading.
	spent string
}

// object is what a read of one object brought: its body, or that it is missing.
// The ref is zero when it could not be read.
type object struct {
	body    []byte
	ref     scene.Ref
	missing bool
}

// NewCollector begins a diagnosis: nothing is read yet.
func NewCollector(in Input) *Collector {
	return &Collector{
		in: in, Scene: &scene.Scene{Now: in.Now()}, until: time.Now().Add(patience),
		had: map[nightcrier.Object]object{}, logless: map[string]bool{}, closed: map[scene.KindIn]bool{},
	}
}

// stop is an error that ends the diagnosis: the caller left, or the evidence
// cannot be kept. All other failures become a line of what was not checked.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// recordBody keeps a body, masked, and returns where it was read.
func (c *Collector) recordBody(kind, source string, body []byte) (scene.Ref, error) {
	id, err := c.in.Evidence.Record(kind, source, []byte(c.in.Mask(string(body))))
	if err != nil {
		return scene.Ref{}, stop{fmt.Errorf("record %s: %w", source, err)}
	}
	return scene.Ref{Evidence: id, Source: source}, nil
}

// look is one read: how to ask, and what to do with the answer.
type look struct {
	// source is the kubectl command that reads the same.
	source string
	ask    func(context.Context) ([]byte, error)
	take   func([]byte) error
	// fail is what to do without an answer; nil notes it as not checked.
	fail func(error) error
}

// sourceKey is where a context keeps the source of its read.
type sourceKey struct{}

// SourceOf returns the source of the read that ctx belongs to, as a Recorder is
// told it: reads are made at the same time, and whoever watches them needs to know
// which answer was kept as what. It is "" outside of a read.
func SourceOf(ctx context.Context) string {
	source, _ := ctx.Value(sourceKey{}).(string)
	return source
}

// WithSource makes ctx that of a read: what it says is the source under which the
// answer will be recorded.
func WithSource(ctx context.Context, source string) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// answer is what came of asking.
type answer struct {
	asked bool
	body  []byte
	err   error
	panic any
}

// readTogether makes reads at the same time and takes their answers in the order of
// the reads, so that nothing else here needs a lock and evidence is numbered the
// same way each time.
func (c *Collector) readTogether(ctx context.Context, looks ...look) error {
	answers := make([]answer, len(looks))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range looks {
		slots <- struct{}{}
		if !c.canRead() {
			<-slots
			break
		}
		c.Reads++
		all.Go(func() {
			defer func() { <-slots }()
			answers[i] = c.askLook(ctx, looks[i])
		})
	}
	all.Wait()
	for i, a := range answers {
		if err := c.takeAnswer(ctx, looks[i], a); err != nil {
			return err
		}
	}
	return nil
}

func (c *Collector) askLook(ctx context.Context, l look) (a answer) {
	a.asked = true
	defer func() { a.panic = recover() }() // whoever runs the diagnosis shall meet it
	end := time.Now().Add(readPatience)
	if c.until.Before(end) {
		end = c.until
	}
	ctx, cancel := context.WithDeadline(WithSource(ctx, l.source), end)
	defer cancel()
	a.body, a.err = l.ask(ctx)
	if nightcrier.CodeOf(a.err) == nightcrier.Unreachable || ctx.Err() != nil {
		c.unanswered.Add(1)
	} else {
		c.unanswered.Store(0)
	}
	if len(a.body) > 0 || nightcrier.CodeOf(a.err) == nightcrier.NotFound {
		c.told.Store(true)
	}
	return a
}

// takeAnswer hands the answer on. It returns an error only when the diagnosis must end.
func (c *Collector) takeAnswer(ctx context.Context, l look, a answer) error {
	switch {
	case a.panic != nil:
		panic(a.panic)
	case ctx.Err() != nil:
		return stop{context.Cause(ctx)}
	case !a.asked:
		return nil
	case a.err != nil && l.fail != nil:
		return l.fail(a.err)
	case a.err != nil:
		return c.noteFailure(l.source, a.err)
	}
	c.bytes += len(a.body)
	return l.take(a.body)
}

// noteFailure notes that a read did not succeed.
func (c *Collector) noteFailure(what string, err error) error {
	switch code := nightcrier.CodeOf(err); {
	case code == nightcrier.Refused:
		c.denied = append(c.denied, trimCommand(what))
	case code == nightcrier.Unreachable && c.away:
		c.silent = append(c.silent, trimCommand(what))
	default:
		c.away = c.away || code == nightcrier.Unreachable
		c.NoteMissed(what, err.Error())
	}
	return nil
}

// trimCommand is what was to be read, without the words of the command around it.
func trimCommand(source string) string {
	return strings.TrimSuffix(strings.TrimPrefix(source, "kubectl "), " -o json")
}

// NoteMissed notes what was not read or not looked at, and why.
func (c *Collector) NoteMissed(what, why string) {
	m := nightcrier.NotChecked{What: what, Why: text.CutLine(text.MaskClean(why, c.in.Mask, text.FoldLine), scene.MaxQuote)}
	if !slices.Contains(c.missed, m) {
		c.missed = append(c.missed, m)
	}
}

// NotChecked is all that could not be read; what the credential may not read is
// one line of it.
func (c *Collector) NotChecked() []nightcrier.NotChecked {
	all := append(c.nothingTold(), c.missed...)
	for _, group := range []struct {
		why  string
		what []string
	}{{"the credential may not read it, or the snapshot does not hold it", c.denied}, {"the cluster did not answer that either", c.silent}} {
		if len(group.what) > 0 {
			slices.Sort(group.what)
			all = append(all, nightcrier.NotChecked{What: text.CutLine(strings.Join(slices.Compact(group.what), ", "), scene.MaxText), Why: group.why})
		}
	}
	if c.spent != "" {
		all = append(all, nightcrier.NotChecked{What: "what would have been read next", Why: c.spent})
	}
	return all
}

// nothingTold says that the cluster was asked in vain, and nothing when it told anything.
func (c *Collector) nothingTold() []nightcrier.NotChecked {
	why := "the credential may read nothing of what was asked for"
	switch {
	case c.Reads == 0 || c.told.Load():
		return nil
	case c.away:
		why = "it did not answer"
	}
	return []nightcrier.NotChecked{{What: nightcrier.TheCluster, Why: why + ": everything here rests on the event alone"}}
}

// canRead reports whether asking the cluster makes sense.
func (c *Collector) canRead() bool {
	switch {
	case c.in.Reader == nil, c.unanswered.Load() >= tooOften, c.Reads == int(c.unanswered.Load()) && c.Reads > 0:
		return false
	case c.Reads >= maxReads:
		c.spent = fmt.Sprintf("the bound of %d reads was reached", maxReads)
	case c.bytes >= maxRead:
		c.spent = fmt.Sprintf("the bound of %d MiB was reached", maxRead>>20)
	case !time.Now().Before(c.until):
		c.spent = fmt.Sprintf("the cluster answers slowly: %s were over", patience)
	default:
		return true
	}
	return false
}

// keyOf names an object among those that were read.
func keyOf(r nightcrier.Resource) nightcrier.Object { return scene.ObjectOf(r) }

// lookAtObject returns the look that reads one object and keeps it for getObject.
func (c *Collector) lookAtObject(res nightcrier.Resource) look {
	source := "kubectl get " + strings.ToLower(res.Kind) + " " + res.Name + scene.NamespaceFlag(res.Namespace) + " -o json"
	return look{
		source: source,
		ask:    func(ctx context.Context) ([]byte, error) { return c.in.Reader.Get(ctx, res) },
		take: func(body []byte) error {
			body = ScrubBody(body)
			ref, err := c.recordBody("object", source, body)
			if err != nil {
				return err
			}
			return c.keepObject(res, body, ref)
		},
		fail: func(err error) error {
			if nightcrier.CodeOf(err) == nightcrier.NotFound {
				ref, recErr := c.recordBody("error", source, []byte(err.Error()))
				c.had[keyOf(res)] = object{ref: ref, missing: true}
				return recErr
			}
			c.had[keyOf(res)] = object{}
			return c.noteFailure(res.String(), err)
		},
	}
}

// keepObject puts an object into the Scene, once.
func (c *Collector) keepObject(res nightcrier.Resource, body []byte, ref scene.Ref) error {
	if old, ok := c.had[keyOf(res)]; ok && old.body != nil {
		return nil
	}
	if err := c.Scene.Add(res.Kind, body, ref); err != nil {
		c.had[keyOf(res)] = object{}
		return c.noteFailure(res.String(), err)
	}
	c.had[keyOf(res)] = object{body: body, ref: ref}
	return nil
}

// getObject reads an object into into, unless it was read before. The ref is zero when
// it could not be read, which is noted; missing is true when the cluster says that
// there is no such object, which is recorded as evidence.
func (c *Collector) getObject(ctx context.Context, res nightcrier.Resource, into any) (ref scene.Ref, missing bool, err error) {
	if _, ok := c.had[keyOf(res)]; !ok {
		if err := c.readTogether(ctx, c.lookAtObject(res)); err != nil {
			return scene.Ref{}, false, err
		}
	}
	o := c.had[keyOf(res)]
	if o.body == nil {
		return o.ref, o.missing, nil
	}
	if err := json.Unmarshal(o.body, into); err != nil {
		return scene.Ref{}, false, c.noteFailure(res.String(), err)
	}
	c.addInvolved(res)
	return o.ref, false, nil
}

// query names a list to read.
type query struct {
	kind, ns       string // of namespaced objects, no ns means all namespaces
	labels, fields string
	limit          int
}

// pluralKind is what kubectl calls several of the kind.
func (q query) pluralKind() string {
	if k, known := kinds.Named(q.kind); known {
		return k.Plural
	}
	return strings.ToLower(q.kind)
}

// shortName names the list for people who know which namespace is looked at.
func (q query) shortName(home string) string {
	if q.ns == "" || q.ns == home {
		return q.pluralKind()
	}
	return q.pluralKind() + " in " + q.ns
}

func (q query) describeSource() string {
	s := "kubectl get " + q.pluralKind()
	if k, known := kinds.Named(q.kind); q.ns == "" && known && !k.ClusterWide {
		s += " -A"
	}
	s += scene.NamespaceFlag(q.ns)
	if q.labels != "" {
		s += " -l " + q.labels
	}
	if q.fields != "" {
		s += " --field-selector " + q.fields
	}
	return s + " -o json"
}

// maxKept is how much of a list is kept as one piece of evidence, in bytes: less
// than a Recorder keeps of one body.
const maxKept = 2 << 20

// lookAtList returns the look that reads the objects of q into the Scene.
func (c *Collector) lookAtList(q query) look {
	return look{
		source: q.describeSource(),
		ask: func(ctx context.Context) ([]byte, error) {
			return c.in.Reader.List(ctx, q.kind, q.ns, q.labels, q.fields, q.limit)
		},
		take: func(body []byte) error { return c.takeList(q, body) },
		fail: func(err error) error {
			if nightcrier.CodeOf(err) == nightcrier.NotFound {
				c.Reads-- // nothing is read of a kind that the server does not serve
			}
			c.closed[scene.KindIn{Kind: q.kind, Namespace: q.ns}] = c.closed[scene.KindIn{Kind: q.kind, Namespace: q.ns}] || nightcrier.CodeOf(err) == nightcrier.Refused
			return c.noteFailure(q.shortName(c.home), err)
		},
	}
}

func (c *Collector) takeList(q query, body []byte) error {
	var answer struct {
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return c.noteFailure(q.describeSource(), err)
	}
	for first := true; first || len(answer.Items) > 0; first = false {
		n, size := 0, 0
		for n < len(answer.Items) && (n == 0 || size+len(answer.Items[n]) <= maxKept) {
			size += len(answer.Items[n])
			n++
		}
		if err := c.keepItems(q, answer.Items[:n]); err != nil {
			return err
		}
		answer.Items = answer.Items[n:]
	}
	whole := q.labels == "" && q.fields == ""
	if whole {
		c.Scene.SetListed(q.kind, q.ns)
	}
	switch {
	case answer.Metadata.Continue == "" && whole:
		c.Scene.SetComplete(q.kind, q.ns)
	case answer.Metadata.Continue != "":
		c.NoteMissed(trimCommand(q.describeSource()), fmt.Sprintf("only the first %d were read", q.limit))
	}
	return nil
}

// keepItems records items as one list and puts them into the Scene.
func (c *Collector) keepItems(q query, items []json.RawMessage) error {
	clean := make([][]byte, len(items))
	of := make([]nightcrier.Resource, len(items))
	for i, item := range items {
		var err error
		if clean[i], of[i], err = scrubItem(q.kind, item); err != nil {
			return c.noteFailure(q.describeSource(), err)
		}
	}
	body := fmt.Appendf(nil, "{\"items\":[%s],\"kind\":%q}\n", bytes.Join(clean, []byte(",")), q.kind+"List")
	ref, err := c.recordBody("list", q.describeSource(), body)
	if err != nil {
		return err
	}
	for i, item := range clean {
		if err := c.keepObject(of[i], item, ref); err != nil {
			return err
		}
	}
	return nil
}

// scrubItem does with an item of a list what ScrubBody does with an object, and tells which
// it is: a large list is taken apart no more than once.
func scrubItem(kind string, item []byte) ([]byte, nightcrier.Resource, error) {
	v, err := decodeBody(item)
	if err != nil {
		return nil, nightcrier.Resource{}, err
	}
	o, _ := v.(map[string]any)
	meta, _ := o["metadata"].(map[string]any)
	ns, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	scrubValue(v)
	if kind == "Secret" { // an item of a list does not say so
		emptySecret(o)
	}
	body, err := encodeBody(v)
	return bytes.TrimSuffix(body, []byte("\n")), nightcrier.Resource{Kind: kind, Namespace: ns, Name: name}, err
}

// addInvolved remembers an object that belongs to the incident.
func (c *Collector) addInvolved(res nightcrier.Resource) {
	for _, r := range c.Involved {
		if r.Kind == res.Kind && r.Namespace == res.Namespace && r.Name == res.Name {
			return
		}
	}
	c.Involved = append(c.Involved, res)
}

// secretName matches names of environment variables whose value is a secret.
var secretName = scene.NewPattern(`(?i)pass|pwd|secret|token|credential|private|api_?key|access_?key|dsn|connection_?string`)

const hidden = "‹hidden›"

// ScrubBody takes out of an object, or of a list of them, what no report needs and
// what may hold a secret: which fields are managed, the last applied
// configuration, and the values of variables that are named like one.
func ScrubBody(body []byte) []byte {
	v, err := decodeBody(body)
	if err != nil {
		return body
	}
	scrubValue(v)
	emptySecrets(v)
	clean, err := encodeBody(v)
	if err != nil {
		return body
	}
	return clean
}

func decodeBody(body []byte) (v any, err error) {
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	err = in.Decode(&v)
	return v, err
}

func encodeBody(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // what is quoted must be found again as it is
	err := enc.Encode(v)
	return out.Bytes(), err
}

func scrubValue(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			scrubValue(e)
		}
	case map[string]any:
		trimManagers(v)
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

// maxManagers is how many of those who wrote an object are kept.
const maxManagers = 3

// trimManagers leaves of an object's managed fields who wrote it last, and when, the newest
// first: several where they are not one.
func trimManagers(metadata map[string]any) {
	managed, ok := metadata["managedFields"].([]any)
	if !ok {
		return
	}
	var kept []any
	for _, m := range managed {
		m, _ := m.(map[string]any)
		at, _ := m["time"].(string)
		manager, _ := m["manager"].(string)
		if at != "" && m["subresource"] == nil && !scene.IsOwnController(manager) {
			kept = append(kept, map[string]any{"manager": manager, "operation": m["operation"], "time": at})
		}
	}
	timeOf := func(m any) string { at, _ := m.(map[string]any)["time"].(string); return at } // times of one form sort as they are written
	slices.SortStableFunc(kept, func(a, b any) int { return strings.Compare(timeOf(b), timeOf(a)) })
	if delete(metadata, "managedFields"); len(kept) > 0 {
		metadata["managedFields"] = kept[:min(len(kept), maxManagers)]
	}
}

// emptySecrets takes the values out of Secrets and leaves their keys: a live
// cluster is asked for neither, but a dump may hold both.
func emptySecrets(v any) {
	top, _ := v.(map[string]any)
	items, _ := top["items"].([]any)
	for _, o := range append(items, v) {
		o, _ := o.(map[string]any)
		if o["kind"] == "Secret" || top["kind"] == "SecretList" {
			emptySecret(o)
		}
	}
}

func emptySecret(o map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		values, _ := o[field].(map[string]any)
		for k := range values {
			values[k] = ""
		}
	}
}
