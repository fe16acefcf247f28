package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// Cluster answers reads from a scenario's objects, as a real API server would.
type Cluster struct {
	name    string
	objects []object
	logs    map[string][]byte
}

// object is the part of an object that selects it, and its bytes.
type object struct {
	meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name            string            `json:"name"`
			Namespace       string            `json:"namespace"`
			Labels          map[string]string `json:"labels"`
			OwnerReferences []struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Name       string `json:"name"`
				UID        string `json:"uid"`
				Controller bool   `json:"controller"`
			} `json:"ownerReferences"`
		} `json:"metadata"`
		InvolvedObject map[string]any `json:"involvedObject"`
	}
	raw json.RawMessage
}

func (c *Cluster) add(fsys fs.FS, scenario string, now time.Time) error {
	if err := c.addLogs(fsys, path.Join(scenario, "logs"), now); err != nil {
		return err
	}
	raw, err := fs.ReadFile(fsys, path.Join(scenario, "objects.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(shift(raw, now), &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		o := object{raw: item}
		if err := json.Unmarshal(item, &o.meta); err != nil {
			return err
		}
		c.objects = append(c.objects, o)
	}
	return nil
}

func (c *Cluster) addLogs(fsys fs.FS, dir string, now time.Time) error {
	if _, err := fs.Stat(fsys, dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fs.WalkDir(fsys, dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(fsys, p)
		c.logs[strings.TrimPrefix(p, dir+"/")] = shift(raw, now)
		return err
	})
}

// Get returns one object as JSON.
func (c *Cluster) Get(_ context.Context, res nightcrier.Resource) ([]byte, error) {
	for _, o := range c.objects {
		m := o.meta.Metadata
		if o.meta.Kind == res.Kind && m.Name == res.Name && m.Namespace == res.Namespace {
			return o.raw, nil
		}
	}
	return nil, nightcrier.Errorf(nightcrier.NotFound, "%s is not in cluster %s", res, c.name)
}

// List returns a List of the objects of a kind that the selectors allow.
func (c *Cluster) List(_ context.Context, kind, ns, labelSel, fieldSel string, limit int) ([]byte, error) {
	items := []json.RawMessage{}
	for _, o := range c.objects {
		if o.meta.Kind == kind && (ns == "" || o.meta.Metadata.Namespace == ns) && o.matches(labelSel, fieldSel) {
			items = append(items, o.raw)
		}
		if limit > 0 && len(items) == limit {
			break
		}
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": kind + "List", "metadata": map[string]any{}, "items": items})
}

// matches understands equality selectors, which is all that diagnosis uses.
func (o object) matches(labelSel, fieldSel string) bool {
	for key, want := range equalities(labelSel) {
		if o.meta.Metadata.Labels[key] != want {
			return false
		}
	}
	for key, want := range equalities(fieldSel) {
		field, involved := strings.CutPrefix(key, "involvedObject.")
		got := o.meta.Metadata.Name
		if involved {
			got, _ = o.meta.InvolvedObject[field].(string)
		} else if key != "metadata.name" {
			continue
		}
		if got != want {
			return false
		}
	}
	return true
}

func equalities(selector string) map[string]string {
	m := map[string]string{}
	for part := range strings.SplitSeq(selector, ",") {
		if k, v, ok := strings.Cut(part, "="); ok {
			m[k] = strings.TrimPrefix(v, "=")
		}
	}
	return m
}

// Logs returns a container's log, cut to its last tail lines and maxBytes.
func (c *Cluster) Logs(_ context.Context, ns, pod, container string, previous bool, tail, maxBytes int64) ([]byte, error) {
	log, ok := c.logs[logKey(ns, pod, container, previous)]
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "container %s of pod %s/%s has no such log", container, ns, pod)
	}
	return lastLines(log, tail, maxBytes), nil
}

func lastLines(log []byte, tail, maxBytes int64) []byte {
	if lines := bytes.SplitAfter(log, []byte("\n")); tail > 0 && int64(len(lines)) > tail+1 {
		log = bytes.Join(lines[int64(len(lines))-tail-1:], nil)
	}
	if maxBytes > 0 && int64(len(log)) > maxBytes {
		log = log[int64(len(log))-maxBytes:]
	}
	return log
}

// Owner follows owner references to the workload that an engineer would mend.
func (c *Cluster) Owner(ctx context.Context, res nightcrier.Resource) (nightcrier.Resource, error) {
	for _, o := range c.objects {
		m := o.meta.Metadata
		if o.meta.Kind != res.Kind || m.Name != res.Name || m.Namespace != res.Namespace {
			continue
		}
		for _, ref := range m.OwnerReferences {
			if ref.Controller {
				return c.Owner(ctx, nightcrier.Resource{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: m.Namespace, Name: ref.Name, UID: ref.UID})
			}
		}
	}
	return res, c.mustHold(res)
}

// mustHold is a NotFound error for an object that is in no scenario: its owner
// is then guessed from its name, as it is for an object deleted meanwhile.
func (c *Cluster) mustHold(res nightcrier.Resource) error {
	_, err := c.Get(context.Background(), res)
	return err
}

// Permissions tells what the recorded credential may do: read.
func (c *Cluster) Permissions(context.Context, string) (map[string]any, error) {
	return map[string]any{"canRead": "yes", "canWrite": "no", "source": "recorded"}, nil
}
