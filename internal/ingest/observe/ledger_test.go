package observe_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
)

// ledger is a detector that keeps what it is told, and calls every object whose
// name starts with "bad" a fault.
type ledger struct {
	busy    atomic.Bool // a call is under way: another one is an error
	overlap atomic.Bool

	mu      sync.Mutex
	objects map[string]string // namespaces by kind/name, of complete snapshots and changes
	seen    map[string]bool   // since Begin
	begun   map[detect.Kind]int
	ends    map[detect.Kind]int
	blind   map[detect.Kind]bool
	ticks   int
	next    time.Time
	ready   []string
}

func newLedger() *ledger {
	return &ledger{objects: map[string]string{}, seen: map[string]bool{}, begun: map[detect.Kind]int{}, ends: map[detect.Kind]int{}, blind: map[detect.Kind]bool{}}
}

// enter takes the lock, and notes whether another call is under way.
func (l *ledger) enter() func() {
	if l.busy.Swap(true) {
		l.overlap.Store(true)
	}
	l.mu.Lock()
	return func() {
		l.mu.Unlock()
		l.busy.Store(false)
	}
}

func nameOf(object []byte) string {
	_, name := placeOf(object)
	return name
}

func placeOf(object []byte) (namespace, name string) {
	var o struct {
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return "", "garbage"
	}
	return o.Metadata.Namespace, o.Metadata.Name
}

func (l *ledger) Begin(k detect.Kind, _ string) {
	defer l.enter()()
	l.begun[k]++
	for key := range l.seen {
		if strings.HasPrefix(key, string(k)+"/") {
			delete(l.seen, key)
		}
	}
}

func (l *ledger) Observe(k detect.Kind, object []byte) []detect.Fault {
	defer l.enter()()
	ns, name := placeOf(object)
	key := string(k) + "/" + name
	_, known := l.objects[key]
	l.objects[key], l.seen[key] = ns, true
	if !known && strings.Contains(key, "/bad") {
		return []detect.Fault{{Type: "CrashLoop", Severity: nightcrier.Critical, Resource: nightcrier.Resource{Kind: string(k), Name: name}}}
	}
	return nil
}

func (l *ledger) End(k detect.Kind, ns string) []detect.Fault {
	defer l.enter()()
	l.ends[k]++
	for key, in := range l.objects {
		if strings.HasPrefix(key, string(k)+"/") && !l.seen[key] && (ns == "" || ns == in) {
			delete(l.objects, key)
		}
	}
	return nil
}

func (l *ledger) Delete(k detect.Kind, object []byte) []detect.Fault {
	defer l.enter()()
	delete(l.objects, string(k)+"/"+nameOf(object))
	return nil
}

func (l *ledger) Blind(k detect.Kind, _ string, blind bool) {
	defer l.enter()()
	l.blind[k] = blind
}

func (l *ledger) API(ready bool, why string) []detect.Fault {
	defer l.enter()()
	l.ready = append(l.ready, fmt.Sprintf("%t %s", ready, why))
	return nil
}

func (l *ledger) Tick() []detect.Fault {
	defer l.enter()()
	l.ticks++
	l.next = time.Time{}
	return nil
}

func (l *ledger) Next() time.Time {
	defer l.enter()()
	return l.next
}

func (l *ledger) Stats() detect.Stats {
	defer l.enter()()
	return detect.Stats{Objects: len(l.objects)}
}

// has lists what the ledger holds of a kind.
func (l *ledger) has(k detect.Kind) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for key := range l.objects {
		if name, ok := strings.CutPrefix(key, string(k)+"/"); ok {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
