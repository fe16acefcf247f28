package data

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"nightcrier.dev/nightcrier"
)

const (
	// maxQuery bounds a query, in bytes.
	maxQuery = 4 << 10
	// maxLookback bounds how far back a selector may reach from each point, and
	// maxSubPoints the points of a subquery: each point of an answer costs so much.
	maxLookback  = 31 * 24 * time.Hour
	maxSubPoints = 11000
)

var promQL = parser.NewParser(parser.Options{})

// metricsQuery is a query as it is sent, and what is known of it.
type metricsQuery struct {
	text string
	// computed is set when the answer may hold words or numbers that the query made, or
	// when that is not known.
	computed bool
}

// readMetricsQuery reads a query. With namespaces it is bound to them; one that we
// cannot read is then refused, and else left to the server to judge: there are
// dialects.
func (s *system) readMetricsQuery(text string, namespaces []string) (metricsQuery, error) {
	if err := checkQuery(text); err != nil {
		return metricsQuery{}, err
	}
	expr, err := promQL.ParseExpr(text)
	switch {
	case err != nil && len(namespaces) > 0:
		return metricsQuery{}, nightcrier.Errorf(nightcrier.Refused, "the query is not sent: this cluster is looked at in some namespaces alone, and a query that is no PromQL cannot be bound to them: %s", clip(oneLine(err.Error()), maxWords))
	case err != nil:
		return metricsQuery{text: text, computed: true}, nil
	}
	if err := checkCost(expr); err != nil {
		return metricsQuery{}, err
	}
	q := metricsQuery{text: text, computed: !plain(expr)}
	if len(namespaces) > 0 {
		q.text = bind(expr, s.namespaceMatcher(namespaces))
	}
	return q, nil
}

// readSelector is the same for a selector without functions, "" for none.
func (s *system) readSelector(text string, namespaces []string) (string, error) {
	if text == "" && len(namespaces) == 0 {
		return "", nil
	}
	if text == "" {
		return "{" + s.namespaceMatcher(namespaces).String() + "}", nil
	}
	q, err := s.readMetricsQuery(text, namespaces)
	if err != nil {
		return "", err
	}
	if _, err := promQL.ParseMetricSelector(text); err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, `with values_of, the query is a selector such as {namespace="shop"}: %s`, clip(oneLine(err.Error()), maxWords))
	}
	return q.text, nil
}

func checkQuery(text string) error {
	switch {
	case text == "":
		return nightcrier.Errorf(nightcrier.Invalid, "the query is empty")
	case len(text) > maxQuery:
		return nightcrier.Errorf(nightcrier.Invalid, "the query is longer than %d bytes: ask a shorter one", maxQuery)
	}
	return nil
}

// namespaceMatcher lets the series of these namespaces through alone.
func (s *system) namespaceMatcher(namespaces []string) *labels.Matcher {
	kind, value := labels.MatchEqual, namespaces[0]
	if len(namespaces) > 1 {
		kind, value = labels.MatchRegexp, anyOf(namespaces)
	}
	return labels.MustNewMatcher(kind, s.NamespaceLabel, value)
}

// bind adds the matcher to every selector, beside what it has.
func bind(expr parser.Expr, m *labels.Matcher) string {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			v.LabelMatchers = append(v.LabelMatchers, m)
		}
		return nil
	})
	return expr.String()
}

// checkCost refuses what reaches back too far.
func checkCost(expr parser.Expr) (err error) {
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		reach, points := time.Duration(0), time.Duration(0)
		switch n := n.(type) {
		case *parser.MatrixSelector:
			reach = n.Range
		case *parser.VectorSelector:
			reach = n.OriginalOffset
		case *parser.SubqueryExpr:
			reach, points = n.Range+n.OriginalOffset, pointsOf(n)
			for _, above := range path { // each point of theirs asks for all of this one's
				if above, ok := above.(*parser.SubqueryExpr); ok && points <= maxSubPoints {
					points *= pointsOf(above)
				}
			}
		}
		if reach > maxLookback || points > maxSubPoints {
			err = nightcrier.Errorf(nightcrier.Invalid, "the query reaches back too far: a range or offset may be %dd at most, subqueries have %d points, those within one another multiplied", maxLookback/(24*time.Hour), maxSubPoints)
		}
		return nil
	})
	return err
}

func pointsOf(n *parser.SubqueryExpr) time.Duration {
	return max(n.Range/max(n.Step, time.Second), 1)
}

// plainFunctions tell what was measured, and add neither words nor numbers of whoever
// asks. vector, label_replace, absent, clamp and the like do.
var plainFunctions = []string{
	"abs", "avg_over_time", "ceil", "changes", "count_over_time", "delta", "deriv", "exp", "floor", "histogram_avg", "histogram_count", "histogram_quantile",
	"histogram_sum", "idelta", "increase", "irate", "last_over_time", "ln", "log10", "log2", "max_over_time", "min_over_time", "present_over_time",
	"quantile_over_time", "rate", "resets", "sort", "sort_desc", "sqrt", "stddev_over_time", "stdvar_over_time", "sum_over_time", "timestamp",
}

// plain reports whether an answer can hold only what the series say. Comparing with a
// number chooses among them; reckoning with one makes others, and so does reckoning
// more often than once with series.
func plain(expr parser.Expr) bool {
	ok, reckoned := true, 0
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.Call:
			ok = ok && slices.Contains(plainFunctions, n.Func.Name)
		case *parser.AggregateExpr:
			ok = ok && n.Op != parser.COUNT_VALUES
		case *parser.BinaryExpr:
			number := n.LHS.Type() == parser.ValueTypeScalar || n.RHS.Type() == parser.ValueTypeScalar
			reckons := n.ReturnBool || !n.Op.IsComparisonOperator() && !n.Op.IsSetOperator()
			if reckons {
				reckoned++
			}
			ok = ok && !(number && reckons) && reckoned <= 1
		}
		return nil
	})
	return ok && expr.Type() != parser.ValueTypeScalar && expr.Type() != parser.ValueTypeString
}
