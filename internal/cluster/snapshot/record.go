package snapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of a recording.
const (
	pageItems   = 500
	maxPages    = 400
	maxLogs     = 2000
	logTail     = 500       // lines of one log
	logMost     = 256 << 10 // bytes of one log
	readAtOnce  = 6
	metadataFor = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// Reader reads a cluster; *kube.Client does. Errors carry the codes that it gives.
type Reader interface {
	Read(ctx context.Context, path string, query url.Values, accept string, maxBytes int64) ([]byte, error)
}

// RecordOptions say what to record.
type RecordOptions struct {
	// Cluster is the name that the snapshot tells.
	Cluster string
	// Namespaces to record; none means all.
	Namespaces []string
	// Mask replaces secrets in a text, and leaves JSON JSON. Nil masks nothing: the
	// Reader, a guard, does.
	Mask func([]byte) []byte
	// Progress is told what is being read, for people. It may be nil.
	Progress func(line string)
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Record reads what diagnosis needs of a cluster. Of Secrets only names and keys
// are asked for. What may not be read is noted in NotCaptured; that the cluster
// does not answer at all is an Unreachable error.
func Record(ctx context.Context, r Reader, o RecordOptions) (*Snapshot, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Mask == nil {
		o.Mask = func(b []byte) []byte { return b }
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	rec := &recorder{reader: r, opt: o, snap: newSnapshot(Info{Cluster: o.Cluster, CapturedAt: o.Now().UTC().Truncate(time.Second), Namespaces: o.Namespaces})}
	rec.snap.declared = true
	for k := range knownKinds {
		rec.snap.addKind(k)
	}
	if err := rec.readVersions(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(rec.recordObjects(ctx), rec.recordLogs(ctx)); err != nil {
		return nil, err
	}
	for _, c := range rec.snap.collections {
		c.sortObjects()
	}
	return rec.snap, nil
}

// recorder makes one recording.
type recorder struct {
	reader Reader
	opt    RecordOptions
	served map[string]string // versions of the API groups

	mu   sync.Mutex
	snap *Snapshot
}

// readVersions asks which API this is; a cluster that does not answer that is away.
func (r *recorder) readVersions(ctx context.Context) error {
	raw, err := r.reader.Read(ctx, "/version", nil, "", 1<<20)
	if err != nil {
		return err
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	_ = json.Unmarshal(raw, &v) // a version that is not told is not known
	r.snap.Version = v.GitVersion
	raw, err = r.reader.Read(ctx, "/apis", nil, "", 0)
	if err != nil {
		return err
	}
	var list struct {
		Groups []struct {
			Name             string
			PreferredVersion struct{ Version string }
			Versions         []struct{ Version string }
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "the cluster's list of API groups is no JSON: %w", err)
	}
	r.served = map[string]string{"/v1": "v1"}
	for _, g := range list.Groups {
		r.served[g.Name] = g.PreferredVersion.Version
		for _, v := range g.Versions {
			r.served[g.Name+"/"+v.Version] = v.Version
		}
	}
	return nil
}

// recordObjects records all kinds: first what the cluster has as a whole, which tells
// what else it works by.
func (r *recorder) recordObjects(ctx context.Context) error {
	if err := r.recordKinds(ctx, func(k kind) []string {
		if k.ClusterWide {
			return []string{""}
		}
		return nil
	}); err != nil {
		return err
	}
	if len(r.opt.Namespaces) == 0 {
		return r.recordKinds(ctx, func(k kind) []string {
			if k.ClusterWide {
				return nil
			}
			return []string{""}
		})
	}
	r.snap.System = r.systemNamespaces()
	if err := r.recordKinds(ctx, func(k kind) []string {
		switch {
		case k.ClusterWide:
			return nil
		case k.system:
			return slices.Concat(r.opt.Namespaces, r.snap.System)
		}
		return r.opt.Namespaces
	}); err != nil {
		return err
	}
	return r.recordList(ctx, kind{Kind: kinds.MustNamed("ConfigMap")}, "kube-system", url.Values{"fieldSelector": {"metadata.name=coredns"}})
}

// systemNamespaces are those whose workloads others depend on: the cluster's own,
// and those of webhooks and API extensions.
func (r *recorder) systemNamespaces() []string {
	found := map[string]bool{"kube-system": true}
	for _, k := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService"} {
		for _, c := range r.snap.collections {
			if c.kind.Name != k {
				continue
			}
			for _, o := range c.objects {
				servicesIn(o.fields, found)
			}
		}
	}
	var list []string
	for ns := range found {
		if !slices.Contains(r.opt.Namespaces, ns) && isPlainName(ns) {
			list = append(list, ns)
		}
	}
	slices.Sort(list)
	return list
}

// servicesIn collects the namespaces of the Services that an object names.
func servicesIn(v any, found map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			servicesIn(e, found)
		}
	case map[string]any:
		if s, ok := v["service"].(map[string]any); ok {
			if ns, _ := s["namespace"].(string); ns != "" {
				found[ns] = true
			}
		}
		for _, e := range v {
			servicesIn(e, found)
		}
	}
}

// recordKinds records the kinds in the namespaces that where names, some at once.
func (r *recorder) recordKinds(ctx context.Context, where func(kind) []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readAtOnce)
	for k := range knownKinds {
		if k.skip || !r.hasKind(&k) {
			continue
		}
		for _, ns := range where(k) {
			g.Go(func() error { return r.recordList(ctx, k, ns, url.Values{}) })
		}
	}
	return g.Wait()
}

// hasKind reports whether the cluster serves the kind, in k's version or another.
func (r *recorder) hasKind(k *kind) bool {
	if r.served[k.Group+"/"+k.Version] != "" {
		return true
	}
	k.Version = r.served[k.Group]
	return k.Version != ""
}

// recordList records the objects of a kind in a namespace, "" for all. Only a context
// that is done is an error.
func (r *recorder) recordList(ctx context.Context, k kind, ns string, query url.Values) error {
	accept := ""
	if k.Name == "Secret" {
		accept = metadataFor
	}
	query.Set("limit", strconv.Itoa(pageItems))
	n := 0
	for range maxPages {
		raw, err := r.reader.Read(ctx, k.Path(ns), query, accept, 0)
		if err != nil {
			return r.noteListMissed(ctx, k, ns, err)
		}
		var h head
		if err := json.Unmarshal(r.opt.Mask(raw), &h); err != nil {
			return r.noteListMissed(ctx, k, ns, err)
		}
		if err := r.putItems(k, h.Items); err != nil {
			return r.noteListMissed(ctx, k, ns, err)
		}
		if n += len(h.Items); h.Metadata.Continue == "" {
			if n > 0 {
				r.notifyProgress("%6d %s%s", n, k.Resource(), inNamespace(ns))
			}
			return nil
		}
		query.Set("continue", h.Metadata.Continue)
	}
	return r.noteListMissed(ctx, k, ns, fmt.Errorf("only the first %d were recorded", n))
}

func (r *recorder) putItems(k kind, items []json.RawMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, item := range items {
		if err := r.snap.putObject(item, k.APIVersion(), k.Name); err != nil {
			return err
		}
	}
	return nil
}

func inNamespace(ns string) string {
	if ns == "" {
		return ""
	}
	return " in " + ns
}

func (r *recorder) notifyProgress(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opt.Progress(text.CutLine(fmt.Sprintf(format, args...), maxSaid))
}

// noteListMissed notes that a list could not be read. A kind that the cluster does not
// have is nothing missed.
func (r *recorder) noteListMissed(ctx context.Context, k kind, ns string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return nil
	}
	r.noteMissed(k.Resource()+inNamespace(ns), err.Error())
	r.notifyProgress("       %s%s: %v", k.Resource(), inNamespace(ns), err)
	return nil
}

