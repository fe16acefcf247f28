package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Pipeline is a pipeline that a run can execute, in short.
type Pipeline struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Steps is how many there are.
	Steps int `json:"steps"`
}

func (a *API) pipelineRoutes(h huma.API) {
	huma.Register(h, newOperation("list-pipelines", http.MethodGet, "/pipelines", "Pipelines, by name"), a.listPipelines)
}

// pipelineList is a list that stands alone, as clients of the older platform expect it.
type pipelineList struct {
	Body []Pipeline `nullable:"false"`
}

func (a *API) listPipelines(context.Context, *struct{}) (*pipelineList, error) {
	if a.opt.Pipelines == nil {
		return &pipelineList{[]Pipeline{}}, nil
	}
	return &pipelineList{notNil(a.opt.Pipelines())}, nil
}
