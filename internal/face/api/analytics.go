package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// shownRecent is how many executions stand beside the sums.
const shownRecent = 10

// Analytics are sums over all runs that are kept, as the older platform showed them. A skill is
// a pipeline here.
type Analytics struct {
	TotalExecutions int     `json:"total_executions"`
	Accepted        int     `json:"accepted" doc:"0: nobody reviews runs yet"`
	Corrected       int     `json:"corrected" doc:"0: nobody corrects runs yet"`
	PendingReview   int     `json:"pending_review" doc:"How many succeeded"`
	AcceptRate      float64 `json:"accept_rate" doc:"The share of those that have ended that succeeded"`
	TotalCostUSD    float64 `json:"total_cost_usd"`
	AvgCostUSD      float64 `json:"avg_cost_usd" doc:"Of those that have ended"`
	AvgLatencyMS    float64 `json:"avg_latency_ms" doc:"Of those that have ended, with the time in the queue"`
	// Nobody corrects runs yet.
	TotalCorrections int                `json:"total_corrections"`
	TotalReflexions  int                `json:"total_reflexions"`
	ExecutionsBy     map[string]int     `json:"executions_by_skill"`
	CostBy           map[string]float64 `json:"cost_by_skill"`
	LatencyBy        map[string]float64 `json:"latency_by_skill" doc:"The average, in milliseconds"`
	Recent           []ExecutionRow     `json:"recent_executions" doc:"The newest ten"`
}

func (a *API) analyticsRoutes(h huma.API) {
	huma.Register(h, newOperation("get-analytics", http.MethodGet, "/analytics", "Sums over all executions"), a.getAnalytics)
}

func (a *API) getAnalytics(ctx context.Context, _ *struct{}) (*body[Analytics], error) {
	all, err := a.opt.Runs.RunSums(ctx)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	sum := Analytics{ExecutionsBy: map[string]int{}, CostBy: map[string]float64{}, LatencyBy: map[string]float64{}}
	ended, took := 0, 0.0
	for _, s := range all {
		sum.TotalExecutions += s.Runs
		sum.PendingReview += s.Succeeded
		sum.TotalCostUSD += s.CostUSD
		ended, took = ended+s.Ended, took+milliseconds(s.Took)
		name := shownSkill(s.Pipeline)
		sum.ExecutionsBy[name], sum.CostBy[name] = s.Runs, s.CostUSD
		sum.LatencyBy[name] = milliseconds(s.Took) / max(1, float64(s.Ended))
	}
	sum.AcceptRate = float64(sum.PendingReview) / max(1, float64(ended))
	sum.AvgCostUSD, sum.AvgLatencyMS = sum.TotalCostUSD/max(1, float64(ended)), took/max(1, float64(ended))
	recent, err := a.listExecutions(ctx, &executionQuery{Limit: shownRecent})
	if err != nil {
		return nil, err
	}
	sum.Recent = recent.Body
	return &body[Analytics]{sum}, nil
}
