// Package demo holds the embedded scenarios of `nightcrier demo`: fault
// notifications in every dialect, as a cluster's MCP server would push them, and
// the objects and logs that a look into that cluster would find.
//
// A scenario is a directory below scenarios/: notification.json (one JSON-RPC
// notification), objects.json (a List, optional) and logs/NAMESPACE/POD/
// CONTAINER[.previous].log (optional). Adding one needs no code.
package demo

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed all:scenarios
var files embed.FS

// recorded is the moment that the scenarios' times are relative to; Load moves
// them so that the faults happened just now.
var recorded = time.Date(2026, 11, 20, 3, 6, 30, 0, time.UTC)

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// Scenario is one recorded fault.
type Scenario struct {
	Name    string
	Cluster string
	// Notification is the JSON-RPC message; its params.data is what a server pushes.
	Notification []byte
}

// Data returns the notification's params: data, level and logger.
func (s Scenario) Data() (json.RawMessage, error) {
	var msg struct {
		Params json.RawMessage `json:"params"`
	}
	err := json.Unmarshal(s.Notification, &msg)
	return msg.Params, err
}

// Demo is the set of scenarios, in the order in which they are to be replayed.
type Demo struct {
	Scenarios []Scenario
	clusters  map[string]*Cluster
}

// Load reads the embedded scenarios and moves their times to just before now.
func Load(now time.Time) (*Demo, error) {
	sub, err := fs.Sub(files, "scenarios")
	if err != nil {
		return nil, err
	}
	return load(sub, now)
}

func load(fsys fs.FS, now time.Time) (*Demo, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	d := &Demo{clusters: map[string]*Cluster{}}
	for _, e := range entries {
		if err := d.add(fsys, e.Name(), now); err != nil {
			return nil, fmt.Errorf("demo scenario %s: %w", e.Name(), err)
		}
	}
	return d, nil
}

func (d *Demo) add(fsys fs.FS, name string, now time.Time) error {
	raw, err := fs.ReadFile(fsys, path.Join(name, "notification.json"))
	if err != nil {
		return err
	}
	raw = shift(raw, now)
	var msg struct {
		Params struct {
			Data struct {
				Cluster string `json:"cluster"`
			} `json:"data"`
		} `json:"params"`
	}
	if err := json.Unmarshal(raw, &msg); err != nil {
		return err
	}
	cluster := msg.Params.Data.Cluster
	d.Scenarios = append(d.Scenarios, Scenario{Name: name, Cluster: cluster, Notification: raw})
	if d.clusters[cluster] == nil {
		d.clusters[cluster] = &Cluster{name: cluster, logs: map[string][]byte{}}
	}
	return d.clusters[cluster].add(fsys, name, now)
}

// Cluster returns what can be read in one of the scenarios' clusters; nothing can
// in any other. It may be called concurrently.
func (d *Demo) Cluster(name string) *Cluster {
	if c := d.clusters[name]; c != nil {
		return c
	}
	return &Cluster{name: name}
}

// Clusters returns the names of the scenarios' clusters, sorted.
func (d *Demo) Clusters() []string {
	names := make([]string, 0, len(d.clusters))
	for n := range d.clusters {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// shift moves every timestamp by the time between the recording and now.
func shift(raw []byte, now time.Time) []byte {
	by := now.Sub(recorded)
	return timestamp.ReplaceAllFunc(raw, func(b []byte) []byte {
		t, err := time.Parse(time.RFC3339, string(b))
		if err != nil {
			return b
		}
		return []byte(t.Add(by).UTC().Format(time.RFC3339))
	})
}

// logKey is the key of a log file's path below logs/.
func logKey(ns, pod, container string, previous bool) string {
	name := container
	if previous {
		name += ".previous"
	}
	return strings.Join([]string{ns, pod, name + ".log"}, "/")
}
