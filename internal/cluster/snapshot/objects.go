package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// markSeen notes that the snapshot has a list of the kind.
func (s *Snapshot) markSeen(apiVersion, name string) {
	if gv, err := schema.ParseGroupVersion(apiVersion); err == nil {
		if c := s.ofKind(gv.Group, name); c != nil {
			c.seen = true
		}
	}
}

// putObject takes an object in. Of two with the same name the newer one stays.
func (s *Snapshot) putObject(doc []byte, apiVersion, name string) error {
	var fields map[string]any
	if err := utiljson.Unmarshal(doc, &fields); err != nil {
		return err
	}
	fields["apiVersion"], fields["kind"] = apiVersion, name
	if name == "Event" && strings.HasPrefix(apiVersion, "events.k8s.io/") {
		toCoreEvent(fields)
		apiVersion = "v1"
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || gv.Version == "" {
		return fmt.Errorf("%s: apiVersion %q is none", name, apiVersion)
	}
	u := &unstructured.Unstructured{Object: fields}
	ns := u.GetNamespace()
	if u.GetName() == "" { // a field such as "Metadata" is none
		return errors.New("an object has no name and was left out")
	}
	c := s.collectionFor(gv, name, ns)
	if c == nil {
		return fmt.Errorf("it has more than %d kinds: %s was left out", maxKinds, name)
	}
	if c.ClusterWide {
		ns = ""
	} else if ns == "" {
		ns = "default"
		u.SetNamespace(ns)
	}
	fields["apiVersion"] = c.APIVersion()
	cleanObject(fields)
	return s.storeObject(c, ns, fields)
}

// storeObject puts an object where its kind is kept.
func (s *Snapshot) storeObject(c *collection, ns string, fields map[string]any) error {
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: fields}
	key := objectKey(ns, u.GetName())
	old := c.byName[key]
	if old != nil && revisionOf(old.fields) > revisionOf(fields) {
		return nil
	}
	o := old
	if o == nil {
		o = &object{}
		c.objects, c.byName[key] = append(c.objects, o), o
	}
	*o = object{namespace: ns, name: u.GetName(), labels: u.GetLabels(), fields: fields, raw: raw}
	return nil
}

// collectionFor returns the collection of a kind, made if needed, nil when there are too
// many. A version that the API
// does not serve any more is served as the one that it does.
func (s *Snapshot) collectionFor(gv schema.GroupVersion, name, ns string) *collection {
	if c := s.ofKind(gv.Group, name); c != nil {
		return c
	}
	if len(s.kinds) >= maxKinds {
		return nil
	}
	k := guessKind(gv, name, ns == "")
	for s.collections[k.Group+"/"+k.Plural] != nil { // two kinds of one plural
		k.Plural += "x"
	}
	return s.addKind(k)
}

func revisionOf(fields map[string]any) int64 {
	text, _, _ := unstructured.NestedString(fields, "metadata", "resourceVersion")
	n, _ := strconv.ParseInt(text, 10, 64) // none is the oldest
	return n
}

// toCoreEvent turns an Event of events.k8s.io into a core one, as the API does.
func toCoreEvent(e map[string]any) {
	for from, to := range map[string]string{
		"regarding": "involvedObject", "note": "message", "deprecatedSource": "source", "deprecatedCount": "count",
		"deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp", "reportingController": "reportingComponent",
	} {
		if v, ok := e[from]; ok {
			e[to] = v
			delete(e, from)
		}
	}
	e["apiVersion"] = "v1"
}

const (
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// keysNote and dataNote are annotations of a Secret that was read through a guard.
	keysNote = "guard.nightcrier.dev/keys"
	dataNote = "guard.nightcrier.dev/data"
)

// cleanObject takes out of an object what nobody looks at, and the values of Secrets.
func cleanObject(fields map[string]any) {
	md, ok := fields["metadata"].(map[string]any)
	if !ok {
		return
	}
	if notes, ok := md["annotations"].(map[string]any); ok {
		delete(notes, lastApplied)
	}
	switch fields["kind"] {
	case "Secret":
		emptySecret(fields, md)
	case "Node":
		if status, ok := fields["status"].(map[string]any); ok {
			delete(status, "images")
		}
	}
	trimManagers(md)
}

