package eval

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier"
)

// Investigate makes a report about the target of a case from its snapshot.
type Investigate func(ctx context.Context, c Case) (*nightcrier.Report, error)

// Result is what all cases came to.
type Result struct {
	Cases  []Score `json:"cases"`
	Totals Totals  `json:"totals"`
}

// atOnce is how many cases are investigated at a time.
const atOnce = 2

// Run investigates all cases. A case that cannot be investigated is scored as
// wrong, with the error; Run itself fails only when ctx ends.
func Run(ctx context.Context, cases []Case, look Investigate) (Result, error) {
	res := Result{Cases: make([]Score, len(cases))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, c := range cases {
		group.Go(func() error {
			rep, err := look(ctx, c)
			switch {
			case ctx.Err() != nil:
				return nightcrier.Errorf(nightcrier.Interrupted, "evaluation stopped: %w", context.Cause(ctx))
			case err != nil:
				res.Cases[i] = Score{Case: c.Name, Expected: c.Expect, Error: err.Error()}
			default:
				res.Cases[i] = scoreReport(c, rep)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	slices.SortStableFunc(res.Cases, func(a, b Score) int {
		return cmp.Or(cmp.Compare(badness(b), badness(a)), cmp.Compare(a.Case, b.Case))
	})
	res.Totals = Sum(res.Cases)
	return res, nil
}

// badness puts what is to be looked at first.
func badness(s Score) int {
	switch {
	case s.FalseAlarm:
		return 3
	case s.Error != "":
		return 2
	case !s.Exact:
		return 1
	}
	return 0
}
