package api

import (
	"net/http"
	"reflect"
	"strings"

	"nightcrier.dev/nightcrier"

	"github.com/danielgtaylor/huma/v2"
)

// webhooksPath is where others post. The handler there reads bodies of its own
// size and answers by itself; the framework only describes it.
const webhooksPath = "/api/v1/webhooks/"

// posted is the answer to a payload that is stored.
type posted struct {
	Received   int `json:"received" doc:"How many events the payload holds, all of them stored"`
	Opened     int `json:"opened" doc:"How many opened an incident"`
	Joined     int `json:"joined" doc:"How many belong to an open one"`
	Suppressed int `json:"suppressed" doc:"How many started nothing; the list of events says why"`
	Repeated   int `json:"repeated" doc:"How many were there before, and are only counted"`
}

func (a *API) webhookRoutes(h huma.API) {
	var serve http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, newProblem(nightcrier.NotFound, "no webhooks are served here"))
	})
	if a.opt.Webhooks != nil {
		serve = answerUnrouted(a.opt.Webhooks)
	}
	a.mux.Handle("POST "+webhooksPath, serve)
	describe := func(id, path, summary, parameter string) {
		op := newOperation(id, http.MethodPost, "/webhooks/"+path, summary)
		op.Parameters = []*huma.Param{{Name: parameter, In: "path", Required: true, Description: "Its name in the configuration", Schema: &huma.Schema{Type: huma.TypeString}}}
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Description: "At most 4 MiB."}}}}
		op.Responses["200"] = &huma.Response{Description: "All of it is stored", Content: map[string]*huma.MediaType{"application/json": {Schema: h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[posted](), true, "Posted")}}}
		h.OpenAPI().AddOperation(&op)
	}
	describe("post-alerts", "alertmanager/{cluster}", "A notification of a cluster's Alertmanager", "cluster")
	describe("post-webhook", "{name}", "A payload of a configured webhook", "name")
}

// limitBodies limits the bodies of all requests but those to webhooks.
func limitBodies(h http.Handler) http.Handler {
	limited, calls := http.MaxBytesHandler(h, maxBody), http.MaxBytesHandler(h, maxCall)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, webhooksPath) {
			h.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/v1/pipelines/") {
			calls.ServeHTTP(w, r)
			return
		}
		limited.ServeHTTP(w, r)
	})
}

// wrapForPublic wraps the webhooks for an address that other machines reach.
func wrapForPublic(hooks *http.ServeMux) http.Handler {
	h := answerUnrouted(hooks)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}
