package bench

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/test/churn"
)

var morning = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func newDetector(now func() time.Time) *detect.Detector {
	return detect.New(detect.Config{Now: now, Class: intake.ClassOf, OwnerByName: intake.OwnerByName})
}

// heap is what is in use after a collection, in bytes.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkDetector feeds a busy hour of a cluster of 5,000 Pods, object by
// object.
func BenchmarkDetector(b *testing.B) {
	day := churn.New(churn.Config{Seed: 1, Pods: 5000, Start: morning})
	var changes []churn.Change
	bytes := 0
	for ch := day.Next(); ch.At.Sub(morning) < time.Hour; ch = day.Next() {
		changes, bytes = append(changes, ch), bytes+len(ch.Object)
	}
	now := morning
	d := newDetector(func() time.Time { return now })
	b.SetBytes(int64(bytes / len(changes)))
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		ch := changes[i%len(changes)]
		if now = ch.At; ch.Verb == churn.Deleted {
			d.Delete(detect.Kind(ch.Kind), ch.Object)
		} else {
			d.Observe(detect.Kind(ch.Kind), ch.Object)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "objects/s")
}

// BenchmarkDetectorPod looks at one Pod that works.
func BenchmarkDetectorPod(b *testing.B) {
	pod := churn.New(churn.Config{Seed: 1, Pods: 100, Start: morning}).Snapshot("Pod")[0]
	d := newDetector(func() time.Time { return morning })
	b.SetBytes(int64(len(pod)))
	b.ReportAllocs()
	for b.Loop() {
		d.Observe(detect.Pod, pod)
	}
}

// BenchmarkDetectorMemory says what 100 clusters of 1,000 Pods cost that work,
// and what one costs in which every Pod is broken.
func BenchmarkDetectorMemory(b *testing.B) {
	cluster := churn.New(churn.Config{Seed: 1, Pods: 1000, Start: morning})
	lists := map[detect.Kind][]json.RawMessage{}
	for _, k := range detect.Kinds() {
		lists[k.Kind] = cluster.Snapshot(string(k.Kind))
	}
	now := func() time.Time { return morning }
	for b.Loop() {
		before := heap()
		all := make([]*detect.Detector, 100)
		objects := 0
		for i := range all {
			all[i] = newDetector(now)
			for _, k := range detect.Kinds() {
				all[i].Begin(k.Kind, "")
				for _, o := range lists[k.Kind] {
					all[i].Observe(k.Kind, o)
				}
				all[i].End(k.Kind, "")
			}
			objects += all[i].Stats().Objects
		}
		used := heap() - before
		b.ReportMetric(used/1e6, "MB/100_clusters")
		b.ReportMetric(used/float64(objects), "bytes/object")
		runtime.KeepAlive(all)

		before = heap()
		broken := newDetector(now)
		for i := range 1000 {
			broken.Observe(detect.Pod, fmt.Appendf(nil, `{"metadata":{"name":"web-%d","namespace":"shop","uid":"%036d"},"status":{"phase":"Running","startTime":"2026-03-02T10:00:00Z","containerStatuses":[{"name":"app","restartCount":9,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":1,"reason":"Error","finishedAt":"2026-03-02T11:59:00Z"}}}]}}`, i, i))
		}
		b.ReportMetric((heap()-before)/1000, "bytes/broken_pod")
		runtime.KeepAlive(broken)
	}
}
