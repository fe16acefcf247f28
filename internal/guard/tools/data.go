package tools

import (
	"context"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/guard/data"
)

// Data is the Source of what a cluster's metrics and logs say. What its guard refuses,
// it puts on record.
func Data(g *data.Guard) Source { return dataTools{g} }

type dataTools struct{ guard *data.Guard }

// Close implements Source.
func (dataTools) Close() error { return nil }

const (
	aboutTime     = "RFC 3339 (2026-01-02T15:04:05Z), or how long ago: 30m, 2h, 1d"
	aboutValuesOf = "Name of a label: lists its values within the last hour instead of asking the query, which is then an optional selector that bounds the list; * lists the names of all labels"
)

// Tools implements Source.
func (d dataTools) Tools() []Tool {
	var all []Tool
	if d.guard.Has(data.Prometheus) {
		params := kubetool.Params{
			{Name: "query", Type: kubetool.String, About: `PromQL, such as max by (pod) (container_memory_working_set_bytes{namespace="shop"})`},
			{Name: "start", Type: kubetool.String, About: "Begin of a range: " + aboutTime + ". Without it the query is asked for one moment"},
			{Name: "end", Type: kubetool.String, About: "End of the range, or the moment; unset means now"},
			{Name: "step", Type: kubetool.String, About: "Time between two points of a range, such as 1m; unset chooses one"},
			{Name: "values_of", Type: kubetool.String, About: aboutValuesOf + "; __name__ lists the metrics"},
		}
		all = append(all, Tool{
			Name: "prometheus_query", Title: "Prometheus: Query", Schema: params.Schema(), Open: true,
			About: "Asks the cluster's Prometheus a query and shows a table: the value of each series, or its least, average, largest and last value over a range with its course. Read-only. Aggregate (sum by, topk) rather than ask for many series. Patterns (=~) may be on labels that identify, others are compared whole; label_replace, absent and the like are not asked.",
			Call: callWithArguments("prometheus_query", params, func(ctx context.Context, a kubetool.Args) (string, error) {
				return d.askSystem(ctx, data.Prometheus, a, d.guard.Metrics)
			}),
		})
	}
	if d.guard.Has(data.Loki) {
		params := kubetool.Params{
			{Name: "query", Type: kubetool.String, About: `LogQL, such as {namespace="shop", pod="cart-1"} |= "error"`},
			{Name: "start", Type: kubetool.String, About: "Begin: " + aboutTime + "; unset means an hour before the end"},
			{Name: "end", Type: kubetool.String, About: "End; unset means now"},
			{Name: "limit", Type: kubetool.Integer, Min: 1, Max: 500, Default: 100, About: "How many lines, the newest"},
			{Name: "values_of", Type: kubetool.String, About: aboutValuesOf},
		}
		all = append(all, Tool{
			Name: "loki_query", Title: "Loki: Query", Schema: params.Schema(), Open: true,
			About: "Asks the cluster's Loki a query and shows the lines in the order of time, also of Pods that are gone, or a table for a query of metrics. Read-only. Filters (|=, !=, |~, !~) look at lines after secrets were masked in them; stages that take lines apart (json, logfmt, regexp, line_format) are not asked.",
			Call: callWithArguments("loki_query", params, func(ctx context.Context, a kubetool.Args) (string, error) {
				return d.askSystem(ctx, data.Loki, a, d.guard.Lines)
			}),
		})
	}
	return all
}

// askSystem reads the arguments and asks.
func (d dataTools) askSystem(ctx context.Context, system string, a kubetool.Args, query func(context.Context, data.Query) (data.Answer, error)) (string, error) {
	now, err := d.guard.Moment(system, a)
	if err != nil {
		return "", err
	}
	var answer data.Answer
	if label := a.String("values_of"); label != "" {
		answer, err = d.guard.Values(ctx, system, label, a.String("query"), now)
		return answer.Text, err
	}
	q := data.Query{Text: a.String("query"), Limit: a.Int("limit"), Asked: now}
	if q.Start, err = data.ParseTime(a.String("start"), now); err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "argument start: %w", err)
	}
	if q.End, err = data.ParseTime(a.String("end"), now); err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "argument end: %w", err)
	}
	if step := a.String("step"); step != "" {
		if q.Step, err = data.ParseDuration(step); err != nil {
			return "", nightcrier.Errorf(nightcrier.Invalid, "argument step: %w", err)
		}
	}
	answer, err = query(ctx, q)
	return answer.Text, err
}
