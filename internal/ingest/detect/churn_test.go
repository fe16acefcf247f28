package detect_test

import (
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/test/churn"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// listAll shows a detector all that a cluster has.
func listAll(d *detect.Detector, c *churn.Cluster) (out []detect.Fault) {
	for _, k := range detect.Kinds() {
		d.Begin(k.Kind, "")
		for _, o := range c.Snapshot(string(k.Kind)) {
			out = append(out, d.Observe(k.Kind, o)...)
		}
		out = append(out, d.End(k.Kind, "")...)
	}
	return out
}

// A day of 1,000 Pods in which nothing is wrong makes no fault, and leaves
// nothing behind. (A watch sees a day of 5,000, in package observe.)
func TestADayWithoutAFault(t *testing.T) {
	if testproc.Raced() {
		testproc.Rerun(t) // one goroutine has nothing to race with
		return
	}
	day := churn.New(churn.Config{Seed: 7, Pods: 1000, Start: noon})
	c := &clock{noon}
	d := newDetector(c)
	silent := func(edges []detect.Fault) {
		for _, f := range edges {
			t.Errorf("%s: %s: %s", c.now.Sub(noon), spell(f), f.Context)
		}
		if len(edges) > 0 && t.Failed() {
			t.FailNow()
		}
	}
	silent(listAll(d, day))
	morning := d.Stats()
	verbs, kinds := map[string]int{}, map[string]int{}
	for {
		ch := day.Next()
		if ch.At.Sub(noon) > 24*time.Hour {
			break
		}
		verbs[ch.Verb]++
		kinds[ch.Kind]++
		silent(pass(d, c, ch.At))
		if ch.Verb == churn.Deleted {
			silent(d.Delete(detect.Kind(ch.Kind), ch.Object))
			continue
		}
		silent(d.Observe(detect.Kind(ch.Kind), ch.Object))
	}
	evening := d.Stats()
	t.Logf("morning %+v, evening %+v, %v, %v", morning, evening, verbs, kinds)
	if len(kinds) < 8 || verbs[churn.Modified] < 5_000 {
		t.Errorf("not much has happened: %v %v", verbs, kinds)
	}
	if evening.Bytes > morning.Bytes*3/2 || evening.Active > 0 {
		t.Errorf("it has kept %+v of a day that began with %+v", evening, morning)
	}
}
