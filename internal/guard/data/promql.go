package data

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
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
	// computed is set when the answer may hold numbers that the query made.
	computed bool
}

// readMetricsQuery reads a query, and binds it to namespaces where there are any. What we
// cannot read is not sent: nobody knows what it does to text.
func (s *system) readMetricsQuery(said string, namespaces []string) (metricsQuery, error) {
	if err := checkQuery(said); err != nil {
		return metricsQuery{}, err
	}
	expr, err := promQL.ParseExpr(said)
	if err != nil {
		return metricsQuery{}, nightcrier.Errorf(nightcrier.Invalid, "the query is not sent, because it cannot be read as PromQL, without extensions: %s", text.CutLine(err.Error(), maxWords))
	}
	if err := checkCost(expr); err != nil {
		return metricsQuery{}, err
	}
	if err := s.checkText(expr); err != nil {
		return metricsQuery{}, err
	}
	q := metricsQuery{text: said, computed: !isPlainExpr(expr)}
	if len(namespaces) > 0 {
		q.text = bindMatcher(expr, s.namespaceMatcher(namespaces))
	}
	return q, nil
}

// readSelector does the same for a selector without functions, "" for none.
func (s *system) readSelector(said string, namespaces []string) (string, error) {
	if said == "" && len(namespaces) == 0 {
		return "", nil
	}
	if said == "" {
		return "{" + s.namespaceMatcher(namespaces).String() + "}", nil
	}
	q, err := s.readMetricsQuery(said, namespaces)
	if err != nil {
		return "", err
	}
	if _, err := promQL.ParseMetricSelector(said); err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, `with values_of, the query is a selector such as {namespace="shop"}: %s`, text.CutLine(err.Error(), maxWords))
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

// bindMatcher adds the matcher to every selector, beside what it has.
func bindMatcher(expr parser.Expr, m *labels.Matcher) string {
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

// checkText refuses what tests, cuts or makes text: functions that are not known to do
// nothing of it, and matchers that go too far.
func (s *system) checkText(expr parser.Expr) (err error) {
	if expr.Type() == parser.ValueTypeString {
		return nightcrier.Errorf(nightcrier.Invalid, "the query is a bare text, which says nothing of the cluster")
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if err != nil {
			return nil
		}
		switch n := n.(type) {
		case *parser.Call:
			if f := n.Func.Name; !slices.Contains(plainFunctions, f) && !slices.Contains(numericFunctions, f) {
				err = notAsked(f)
			}
		case *parser.AggregateExpr:
			if n.Op == parser.COUNT_VALUES {
				err = notAsked("count_values")
			}
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				if err == nil && m != nil {
					err = s.checkMatcher(m)
				}
			}
		}
		return nil
	})
	return err
}

// notAsked refuses a function that works on text.
func notAsked(function string) error {
	instead := "ask for the series as they are; answers show their labels"
	if strings.HasPrefix(function, "absent") {
		instead = "ask for the series themselves: an answer without any says that they are absent"
	}
	return nightcrier.Errorf(nightcrier.Refused, "%s is not asked: it makes, cuts or compares text before it is masked. Instead %s", function, instead)
}

// plainFunctions tell what was measured, and add neither words nor numbers of whoever
// asks.
var plainFunctions = []string{
	"abs", "avg_over_time", "ceil", "changes", "count_over_time", "delta", "deriv", "exp", "floor", "histogram_avg", "histogram_count", "histogram_quantile",
	"histogram_sum", "idelta", "increase", "irate", "last_over_time", "ln", "log10", "log2", "max_over_time", "min_over_time", "present_over_time",
	"quantile_over_time", "rate", "resets", "sort", "sort_desc", "sqrt", "stddev_over_time", "stdvar_over_time", "sum_over_time", "timestamp",
}

// numericFunctions make numbers, of those that were measured or of whoever asks, and
// touch no text.
var numericFunctions = []string{
	"acos", "acosh", "asin", "asinh", "atan", "atanh", "clamp", "clamp_max", "clamp_min", "cos", "cosh", "day_of_month", "day_of_week", "day_of_year", "days_in_month", "deg",
	"double_exponential_smoothing", "first_over_time", "histogram_fraction", "histogram_stddev", "histogram_stdvar", "hour", "mad_over_time", "minute", "month", "pi",
	"predict_linear", "rad", "round", "scalar", "sgn", "sin", "sinh", "tan", "tanh", "time", "ts_of_first_over_time", "ts_of_last_over_time", "ts_of_max_over_time",
	"ts_of_min_over_time", "vector", "year",
}

// isPlainExpr reports whether an answer can hold only what the series say. Comparing with a
// number chooses among them; reckoning with one makes others, and so does reckoning
// more often than once with series.
func isPlainExpr(expr parser.Expr) bool {
	ok, reckoned := true, 0
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.Call:
			ok = ok && slices.Contains(plainFunctions, n.Func.Name)
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
