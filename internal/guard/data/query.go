package data

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// serverTime is what a server is told to spend on a query at most.
const serverTime = "10s"

// Metrics asks Prometheus a query, and keeps the answer.
func (g *Guard) Metrics(ctx context.Context, q Query) (Answer, error) {
	asked, computed, q, notes, err := g.newMetricsQuestion(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	return g.askAndRecord(ctx, asked, q, notes, kindOf(KindMetrics, computed))
}

// newMetricsQuestion makes the question.
func (g *Guard) newMetricsQuestion(ctx context.Context, q Query) (asked question, computed bool, _ Query, notes []string, err error) {
	s, err := g.systemByName(Prometheus)
	if err != nil {
		return asked, false, q, nil, err
	}
	read, err := s.readMetricsQuery(q.Text, g.cfg.Namespaces)
	if err == nil {
		q, notes, err = q.cutToBounds(g.askedTime(q.Asked))
	}
	if err != nil {
		return asked, false, q, nil, g.recordIfRefused(ctx, s, q.Text, err)
	}
	asked = question{system: s, path: "query", options: url.Values{"query": {read.text}, "timeout": {serverTime}, "limit": {strconv.Itoa(maxSeries)}}}
	if q.Start.IsZero() {
		asked.options.Set("time", unixSeconds(q.End))
	} else {
		asked.path = "query_range"
		asked.options.Set("start", unixSeconds(q.Start))
		asked.options.Set("end", unixSeconds(q.End))
		asked.options.Set("step", strconv.FormatFloat(q.Step.Seconds(), 'f', -1, 64))
	}
	return asked, read.computed, q, notes, nil
}

// Lines asks Loki a query, and keeps the answer.
func (g *Guard) Lines(ctx context.Context, q Query) (Answer, error) {
	asked, read, q, notes, err := g.newLinesQuestion(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	if len(read.filters) > 0 {
		return g.siftedLines(ctx, asked, q, notes, read.filters)
	}
	return g.askAndRecord(ctx, asked, q, notes, kindOf(KindLines, read.computed))
}

// siftedLines are those that pass filters of ours. What is kept of them has the query as
// it was asked.
func (g *Guard) siftedLines(ctx context.Context, asked question, q Query, notes []string, filters []lineFilter) (Answer, error) {
	whole := asked
	whole.options = maps.Clone(asked.options)
	whole.options.Set("query", q.Text)
	s, finish, err := g.siftLines(ctx, asked, q, filters)
	if err != nil {
		return Answer{}, err
	}
	body, err := s.encodeBody()
	if err != nil {
		return Answer{}, errors.Join(err, finish(journal.Request{Status: http.StatusOK}))
	}
	return g.recordAnswer(whole, q, append(notes, s.describeReach()), KindLines, body, finish)
}

// usualLines is how many lines are asked for where nobody says.
const usualLines = 100

func (g *Guard) newLinesQuestion(ctx context.Context, q Query) (asked question, read logsQuery, _ Query, notes []string, err error) {
	s, err := g.systemByName(Loki)
	if err != nil {
		return asked, read, q, nil, err
	}
	if q.Start.IsZero() {
		end := q.End
		if end.IsZero() {
			end = g.askedTime(q.Asked)
		}
		q.Start = end.Add(-usualTime)
	}
	read, err = s.readLogsQuery(q.Text, g.cfg.Namespaces)
	if err == nil {
		q, notes, err = q.cutToBounds(g.askedTime(q.Asked))
	}
	if err != nil {
		return asked, read, q, nil, g.recordIfRefused(ctx, s, q.Text, err)
	}
	switch {
	case q.Limit <= 0:
		q.Limit = usualLines
	case q.Limit > maxLines:
		q.Limit = maxLines
		notes = append(notes, "the limit was cut to "+strconv.Itoa(maxLines)+" lines")
	}
	asked = question{system: s, path: "query_range", options: url.Values{
		"query": {read.text}, "start": {unixNanos(q.Start)}, "end": {unixNanos(q.End)}, "limit": {strconv.Itoa(q.Limit)},
		"direction": {"backward"}, "step": {strconv.FormatFloat(q.Step.Seconds(), 'f', -1, 64)},
	}}
	return asked, read, q, notes, nil
}

func unixNanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func kindOf(kind string, computed bool) string {
	if computed {
		return KindComputed
	}
	return kind
}

// recordIfRefused puts a refusal on record; that something is written wrongly is none.
func (g *Guard) recordIfRefused(ctx context.Context, s *system, what string, err error) error {
	if nightcrier.CodeOf(err) == nightcrier.Refused {
		return g.recordDenial(ctx, s.name, what, err)
	}
	return err
}

// AllLabels stands for the names of all labels, where the values of one are asked for.
const AllLabels = "*"

// Values asks for the values of a label, or for the names of all labels, of what a
// selector matches, within the hour before at, zero for now; an empty selector matches
// everything.
func (g *Guard) Values(ctx context.Context, name, label, selector string, at time.Time) (Answer, error) {
	s, err := g.systemByName(name)
	if err != nil {
		return Answer{}, err
	}
	asked := question{system: s, path: "labels", options: url.Values{"limit": {strconv.Itoa(maxSeries)}}}
	if label != AllLabels {
		if !labelName.MatchString(label) {
			return Answer{}, nightcrier.Errorf(nightcrier.Invalid, "%s is not the name of a label", strconv.Quote(text.CutBytes(label, 40)))
		}
		asked.path, asked.label = "label/"+label+"/values", label
	}
	if err = checkListed(label); err == nil {
		selector, err = g.readListSelector(s, selector)
	}
	if err != nil {
		return Answer{}, g.recordIfRefused(ctx, s, selector, err)
	}
	if selector != "" {
		asked.options.Set(map[string]string{Prometheus: "match[]", Loki: "query"}[name], selector)
	}
	now := g.askedTime(at)
	asked.options.Set("start", unixSeconds(now.Add(-usualTime)))
	asked.options.Set("end", unixSeconds(now))
	if name == Loki {
		asked.options.Set("start", unixNanos(now.Add(-usualTime)))
		asked.options.Set("end", unixNanos(now))
	}
	return g.askList(ctx, asked, label)
}

// readListSelector reads what bounds a list. Not every Loki heeds it, so that one for some
// namespaces alone is not asked.
func (g *Guard) readListSelector(s *system, text string) (string, error) {
	if s.name == Prometheus {
		return s.readSelector(text, g.cfg.Namespaces)
	}
	if len(g.cfg.Namespaces) > 0 {
		return text, nightcrier.Errorf(nightcrier.Refused, "labels are not listed: this cluster is looked at in some namespaces alone; ask sum by (LABEL) (count_over_time({namespace=\"NAME\"}[1h]))")
	}
	if text == "" {
		return "", nil
	}
	return text, s.readStreams(text)
}

// askList asks for a list of words, and keeps it.
func (g *Guard) askList(ctx context.Context, asked question, label string) (Answer, error) {
	body, finish, err := g.askQuestion(ctx, asked)
	if err != nil {
		return Answer{}, err
	}
	words, err := wordsOf(body, label)
	if err != nil {
		return Answer{}, errors.Join(nightcrier.Errorf(nightcrier.Unreachable, "what %s answers is not what its API promises", asked.system.name), finish(journal.Request{Status: http.StatusOK}))
	}
	var out strings.Builder
	out.WriteString(text.CountNoun(len(words), "value") + " of " + label + " within the last hour\n")
	for i, v := range words {
		if i == maxValues {
			out.WriteString("(" + strconv.Itoa(len(words)-i) + " more are not shown: bound them with a selector in query)\n")
			break
		}
		out.WriteString(text.CutLine(text.MarkHidden(v), maxLabels) + "\n")
	}
	said := cutAtLine(out.String())
	id, err := g.recordEvidence(KindMetrics, asked.describeSource(), append([]byte(said+"\n"), body...), finish)
	return Answer{Text: citeEvidence(said, id, KindMetrics), Evidence: id}, err
}

// besideName puts each value of a label beside the label's name, for the name to tell
// what is a secret. What has another form stays as it is.
func besideName(body []byte, label string) []byte {
	var answer struct {
		Status string   `json:"status"`
		Data   []string `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return body
	}
	values := make([]map[string]string, len(answer.Data))
	for i, v := range answer.Data {
		values[i] = map[string]string{label: v}
	}
	text, err := json.Marshal(map[string]any{"status": answer.Status, "data": values})
	if err != nil { // what was read from JSON can be written
		return nil
	}
	return text
}

// wordsOf are the words of a list, sorted: values that stand beside a label's name, or
// names.
func wordsOf(body []byte, label string) ([]string, error) {
	var words []string
	if label == AllLabels {
		var answer struct {
			Data []string `json:"data"`
		}
		err := json.Unmarshal(body, &answer)
		words = answer.Data
		slices.Sort(words)
		return words, err
	}
	var answer struct {
		Data []map[string]string `json:"data"`
	}
	err := json.Unmarshal(body, &answer)
	for _, v := range answer.Data {
		words = append(words, slices.Collect(maps.Values(v))...)
	}
	slices.Sort(words)
	return words, err
}

// askAndRecord asks, and keeps what is answered, with what is told of it.
func (g *Guard) askAndRecord(ctx context.Context, asked question, q Query, notes []string, kind string) (Answer, error) {
	body, finish, err := g.askQuestion(ctx, asked)
	if err != nil {
		return Answer{}, err
	}
	return g.recordAnswer(asked, q, notes, kind, body, finish)
}

// recordAnswer keeps an answer, with what is told of it.
func (g *Guard) recordAnswer(asked question, q Query, notes []string, kind string, body []byte, finish func(journal.Request) error) (Answer, error) {
	r, err := decodeResult(asked.system.name, body)
	var said string
	if err == nil {
		said, err = r.renderText(asked.system.name, q)
	}
	if err != nil {
		return Answer{}, errors.Join(err, finish(journal.Request{Status: http.StatusOK, Bytes: int64(len(body))}))
	}
	for _, w := range r.Warnings[:min(len(r.Warnings), maxWarnings)] {
		notes = append(notes, shownWarning(w, q.Text))
	}
	for _, n := range notes {
		said += "(" + text.CutLine(n, maxWords) + ")\n"
	}
	id, err := g.recordEvidence(kind, asked.describeSource(), append([]byte(said+"\n"), body...), finish)
	return Answer{Text: citeEvidence(said, id, kind), Evidence: id}, err
}

const maxWarnings = 3

// shownWarning is what a server warns of. One that repeats the query is not told: with a tag
// in the place of its words it would confirm a guess.
func shownWarning(text, asked string) string {
	if mask.Tagged(text) || mask.WithoutEchoes(text, asked) != text {
		return "a warning that repeats the query is not shown"
	}
	return text
}

// citeEvidence ends a text with the id of its evidence.
func citeEvidence(text, id, kind string) string {
	switch {
	case id == "":
		return text
	case kind == KindComputed:
		return text + "[evidence " + id + ", computed: a report that cites it proves nothing, because the query itself can make words and numbers]\n"
	}
	return text + "[evidence " + id + "]\n"
}

// describeSource says how something was read.
func (q question) describeSource() string {
	options, err := url.QueryUnescape(q.options.Encode())
	if err != nil {
		options = q.options.Encode()
	}
	return q.system.name + " " + q.path + " " + options
}

// Range asks Prometheus a query over a time, and returns its answer as it stands, but
// for its secrets. It is not kept: that is the caller's.
func (g *Guard) Range(ctx context.Context, q Query) ([]byte, error) {
	asked, _, _, _, err := g.newMetricsQuestion(ctx, q)
	if err != nil {
		return nil, err
	}
	return g.askRaw(ctx, asked)
}

// Log does the same with Loki, for a query without filters of lines.
func (g *Guard) Log(ctx context.Context, q Query) ([]byte, error) {
	asked, read, _, _, err := g.newLinesQuestion(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(read.filters) > 0 {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "lines are not filtered where they are read as they stand")
	}
	return g.askRaw(ctx, asked)
}

func (g *Guard) askRaw(ctx context.Context, asked question) ([]byte, error) {
	body, finish, err := g.askQuestion(ctx, asked)
	if err != nil {
		return nil, err
	}
	if _, err := decodeResult(asked.system.name, body); err != nil {
		return nil, errors.Join(err, finish(journal.Request{Status: http.StatusOK, Bytes: int64(len(body))}))
	}
	return body, finish(journal.Request{Status: http.StatusOK, Bytes: int64(len(body))})
}
