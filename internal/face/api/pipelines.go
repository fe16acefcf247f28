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

func (a *API) listPipelines(context.Context, *struct{}) (*listOf[Pipeline], error) {
	if a.opt.Pipelines == nil {
		return &listOf[Pipeline]{[]Pipeline{}}, nil
	}
	return &listOf[Pipeline]{notNil(a.opt.Pipelines())}, nil
}
