package diagnose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/collect"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// limited gives the container its limits.
func limited(name corev1.ResourceName, limit string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse(limit)}
	}
}

// sources answer every question with these bodies, and remember the questions. They are
// asked at the same time.
func sources(metrics, log []byte, err error, asked *[]string) *collect.Sources {
	var mu sync.Mutex
	remember := func(question string) {
		mu.Lock()
		defer mu.Unlock()
		*asked = append(*asked, question)
	}
	return &collect.Sources{
		MetricsLabel: "ns",
		Metrics: func(_ context.Context, query string, from, to time.Time, _ time.Duration) ([]byte, error) {
			remember(fmt.Sprintf("%s over %s", query, to.Sub(from)))
			return metrics, err
		},
		Lines: func(_ context.Context, query string, _, _ time.Time, _ int) ([]byte, error) {
			remember(query)
			return log, err
		},
	}
}

func TestMemoryBeforeTheKill(t *testing.T) {
	var asked []string
	c := newCluster(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", 20*time.Minute), limited(corev1.ResourceMemory, "128Mi")))
	c.logs["cart/app/true"] = "working\n"
	in, m := input(c, scenetest.CartPod)
	without := run(t, in)
	in.Sources = sources(scenetest.MetricAnswer("41943040", "NaN", "133169152", "130023424"), nil, nil, &asked)
	d := run(t, in)
	if want := `[max(container_memory_working_set_bytes{ns="shop", pod="cart", container="app"}) over 20m0s]`; fmt.Sprint(asked) != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	if *d.Report.RootCause != *without.Report.RootCause || d.Report.Verdict != without.Report.Verdict {
		t.Errorf("the root cause became %+v", d.Report.RootCause)
	}
	for _, f := range d.Report.Facts {
		if strings.Contains(f.Text, "the memory of container app of Pod cart went from 40Mi to 124Mi") {
			if !strings.Contains(f.Text, "is 127Mi, 99 % of its limit") || f.Check != nightcrier.Verified || !strings.Contains(m.load(f.Evidence[0]), f.Quote) || f.Quote != "133169152" {
				t.Errorf("got %+v", f)
			}
			return
		}
	}
	t.Errorf("the memory is no fact: %+v", d.Report.Facts)
}

// Memory that was never measured near the limit makes the kill less certain to be the
// workload's own; a few measurements say nothing.
func TestMemoryFarFromItsLimit(t *testing.T) {
	for want, values := range map[nightcrier.Confidence][]string{
		nightcrier.Medium: {"10485760", "11534336", "12582912", "11534336", "12582912"},
		nightcrier.High:   {"10485760", "11534336", "12582912"},
	} {
		c := newCluster(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", 20*time.Minute), limited(corev1.ResourceMemory, "128Mi")))
		in, m := input(c, scenetest.CartPod)
		in.Sources = sources(scenetest.MetricAnswer(values...), nil, nil, new([]string))
		d := run(t, in)
		sound(t, d, m)
		r := d.Report
		if r.RootCause == nil || r.RootCause.Cause != "oom-killed" || r.RootCause.Confidence != want || strings.HasPrefix(r.Actions[0].Action, "Read in the kernel log of node") != (want == nightcrier.Medium) {
			t.Errorf("%d values: %+v, first %q", len(values), r.RootCause, r.Actions[0].Action)
		}
	}
}

func TestThrottledCPU(t *testing.T) {
	for share, want := range map[string]bool{"0.8312": true, "0.1": false, "NaN": false, "7": false} {
		var asked []string
		in, m := input(newCluster(scenetest.Pod(scenetest.Crashing(1, "Error", 20*time.Minute), limited(corev1.ResourceCPU, "200m"))), scenetest.CartPod)
		in.Sources = sources(scenetest.MetricAnswer("0", share), nil, nil, &asked)
		told := false
		for _, f := range run(t, in).Report.Facts {
			if strings.Contains(f.Text, "throttled in 83 % of its periods (limit 200m)") && strings.Contains(m.load(f.Evidence[0]), f.Quote) {
				told = true
			}
		}
		if told != want {
			t.Errorf("a share of %s: told %v, asked %q", share, told, asked)
		}
	}
}

// The log of an instance that its node has no more is read where logs are kept.
func TestLogOfAnEarlierInstance(t *testing.T) {
	var asked []string
	broken := scenetest.Pod(scenetest.Crashing(1, "Error", time.Minute))
	in, m := input(newCluster(broken), scenetest.CartPod)
	in.Sources = sources(nil, scenetest.LogAnswer("starting", "panic: open /etc/cart/config.yaml: no such file or directory"), nil, &asked)
	d := run(t, in)
	if len(d.Logs) != 1 || !d.Logs[0].Previous || !strings.HasPrefix(d.Logs[0].Text, "starting\npanic") || !strings.HasPrefix(m.load(d.Logs[0].Evidence), "starting\n") {
		t.Errorf("the logs are %+v, asked %q", d.Logs, asked)
	}
	if c := d.Report.RootCause; c == nil || !strings.Contains(c.Summary, "/etc/cart/config.yaml") {
		t.Errorf("the root cause is %+v", c)
	}
	for _, f := range d.Report.Facts {
		if strings.Contains(f.Text, "previous log") && !strings.HasPrefix(f.Source, "loki query_range") {
			t.Errorf("got %+v", f)
		}
	}
	t.Run("but not where the node has it", func(t *testing.T) {
		asked = nil
		c := newCluster(broken)
		c.logs["cart/app/true"] = "panic: something else\n"
		in.Reader = c
		if run(t, in); len(asked) > 0 {
			t.Errorf("asked %q", asked)
		}
	})
}

// A source that fails, hangs or lies leaves the diagnosis as it is.
func TestSourcesAreNotBelieved(t *testing.T) {
	oom := scenetest.Pod(scenetest.Crashing(137, "OOMKilled", 20*time.Minute), limited(corev1.ResourceMemory, "128Mi"))
	in, _ := input(newCluster(oom), scenetest.CartPod)
	plain := run(t, in)
	for name, body := range map[string]string{
		"nothing": "", "no JSON": "<html>", "no series": `{"data":{"result":[]}}`, "two series": `{"data":{"result":[{"values":[[1,"2"]]},{"values":[[1,"2"]]}]}}`,
		"broken points": `{"data":{"result":[{"values":[[1],["x"],[{},{}]]}]}}`, "huge": `{"data":{"result":[{"values":[[1e300,"1e300"],[1,"-5"],[1,"+Inf"]]}]}}`,
		"lines without time": `{"data":{"result":[{"values":[["x","panic: lie"]]}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			in.Sources = sources([]byte(body), []byte(body), nil, &asked)
			d := run(t, in)
			if len(asked) != 2 || len(d.Report.Facts) != len(plain.Report.Facts) || *d.Report.RootCause != *plain.Report.RootCause || len(d.Report.NotChecked) != len(plain.Report.NotChecked) {
				t.Errorf("asked %q, got %+v", asked, d.Report)
			}
		})
	}
	t.Run("an error", func(t *testing.T) {
		var asked []string
		in.Sources = sources(nil, nil, nightcrier.Errorf(nightcrier.Unreachable, "prometheus cannot be reached"), &asked)
		d := run(t, in)
		if *d.Report.RootCause != *plain.Report.RootCause || len(d.Report.NotChecked) != len(plain.Report.NotChecked)+2 || !strings.Contains(d.Incomplete, "cannot be reached") {
			t.Errorf("got %+v", d.Report.NotChecked)
		}
	})
	t.Run("silence", func(t *testing.T) {
		in.Sources = &collect.Sources{Metrics: func(ctx context.Context, _ string, _, _ time.Time, _ time.Duration) ([]byte, error) {
			end, bound := ctx.Deadline()
			if left := time.Until(end); !bound || left > collect.SourcesPatience {
				t.Errorf("the question may take %s", left)
			}
			return nil, errors.New("as if the time were over")
		}}
		if d := run(t, in); *d.Report.RootCause != *plain.Report.RootCause {
			t.Errorf("got %+v", d.Report.RootCause)
		}
	})
}