func (r *recorder) noteMissed(what, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snap.NotCaptured = append(r.snap.NotCaptured, nightcrier.NotChecked{What: what, Why: text.CutLine(why, maxSaid)})
}

// wanted is a log to record. Logs of containers in trouble come first.
type wanted struct {
	logKey
	trouble bool
}

// recordLogs records the logs of the Pods in the recorded namespaces, and of those of
// the cluster's own that are in trouble or resolve names.
func (r *recorder) recordLogs(ctx context.Context) error {
	list := r.wantedLogs()
	if len(list) > maxLogs {
		r.noteMissed("logs", fmt.Sprintf("only %d of %d were recorded", maxLogs, len(list)))
		list = list[:maxLogs]
	}
	r.notifyProgress("%6d logs to read", len(list))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readAtOnce)
	var mu sync.Mutex
	var failed []error
	for _, w := range list {
		g.Go(func() error {
			text, err := r.readLog(ctx, w.logKey)
			mu.Lock()
			defer mu.Unlock()
			switch code := nightcrier.CodeOf(err); {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err == nil:
				r.snap.logs[w.logKey] = text
			case code != nightcrier.NotFound && code != nightcrier.Invalid: // there is none, says the kubelet
				failed = append(failed, err)
			}
			return nil
		})
	}
	err := g.Wait()
	if len(failed) > 0 {
		r.noteMissed(fmt.Sprintf("logs of %d containers", len(failed)), failed[0].Error())
	}
	return err
}

func (r *recorder) readLog(ctx context.Context, key logKey) ([]byte, error) {
	q := url.Values{"container": {key.container}, "tailLines": {strconv.Itoa(logTail)}, "limitBytes": {strconv.Itoa(logMost)}}
	if key.previous {
		q.Set("previous", "true")
	}
	text, err := r.reader.Read(ctx, "/api/v1/namespaces/"+key.namespace+"/pods/"+key.pod+"/log", q, "text/plain, */*", logMost+4096)
	return r.opt.Mask(text), err
}

func (r *recorder) wantedLogs() (list []wanted) {
	for _, o := range r.snap.ofKind("", "Pod").objects {
		own := !slices.Contains(r.snap.System, o.namespace)
		for _, name := range containerNames(o.fields) {
			status := statusOf(o.fields, name)
			if !hasStarted(status) || !isPlainName(o.namespace) || !isPlainName(o.name) || !isPlainName(name) {
				continue
			}
			restarts, _ := status["restartCount"].(int64)
			ready, _ := status["ready"].(bool)
			trouble := !ready || restarts > 0
			if !own && !trouble && o.labels["k8s-app"] != "kube-dns" {
				continue
			}
			key := logKey{namespace: o.namespace, pod: o.name, container: name}
			list = append(list, wanted{key, trouble})
			if restarts > 0 {
				key.previous = true
				list = append(list, wanted{key, trouble})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b wanted) int { return cmp.Compare(troubleRank(a.trouble), troubleRank(b.trouble)) })
	return list
}

// hasStarted reports whether a container has ever run.
func hasStarted(status map[string]any) bool {
	state, _ := status["state"].(map[string]any)
	last, _ := status["lastState"].(map[string]any)
	return state["running"] != nil || state["terminated"] != nil || len(last) > 0
}

func troubleRank(trouble bool) int {
	if trouble {
		return 0
	}
	return 1
}

// isPlainName reports whether a name is one of Kubernetes': fit for a path.
func isPlainName(name string) bool {
	if name == "" || len(name) > 253 || name[0] == '.' {
		return false
	}
	return !slices.ContainsFunc([]byte(name), func(c byte) bool { return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.') })
}
