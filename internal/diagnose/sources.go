package diagnose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nightcrier.dev/nightcrier"
)

// Sources are where a cluster's metrics and logs are asked for, beside the cluster
// itself. What they tell is added to what the rules found in the cluster; where they
// are silent, nothing is concluded from that.
type Sources struct {
	// Metrics answers a query over a time as Prometheus' API does, nil where it cannot
	// be asked.
	Metrics func(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]byte, error)
	// Lines answers a query as Loki's API does, the newest lines up to limit.
	Lines func(ctx context.Context, query string, from, to time.Time, limit int) ([]byte, error)
	// MetricsLabel and LinesLabel are the labels that hold a namespace.
	MetricsLabel, LinesLabel string
}

const (
	// sourcesPatience is how much later a diagnosis may be for them.
	sourcesPatience = 2 * time.Second
	// maxMeasured is how many containers they are asked about.
	maxMeasured = 4
	// memoryBefore is how long before its end a container's memory is looked at, and
	// throttledFor how long its CPU.
	memoryBefore = time.Hour
	throttledFor = 30 * time.Minute
	// muchThrottled is from which share of its periods on a throttled CPU is told.
	muchThrottled = 0.25
	// clockSkew is by how much clocks of nodes may differ from each other.
	clockSkew = 2 * time.Second
)

// measured is what a source said of one container.
type measured struct {
	namespace, pod, container string
	memory, throttled         []point
	from, to                  time.Time
	Ref
}

// point is a measurement; text is how the source wrote it.
type point struct {
	at    time.Time
	value float64
	text  string
}

// readSources asks about the containers that are not well. A source that does not
// answer is a line of what was not checked.
func (c *collector) readSources(ctx context.Context, f *Facts) error {
	if c.in.Sources == nil || c.in.Reader == nil || f.Hearsay || !f.isTargetKnown() {
		return nil
	}
	about := []*Facts{f}
	if f.isWholeTarget() {
		about = c.scene.allWorkloads()
	}
	var looks []look
	n := 0
	for _, of := range about {
		for ct := range of.failingContainers() {
			if n++; n <= maxMeasured {
				looks = append(looks, c.measureContainer(ct)...)
			}
		}
	}
	before := len(c.scene.Logs)
	if err := c.askSources(ctx, looks); err != nil {
		return err
	}
	for _, l := range c.scene.Logs[before:] {
		if slices.ContainsFunc(f.Pods, func(p Read[corev1.Pod]) bool { return p.Object.Namespace == l.Namespace && p.Object.Name == l.Pod }) {
			f.Logs = append(f.Logs, l)
		}
	}
	return nil
}

// measureContainer is what is worth asking about a container.
func (c *collector) measureContainer(ct container) (looks []look) {
	s, end := c.in.Sources, ct.lastEnd()
	killed := end != nil && (end.Reason == "OOMKilled" || end.ExitCode == 137)
	if s.Metrics != nil && killed {
		looks = append(looks, c.memoryOf(ct, end))
	}
	if s.Metrics != nil && !killed && !ct.spec.Resources.Limits.Cpu().IsZero() {
		looks = append(looks, c.throttlingOf(ct))
	}
	if s.Lines != nil && end != nil && !end.FinishedAt.IsZero() && !end.StartedAt.IsZero() && !c.hasLogOf(ct) {
		looks = append(looks, c.linesOf(ct, end))
	}
	return looks
}

// seriesSelector chooses the series, or the streams, of a container.
func (c container) seriesSelector(namespaceLabel string) string {
	p := &c.pod.Object
	return fmt.Sprintf("{%s=%s, pod=%s, container=%s}", cmp.Or(namespaceLabel, "namespace"), strconv.Quote(p.Namespace), strconv.Quote(p.Name), strconv.Quote(c.status.Name))
}

// memoryOf reads how the memory of a container went before it ended.
func (c *collector) memoryOf(ct container, end *corev1.ContainerStateTerminated) look {
	to := end.FinishedAt.Time
	if to.IsZero() {
		to = c.scene.Now
	}
	from := to.Add(-memoryBefore)
	if started := end.StartedAt.Time; started.After(from) && started.Before(to) {
		from = started
	}
	query := "max(container_memory_working_set_bytes" + ct.seriesSelector(c.in.Sources.MetricsLabel) + ")"
	return c.lookAtSeries(ct, query, from, to, func(m *measured, points []point) { m.memory = points })
}

