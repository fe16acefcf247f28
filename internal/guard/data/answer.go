package data

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/text"
)

// Answer is what came of a question.
type Answer struct {
	// Text is for a model to read. It ends with the id of its evidence.
	Text string
	// Evidence is the id under which the answer is kept, "" for none.
	Evidence string
}

// Bounds of the text, beside those of the answer.
const (
	maxText   = 24 << 10
	maxRows   = 50
	maxLine   = 1000 // bytes of one line of a log
	maxLabels = 300  // bytes of the labels of one series
	maxValues = 500  // of a label
)

// result is an answer of either API; both have one form.
type result struct {
	Status   string   `json:"status"`
	Warnings []string `json:"warnings"`
	Data     struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	} `json:"data"`
}

// sample is a point in time and what was measured, [1700000000.5,"42"].
type sample struct {
	at    time.Time
	value float64
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *sample) UnmarshalJSON(b []byte) error {
	var at float64
	var text string
	if err := json.Unmarshal(b, &[]any{&at, &text}); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(text, 64)
	s.at, s.value = time.UnixMilli(int64(at*1000)).UTC(), v
	return err
}

// series is one of a vector or a matrix.
type series struct {
	Labels map[string]string `json:"metric"`
	Value  *sample           `json:"value"`
	Values []sample          `json:"values"`
}

// stream is one of the streams of a log; its values are [nanoseconds, line, …].
type stream struct {
	Labels map[string]string   `json:"stream"`
	Values [][]json.RawMessage `json:"values"`
}

func decodeResult(name string, body []byte) (result, error) {
	var r result
	if err := json.Unmarshal(body, &r); err != nil || r.Status != "success" {
		return r, nightcrier.Errorf(nightcrier.Unreachable, "what %s answers is not what its API promises", name)
	}
	return r, nil
}

// renderText makes text of a result.
func (r result) renderText(name string, q Query) (string, error) {
	var err error
	var said string
	switch r.Data.Type {
	case "vector", "matrix":
		var all []series
		if err = json.Unmarshal(r.Data.Result, &all); err == nil {
			said = cutAtLine(tellSeries(all, q))
		}
	case "streams":
		var all []stream
		if err = json.Unmarshal(r.Data.Result, &all); err == nil {
			said, err = tellStreams(all, q)
		}
	case "scalar", "string":
		return "", nightcrier.Errorf(nightcrier.Invalid, "the query is a bare number or text, which says nothing of the cluster")
	default:
		err = fmt.Errorf("a result of type %q", text.CutBytes(r.Data.Type, 40))
	}
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Unreachable, "what %s answers is not what its API promises: %s", name, text.CutLine(err.Error(), maxWords))
	}
	return said, nil
}

// tellSeries shows a table, the largest first.
func tellSeries(all []series, q Query) string {
	all = slices.DeleteFunc(all, func(s series) bool { return s.Value == nil && len(s.Values) == 0 })
	if len(all) == 0 {
		return "No series match: nothing of that name and those labels was measured then. values_of=\"__name__\" lists the metrics.\n"
	}
	slices.SortStableFunc(all, func(a, b series) int { return cmp.Compare(b.largestValue(), a.largestValue()) })
	var out strings.Builder
	if q.Start.IsZero() {
		fmt.Fprintf(&out, "%s at %s", countSeries(len(all)), formatTime(q.End))
	} else {
		fmt.Fprintf(&out, "%s from %s to %s, a point each %s", countSeries(len(all)), formatTime(q.Start), formatTime(q.End), q.Step)
	}
	shared := commonLabels(all)
	if len(shared) > 0 && len(all) > 1 {
		fmt.Fprintf(&out, "; all have %s", labelText(shared, nil))
	} else {
		shared = nil
	}
	out.WriteString("\n")
	if q.Start.IsZero() {
		fmt.Fprintf(&out, "%-14s series\n", "value")
	} else {
		fmt.Fprintf(&out, "%-14s %-14s %-14s %-14s %-24s series\n", "min", "avg", "max", "last", "course")
	}
	for _, s := range all[:min(len(all), maxRows)] {
		out.WriteString(s.tableRow(shared))
	}
	if more := len(all) - maxRows; more > 0 {
		fmt.Fprintf(&out, "(%d more are not shown: aggregate with sum by (...), or choose with topk)\n", more)
	}
	return out.String()
}

func countSeries(n int) string {
	if n == 1 {
		return "1 series"
	}
	return fmt.Sprintf("%d series", n)
}

// largestValue is what a series is sorted by.
func (s series) largestValue() float64 {
	most := math.Inf(-1)
	for _, v := range s.allSamples() {
		if !math.IsNaN(v.value) {
			most = max(most, v.value)
		}
	}
	return most
}

func (s series) allSamples() []sample {
	if s.Value != nil {
		return []sample{*s.Value}
	}
	return s.Values
}