// trimManagers leaves of managed fields who wrote, and when.
func trimManagers(md map[string]any) {
	managed, _ := md["managedFields"].([]any)
	var kept []any
	for _, m := range managed {
		if m, ok := m.(map[string]any); ok && m["time"] != nil {
			delete(m, "fieldsV1")
			delete(m, "fieldsType")
			kept = append(kept, m)
		}
	}
	if delete(md, "managedFields"); kept != nil {
		md["managedFields"] = kept
	}
}

// emptySecret keeps the keys of a Secret, and none of its values.
func emptySecret(fields, md map[string]any) {
	data := map[string]any{}
	for _, part := range []string{"data", "stringData"} {
		if values, ok := fields[part].(map[string]any); ok {
			for key := range values {
				data[key] = ""
			}
		}
		delete(fields, part)
	}
	for _, key := range managedKeys(md["managedFields"]) {
		data[key] = ""
	}
	if notes, ok := md["annotations"].(map[string]any); ok {
		if keys, _ := notes[keysNote].(string); keys != "" {
			for key := range strings.SplitSeq(keys, ",") {
				data[key] = ""
			}
		}
		delete(notes, keysNote)
		delete(notes, dataNote)
	}
	if len(data) > 0 {
		fields["data"] = data
	}
}

// managedKeys are the keys that a Secret's managers say they wrote.
func managedKeys(managed any) (keys []string) {
	list, _ := managed.([]any)
	for _, one := range list {
		entry, _ := one.(map[string]any)
		owned, _, _ := unstructured.NestedMap(entry, "fieldsV1", "f:data")
		for name := range owned {
			if key, ok := strings.CutPrefix(name, "f:"); ok {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// partialMetadata is the object as PartialObjectMetadata. A Secret's shows the keys where
// a live API shows them, which is all that readers of Secrets ask for.
func (o *object) partialMetadata() map[string]any {
	md := maps.Clone(o.fields["metadata"].(map[string]any))
	if data, ok := o.fields["data"].(map[string]any); ok && o.fields["kind"] == "Secret" {
		owned := map[string]any{}
		for key := range data {
			owned["f:"+key] = map[string]any{}
		}
		managed, _ := md["managedFields"].([]any)
		md["managedFields"] = append(slices.Clip(managed), map[string]any{
			"manager": "snapshot", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:data": owned},
		})
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": md}
}

// nameNamespaces makes the Namespaces that objects are in, where the snapshot has
// none: that something is in them says that they are there.
func (s *Snapshot) nameNamespaces() {
	home := s.ofKind("", "Namespace")
	if len(home.objects) > 0 {
		return
	}
	names := map[string]bool{}
	for _, c := range s.collections {
		for _, o := range c.objects {
			if o.namespace != "" {
				names[o.namespace] = true
			}
		}
	}
	for name := range names {
		_ = s.storeObject(home, "", map[string]any{ // what we make is JSON
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}, "status": map[string]any{"phase": "Active"},
		})
	}
}

// pastTimes are the fields that say when something happened; others, such as the
// end of a certificate, may lie ahead.
var pastTimes = map[string]bool{
	"creationTimestamp": true, "firstTimestamp": true, "lastTimestamp": true, "eventTime": true, "lastObservedTime": true,
	"lastTransitionTime": true, "lastUpdateTime": true, "lastProbeTime": true, "lastHeartbeatTime": true, "startedAt": true, "finishedAt": true,
	"startTime": true, "completionTime": true, "time": true, "timeAdded": true, "lastScheduleTime": true, "lastSuccessfulTime": true, "lastScaleTime": true, "renewTime": true,
}

// newestTime is the latest moment of which an object tells, zero without one.
func newestTime(v any) (newest time.Time) {
	see := func(at time.Time) {
		if at.After(newest) {
			newest = at
		}
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			see(newestTime(e))
		}
	case map[string]any:
		for key, e := range v {
			if text, ok := e.(string); !ok {
				see(newestTime(e))
			} else if pastTimes[key] {
				if at, err := time.Parse(time.RFC3339, text); err == nil {
					see(at.UTC())
				}
			}
		}
	}
	return newest
}