// throttlingOf reads in which share of its periods the CPU of a container was held up.
func (c *collector) throttlingOf(ct container) look {
	of := ct.seriesSelector(c.in.Sources.MetricsLabel)
	query := fmt.Sprintf("sum(increase(container_cpu_cfs_throttled_periods_total%s[5m])) / sum(increase(container_cpu_cfs_periods_total%s[5m]))", of, of)
	return c.lookAtSeries(ct, query, c.scene.Now.Add(-throttledFor), c.scene.Now, func(m *measured, points []point) { m.throttled = points })
}

// lookAtSeries returns the look that asks for one series over a time.
func (c *collector) lookAtSeries(ct container, query string, from, to time.Time, put func(*measured, []point)) look {
	step := max(15*time.Second, (to.Sub(from) / 100).Truncate(time.Second))
	source := fmt.Sprintf("prometheus query_range %s from %s to %s", query, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	return look{
		source: source,
		ask: func(ctx context.Context) ([]byte, error) {
			if !from.Before(to) {
				return nil, nil
			}
			return c.in.Sources.Metrics(ctx, query, from, to, step)
		},
		take: func(body []byte) error {
			points := pointsOf(body)
			if len(points) == 0 {
				return nil
			}
			ref, err := c.recordBody("metrics", source, body)
			m := measured{namespace: ct.pod.Object.Namespace, pod: ct.pod.Object.Name, container: ct.status.Name, from: from, to: to, Ref: ref}
			put(&m, points)
			c.scene.measured = append(c.scene.measured, m)
			return err
		},
	}
}

// pointsOf are the points of an answer that is one series, none of any other.
func pointsOf(body []byte) (points []point) {
	var answer struct {
		Data struct {
			Result []struct {
				Values [][2]json.RawMessage `json:"values"`
			} `json:"result"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Data.Result) != 1 {
		return nil
	}
	for _, v := range answer.Data.Result[0].Values {
		var at float64
		var text string
		if json.Unmarshal(v[0], &at) != nil || json.Unmarshal(v[1], &text) != nil {
			return nil
		}
		if value, err := strconv.ParseFloat(text, 64); err == nil && value >= 0 && value < 1e18 { // NaN is neither
			points = append(points, point{time.UnixMilli(int64(at * 1000)), value, text})
		}
	}
	return points
}

// hasLogOf reports whether the log of the instance that ended was read.
func (c *collector) hasLogOf(ct container) bool {
	return slices.ContainsFunc(c.scene.Logs, func(l LogExcerpt) bool {
		previous := l.Previous || ct.status.State.Terminated != nil
		return previous && l.Namespace == ct.pod.Object.Namespace && l.Pod == ct.pod.Object.Name && l.Container == ct.status.Name && lastLine(l.Text) != ""
	})
}

// linesOf reads what the instance that ended has logged, where its node has it no more.
func (c *collector) linesOf(ct container, end *corev1.ContainerStateTerminated) look {
	p, query := &ct.pod.Object, ct.seriesSelector(c.in.Sources.LinesLabel)
	from, to := end.StartedAt.Add(-clockSkew), end.FinishedAt.Add(clockSkew)
	source := fmt.Sprintf("loki query_range %s from %s to %s", query, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	return look{
		source: source,
		ask: func(ctx context.Context) ([]byte, error) {
			return c.in.Sources.Lines(ctx, query, from, to, logLines)
		},
		take: func(body []byte) error {
			text := linesIn(body)
			if text == "" {
				return nil
			}
			ref, err := c.recordBody("log", source, []byte(text))
			c.scene.Logs = append(c.scene.Logs, LogExcerpt{
				Namespace: p.Namespace, Pod: p.Name, Container: ct.status.Name, Previous: true,
				Evidence: ref.Evidence, Text: c.in.Mask(text), source: source,
			})
			return err
		},
	}
}

// linesIn are the lines of an answer in the order of time, as a log has them.
func linesIn(body []byte) string {
	var answer struct {
		Data struct {
			Result []struct {
				Values [][]json.RawMessage `json:"values"`
			} `json:"result"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	type line struct {
		at   int64
		text string
	}
	var lines []line
	for _, s := range answer.Data.Result {
		for _, v := range s.Values {
			var at, text string
			if len(v) < 2 || json.Unmarshal(v[0], &at) != nil || json.Unmarshal(v[1], &text) != nil {
				return ""
			}
			n, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				return ""
			}
			lines = append(lines, line{n, strings.TrimRight(text, "\r\n")})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var out strings.Builder
	for _, l := range lines {
		out.WriteString(l.text + "\n")
	}
	text := out.String()
	return text[max(0, len(text)-logBytes):]
}

// askSources makes looks at the sources: all at the same time, and none for longer than
// they may delay the diagnosis. They are no reads of the cluster, and their silence
// says nothing of it.
func (c *collector) askSources(ctx context.Context, looks []look) error {
	within, cancel := context.WithTimeout(ctx, sourcesPatience)
	defer cancel()
	answers := make([]answer, len(looks))
	var all sync.WaitGroup
	for i, l := range looks {
		all.Go(func() {
			a := &answers[i]
			a.asked = true
			defer func() { a.panic = recover() }()
			a.body, a.err = l.ask(WithSource(within, l.source))
		})
	}
	all.Wait()
	for i, a := range answers {
		looks[i].fail = func(err error) error {
			c.noteMissed(looks[i].source, err.Error())
			return nil
		}
		if err := c.takeAnswer(ctx, looks[i], a); err != nil {
			return err
		}
	}
	return nil
}

// measuredOf is what was measured of a container, as far as has says that it is there.
func (f *Facts) measuredOf(c container, has func(measured) []point) (measured, []point) {
	for _, m := range f.Scene.measured {
		if points := has(m); len(points) > 0 && m.namespace == c.pod.Object.Namespace && m.pod == c.pod.Object.Name && m.container == c.status.Name {
			return m, points
		}
	}
	return measured{}, nil
}

// sawUse is how the memory of a container went before it was killed. What is measured
// every half minute seldom meets the peak.
func (f *Facts) sawUse(c container) (Observation, bool) {
	m, points := f.measuredOf(c, func(m measured) []point { return m.memory })
	if len(points) == 0 {
		return Observation{}, false
	}
	most := slices.MaxFunc(points, func(a, b point) int { return cmp.Compare(a.value, b.value) })
	text := fmt.Sprintf("the memory of %s went from %s to %s within %s before its end; the most that was measured is %s",
		c, bytesText(points[0].value), bytesText(points[len(points)-1].value), m.to.Sub(points[0].at).Round(time.Second), bytesText(most.value))
	if limit := c.spec.Resources.Limits.Memory(); !limit.IsZero() {
		text += fmt.Sprintf(", %.0f %% of its limit", 100*most.value/limit.AsApproximateFloat64())
	}
	return Observation{Text: text, Quote: most.text, Ref: m.Ref}, true
}

func bytesText(v float64) string {
	q := resource.NewQuantity(int64(v), resource.BinarySI)
	if v >= 1<<20 {
		q = resource.NewQuantity(int64(v)>>20<<20, resource.BinarySI)
	}
	return q.String()
}

// addThrottling tells which containers are held up by their CPU limit: slow probes and
// slow starts may come from it, so it is a fact and no cause.
func (a *assembler) addThrottling() {
	for _, f := range append([]*Facts{a.f}, a.f.others...) {
		for c := range f.failingContainers() {
			m, points := f.measuredOf(c, func(m measured) []point { return m.throttled })
			if len(points) == 0 {
				continue
			}
			last := points[len(points)-1]
			if last.value < muchThrottled || last.value > 1.01 {
				continue
			}
			a.addFact(Observation{
				Text:  fmt.Sprintf("the CPU of %s is throttled in %.0f %% of its periods (limit %s)", c, 100*last.value, c.spec.Resources.Limits.Cpu()),
				Quote: last.text, Ref: m.Ref,
			}, nightcrier.Seen)
		}
	}
}
