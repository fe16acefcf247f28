package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"

	"github.com/danielgtaylor/huma/v2"
)

// Approvals is what is asked about approvals; the store satisfies it.
type Approvals interface {
	Approval(ctx context.Context, id string) (nightcrier.Approval, error)
	Approvals(ctx context.Context, f store.ApprovalFilter) ([]nightcrier.Approval, string, error)
}

// approverToken is how people say who they are.
const approverToken = "approverToken"

// ApprovalList is a page of approvals, newest first.
type ApprovalList struct {
	Approvals []nightcrier.Approval `json:"approvals"`
	// NextCursor asks for the next page; absent on the last one.
	NextCursor string `json:"nextCursor,omitempty"`
}

type approvalID struct {
	ID string `path:"id" maxLength:"64" doc:"The approval's UUID"`
}

type approvalQuery struct {
	Status string `query:"status" enum:"pending,approved,refused,expired,withdrawn"`
	Run    string `query:"run" maxLength:"64" doc:"The run that asks"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor string `query:"cursor" maxLength:"256" doc:"nextCursor of the page before"`
}

// ApproveBody is an approval as it is posted.
type ApproveBody struct {
	Digest    string          `json:"digest" minLength:"64" maxLength:"64" doc:"The digest of what was looked at; one of something else is refused"`
	Reason    string          `json:"reason,omitempty" maxLength:"2000"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"Of a call: the JSON object that it is made with, in the place of what was asked for"`
}

// RefuseBody is a refusal as it is posted.
type RefuseBody struct {
	Digest string `json:"digest" minLength:"64" maxLength:"64" doc:"The digest of what was looked at; one of something else is refused"`
	Reason string `json:"reason" minLength:"1" maxLength:"2000" doc:"Who asked goes on with it"`
}

type approveRequest struct {
	ID   string `path:"id" maxLength:"64" doc:"The approval's UUID"`
	Body ApproveBody
}

type refuseRequest struct {
	ID   string `path:"id" maxLength:"64" doc:"The approval's UUID"`
	Body RefuseBody
}

func (a *API) approvalRoutes(h huma.API) {
	huma.Register(h, newOperation("list-approvals", http.MethodGet, "/approvals", "What runs ask people, newest first"), a.listApprovals)
	huma.Register(h, newOperation("get-approval", http.MethodGet, "/approvals/{id}", "One approval"), a.getApproval)
	huma.Register(h, decisionOperation("approve", "/approvals/{id}/approve", "Agree to what is asked"), a.approve)
	huma.Register(h, decisionOperation("refuse", "/approvals/{id}/refuse", "Refuse what is asked"), a.refuse)
}

// decisionOperation is one that only somebody known may do.
func decisionOperation(id, path, summary string) huma.Operation {
	op := newOperation(id, http.MethodPost, path, summary)
	op.Security = []map[string][]string{{approverToken: {}}}
	op.MaxBodyBytes = maxCall
	return op
}

func (a *API) listApprovals(ctx context.Context, q *approvalQuery) (*body[ApprovalList], error) {
	list, next, err := a.opt.Approvals.Approvals(ctx, store.ApprovalFilter{RunID: q.Run, Status: nightcrier.ApprovalStatus(q.Status), Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[ApprovalList]{ApprovalList{notNil(list), next}}, nil
}

func (a *API) getApproval(ctx context.Context, in *approvalID) (*body[nightcrier.Approval], error) {
	err := nightcrier.CheckID(in.ID)
	var got nightcrier.Approval
	if err == nil {
		got, err = a.opt.Approvals.Approval(ctx, in.ID)
	}
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	return &body[nightcrier.Approval]{got}, nil
}

func (a *API) approve(ctx context.Context, in *approveRequest) (*body[nightcrier.Approval], error) {
	return a.decide(ctx, in.ID, nightcrier.Decision{Approve: true, Digest: in.Body.Digest, Reason: in.Body.Reason, Arguments: in.Body.Arguments})
}

func (a *API) refuse(ctx context.Context, in *refuseRequest) (*body[nightcrier.Approval], error) {
	return a.decide(ctx, in.ID, nightcrier.Decision{Digest: in.Body.Digest, Reason: in.Body.Reason})
}

// decide takes the decision of who asks, who has to be known.
func (a *API) decide(ctx context.Context, id string, d nightcrier.Decision) (*body[nightcrier.Approval], error) {
	return control(ctx, a, id, func(c Control) (nightcrier.Approval, error) {
		if d.By = callerOf(ctx); d.By == "" {
			return nightcrier.Approval{}, nightcrier.Errorf(nightcrier.Refused, "only somebody known may decide: send the token of one of approvals.approvers, which `nightcrier approvals` takes from %s", TokenVariable)
		}
		return c.DecideApproval(ctx, id, d)
	})
}

// TokenVariable is the environment variable that the command line takes its token from.
const TokenVariable = "NIGHTCRIER_TOKEN"

type callerKey struct{}

// callerOf is who asks, as the token says; "" for nobody known.
func callerOf(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}

// withCaller adds who asks to a request that says so. A token of nobody is nobody's: it may be that
// of a sender of webhooks.
func (a *API) withCaller(r *http.Request) *http.Request {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || a.opt.Approver == nil {
		return r
	}
	if name := a.opt.Approver(token); name != "" {
		return r.WithContext(context.WithValue(r.Context(), callerKey{}, name))
	}
	return r
}

// nameCaller is who starts a run: whom a token names, whatever is said, and else what is said. Nobody
// calls himself by the name of somebody who has a token.
func (a *API) nameCaller(ctx context.Context, said string) (string, error) {
	known := callerOf(ctx)
	switch {
	case known != "":
		return known, nil
	case a.opt.IsApprover != nil && a.opt.IsApprover(said):
		return "", newProblem(nightcrier.Refused, "user_id names one of approvals.approvers, who is known by a token: send it, or take another name")
	}
	return said, nil
}
