// Package demo holds the embedded scenarios of `nightcrier demo`: what a cluster's
// MCP server pushed about a fault, in every dialect, and a snapshot of the cluster
// in which it happened.
//
// A scenario is a directory below scenarios/: scenario.json and snapshot/. All are
// recorded from a real cluster of one node, on which manifests/ made them happen:
//
//	go test ./internal/fake/demo -run Record -record -parallel 16
package demo

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
)

//go:embed all:scenarios
var files embed.FS

// Scenario is one recorded fault, or what looks like one.
type Scenario struct {
	Name string
	// About says what happened, in a sentence.
	About   string
	Cluster string
	// Calm says that nothing is wrong any more, or never was.
	Calm bool
	// Notifications are JSON-RPC messages in the order in which they are pushed.
	Notifications [][]byte
	// Snapshot is the cluster.
	Snapshot *snapshot.Snapshot
}

// Load reads the embedded scenarios, in the order in which they are to be
// replayed, and moves their times so that they happened just before now.
func Load(now time.Time) ([]Scenario, error) {
	entries, err := fs.ReadDir(files, "scenarios")
	if err != nil {
		return nil, err
	}
	var list []Scenario
	for _, e := range entries {
		sc, err := loadScenario(e.Name(), now)
		if err != nil {
			return nil, fmt.Errorf("demo scenario %s: %w", e.Name(), err)
		}
		list = append(list, sc)
	}
	return list, nil
}

func loadScenario(name string, now time.Time) (Scenario, error) {
	dir := path.Join("scenarios", name)
	raw, err := fs.ReadFile(files, path.Join(dir, "scenario.json"))
	if err != nil {
		return Scenario{}, err
	}
	var told struct {
		About         string            `json:"about"`
		Cluster       string            `json:"cluster"`
		Calm          bool              `json:"calm"`
		Notifications []json.RawMessage `json:"notifications"`
	}
	if err := json.Unmarshal(raw, &told); err != nil {
		return Scenario{}, err
	}
	sub, err := fs.Sub(files, path.Join(dir, "snapshot"))
	if err != nil {
		return Scenario{}, err
	}
	s, err := snapshot.Read(sub)
	if err != nil {
		return Scenario{}, err
	}
	sc := Scenario{Name: name, About: told.About, Cluster: told.Cluster, Calm: told.Calm, Snapshot: s.Shift(now)}
	for _, n := range told.Notifications {
		sc.Notifications = append(sc.Notifications, snapshot.MoveTimes(n, now.Sub(s.CapturedAt)))
	}
	return sc, nil
}
