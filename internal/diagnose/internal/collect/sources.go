package collect

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

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

const (
	// SourcesPatience is how much later a diagnosis may be for them.
	SourcesPatience = 2 * time.Second
	// maxMeasured is how many containers they are asked about.
	maxMeasured = 4
	// memoryBefore is how long before its end a container's memory is looked at, and
	// throttledFor how long its CPU.
	memoryBefore = time.Hour
	throttledFor = 30 * time.Minute
	// clockSkew is by how much clocks of nodes may differ from each other.
	clockSkew = 2 * time.Second
)

// readSources asks about the containers that are not well. A source that does not
// answer is a line of what was not checked.
func (c *Collector) readSources(ctx context.Context, f *scene.Facts) error {
	if c.in.Sources == nil || c.in.Reader == nil || f.Hearsay || !isTargetKnown(f) {
		return nil
	}
	about := []*scene.Facts{f}
	if f.IsWholeTarget() {
		about = c.Scene.AllWorkloads()
	}
	var looks []look
	n := 0
	for _, of := range about {
		for ct := range of.FailingContainers() {
			if n++; n <= maxMeasured {
				looks = append(looks, c.measureContainer(ct)...)
			}
		}
	}
	before := len(c.Scene.Logs)
	if err := c.askSources(ctx, looks); err != nil {
		return err
	}
	for _, l := range c.Scene.Logs[before:] {
		if slices.ContainsFunc(f.Pods, func(p scene.Read[corev1.Pod]) bool {
			return p.Object.Namespace == l.Namespace && p.Object.Name == l.Pod
		}) {
			f.Logs = append(f.Logs, l)
		}
	}
	return nil
}

// measureContainer is what is worth asking about a container.
func (c *Collector) measureContainer(ct scene.Container) (looks []look) {
	s, end := c.in.Sources, ct.LastTermination()
	killed := end != nil && (end.Reason == "OOMKilled" || end.ExitCode == 137)
	if s.Metrics != nil && killed {
		looks = append(looks, c.memoryOf(ct, end))
	}
	if s.Metrics != nil && !killed && !ct.Spec.Resources.Limits.Cpu().IsZero() {
		looks = append(looks, c.throttlingOf(ct))
	}
	if s.Lines != nil && end != nil && !end.FinishedAt.IsZero() && !end.StartedAt.IsZero() && !c.hasLogOf(ct) {
		looks = append(looks, c.linesOf(ct, end))
	}
	return looks
}

// seriesSelector chooses the series, or the streams, of a container.
func seriesSelector(c scene.Container, namespaceLabel string) string {
	p := &c.Pod.Object
	return fmt.Sprintf("{%s=%s, pod=%s, container=%s}", cmp.Or(namespaceLabel, "namespace"), strconv.Quote(p.Namespace), strconv.Quote(p.Name), strconv.Quote(c.Status.Name))
}

// memoryOf reads how the memory of a container went before it ended.
func (c *Collector) memoryOf(ct scene.Container, end *corev1.ContainerStateTerminated) look {
	to := end.FinishedAt.Time
	if to.IsZero() {
		to = c.Scene.Now
	}
	from := to.Add(-memoryBefore)
	if started := end.StartedAt.Time; started.After(from) && started.Before(to) {
		from = started
	}
	query := "max(container_memory_working_set_bytes" + seriesSelector(ct, c.in.Sources.MetricsLabel) + ")"
	return c.lookAtSeries(ct, query, from, to, func(m *scene.Measured, points []scene.Point) { m.Memory = points })
}

// throttlingOf reads in which share of its periods the CPU of a container was held up.
func (c *Collector) throttlingOf(ct scene.Container) look {
	of := seriesSelector(ct, c.in.Sources.MetricsLabel)
	query := fmt.Sprintf("sum(increase(container_cpu_cfs_throttled_periods_total%s[5m])) / sum(increase(container_cpu_cfs_periods_total%s[5m]))", of, of)
	return c.lookAtSeries(ct, query, c.Scene.Now.Add(-throttledFor), c.Scene.Now, func(m *scene.Measured, points []scene.Point) { m.Throttled = points })
}

// lookAtSeries returns the look that asks for one series over a time.
func (c *Collector) lookAtSeries(ct scene.Container, query string, from, to time.Time, put func(*scene.Measured, []scene.Point)) look {
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
			m := scene.Measured{Namespace: ct.Pod.Object.Namespace, Pod: ct.Pod.Object.Name, Container: ct.Status.Name, From: from, To: to, Ref: ref}
			put(&m, points)
			c.Scene.Measured = append(c.Scene.Measured, m)
			return err
		},
	}
}

// pointsOf are the points of an answer that is one series, none of any other.
func pointsOf(body []byte) (points []scene.Point) {
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
			points = append(points, scene.Point{At: time.UnixMilli(int64(at * 1000)), Value: value, Text: text})
		}
	}
	return points
}

// hasLogOf reports whether the log of the instance that ended was read.
func (c *Collector) hasLogOf(ct scene.Container) bool {
	return slices.ContainsFunc(c.Scene.Logs, func(l scene.LogExcerpt) bool {
		previous := l.Previous || ct.Status.State.Terminated != nil
		return previous && l.Namespace == ct.Pod.Object.Namespace && l.Pod == ct.Pod.Object.Name && l.Container == ct.Status.Name && scene.LastLine(l.Text) != ""
	})
}

// linesOf reads what the instance that ended has logged, where its node has it no more.
func (c *Collector) linesOf(ct scene.Container, end *corev1.ContainerStateTerminated) look {
	p, query := &ct.Pod.Object, seriesSelector(ct, c.in.Sources.LinesLabel)
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
			c.Scene.Logs = append(c.Scene.Logs, scene.LogExcerpt{
				Namespace: p.Namespace, Pod: p.Name, Container: ct.Status.Name, Previous: true,
				Evidence: ref.Evidence, Text: c.in.Mask(text), Source: source,
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
func (c *Collector) askSources(ctx context.Context, looks []look) error {
	within, cancel := context.WithTimeout(ctx, SourcesPatience)
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
			c.NoteMissed(looks[i].source, err.Error())
			return nil
		}
		if err := c.takeAnswer(ctx, looks[i], a); err != nil {
			return err
		}
	}
	return nil
}