func (s series) tableRow(shared map[string]string) string {
	name := labelText(s.Labels, shared)
	if s.Value != nil {
		return fmt.Sprintf("%-14s %s\n", formatNumber(s.Value.value), name)
	}
	least, most, sum, n := math.Inf(1), math.Inf(-1), 0.0, 0
	for _, v := range s.Values {
		if !math.IsNaN(v.value) {
			least, most, sum, n = min(least, v.value), max(most, v.value), sum+v.value, n+1
		}
	}
	last := s.Values[len(s.Values)-1]
	if n == 0 {
		least, most, sum, n = math.NaN(), math.NaN(), math.NaN(), 1
	}
	return fmt.Sprintf("%-14s %-14s %-14s %-14s %-24s %s\n", formatNumber(least), formatNumber(sum/float64(n)), formatNumber(most), formatNumber(last.value), drawCourse(s.Values, least, most), name)
}

// bars are the heights of a course, from nothing to the largest.
const bars = "▁▂▃▄▅▆▇█"

// courseWidth is how many bars a course has.
const courseWidth = 24

// drawCourse draws how a series went.
func drawCourse(points []sample, least, most float64) string {
	heights := []rune(bars)
	width := min(courseWidth, len(points))
	out := make([]rune, width)
	for i := range out {
		at := points[i*len(points)/width].value
		switch {
		case math.IsNaN(at) || math.IsInf(at, 0):
			out[i] = ' '
		case most <= least || math.IsInf(most-least, 0):
			out[i] = heights[0]
		default:
			out[i] = heights[min(int((at-least)/(most-least)*float64(len(heights))), len(heights)-1)]
		}
	}
	return string(out)
}

// formatNumber writes whole numbers whole: bytes are compared with bytes.
func formatNumber(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// commonLabels are the labels that all series have with the same value.
func commonLabels(all []series) map[string]string {
	shared := map[string]string{}
	for name, value := range all[0].Labels {
		if !slices.ContainsFunc(all, func(s series) bool { return s.Labels[name] != value }) {
			shared[name] = value
		}
	}
	return shared
}

// labelText writes labels as queries do, less those that were named before. Quoted,
// no value can end what it stands in.
func labelText(labels, less map[string]string) string {
	var parts []string
	name := ""
	for k, v := range labels {
		if _, told := less[k]; told {
			continue
		}
		if k == "__name__" {
			name = text.CutLine(text.MarkHidden(v), maxLabels)
			continue
		}
		parts = append(parts, text.CutLine(text.MarkHidden(k), 100)+"="+strconv.Quote(text.CutLine(text.MarkHidden(v), maxLabels)))
	}
	slices.Sort(parts)
	return text.CutBytes(name+"{"+strings.Join(parts, ", ")+"}", 4*maxLabels)
}

// tellStreams shows the lines of all streams in the order of time, fenced.
func tellStreams(all []stream, q Query) (string, error) {
	type line struct {
		at     int64
		stream int
		text   string
	}
	var lines []line
	for i, s := range all {
		for _, v := range s.Values {
			var at, said string
			if len(v) < 2 || json.Unmarshal(v[0], &at) != nil || json.Unmarshal(v[1], &said) != nil {
				return "", fmt.Errorf("a line of another form")
			}
			n, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				return "", err
			}
			lines = append(lines, line{n, i, said})
		}
	}
	if len(lines) == 0 {
		return fmt.Sprintf("No lines from %s to %s.\n", formatTime(q.Start), formatTime(q.End)), nil
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var out strings.Builder
	fmt.Fprintf(&out, "%s from %s to %s", text.CountNoun(len(lines), "line"), formatTime(q.Start), formatTime(q.End))
	if len(lines) >= q.Limit {
		fmt.Fprintf(&out, ", the newest %d; there may be more before %s", q.Limit, time.Unix(0, lines[0].at).UTC().Format(time.RFC3339Nano))
	}
	out.WriteString("\n")
	for i, s := range all[:min(len(all), maxRows)] {
		fmt.Fprintf(&out, "[%d] %s\n", i+1, labelText(s.Labels, nil))
	}
	var shown []string
	room := maxText - out.Len()
	for _, l := range slices.Backward(lines) {
		said := fmt.Sprintf("%s [%d] %s\n", time.Unix(0, l.at).UTC().Format("2006-01-02T15:04:05.000Z"), l.stream+1, text.CutLine(text.MarkHidden(l.text), maxLine))
		if room -= len(said); room < 0 {
			fmt.Fprintf(&out, "(cut: the newest %d are shown; ask for less time, or end before the oldest)\n", len(shown))
			break
		}
		shown = append(shown, said)
	}
	slices.Reverse(shown)
	return out.String() + kubetool.Fence(strings.Join(shown, "")), nil
}

// cutAtLine cuts a table or a list at a line.
func cutAtLine(whole string) string {
	kept := text.KeepLines(whole, maxText)
	if len(kept) == len(whole) {
		return whole
	}
	return kept + fmt.Sprintf("(cut: %d of %d bytes are shown; ask for less)\n", len(kept), len(whole))
}
