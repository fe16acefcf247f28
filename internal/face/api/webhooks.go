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

// delivered is the answer to an event of GitHub.
type delivered struct {
	Status     string   `json:"status" enum:"accepted,duplicate,ignored,pong" doc:"What became of it"`
	DeliveryID string   `json:"delivery_id,omitempty" doc:"As GitHub calls the delivery"`
	Action     string   `json:"action,omitempty" doc:"What happened"`
	Reason     string   `json:"reason,omitempty" doc:"Why it is ignored"`
	Runs       []string `json:"runs,omitempty" doc:"The runs that it started"`
}

func (a *API) webhookRoutes(h huma.API) {
	var serve http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, newProblem(nightcrier.NotFound, "no webhooks are served here"))
	})
	if a.opt.Webhooks != nil {
		serve = answerUnrouted(a.opt.Webhooks)
	}
	a.mux.Handle("POST "+webhooksPath, serve)
	describe := func(id, path, summary, parameter, limit string) *huma.Operation {
		op := newOperation(id, http.MethodPost, "/webhooks/"+path, summary)
		if parameter != "" {
			op.Parameters = []*huma.Param{{Name: parameter, In: "path", Required: true, Description: "Its name in the configuration", Schema: &huma.Schema{Type: huma.TypeString}}}
		}
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Description: "At most " + limit + "."}}}}
		return &op
	}
	answers := func(says, name string, of reflect.Type) *huma.Response {
		return &huma.Response{Description: says, Content: map[string]*huma.MediaType{"application/json": {Schema: h.OpenAPI().Components.Schemas.Schema(of, true, name)}}}
	}
	for _, op := range []*huma.Operation{
		describe("post-alerts", "alertmanager/{cluster}", "A notification of a cluster's Alertmanager", "cluster", "4 MiB"),
		describe("post-webhook", "{name}", "A payload of a configured webhook", "name", "4 MiB"),
	} {
		op.Responses["200"] = answers("All of it is stored", "Posted", reflect.TypeFor[posted]())
		h.OpenAPI().AddOperation(op)
	}
	op := describe("post-github", "github", "An event of GitHub, signed with the secret that is shared with it", "", "2 MiB")
	op.Responses["200"] = answers("It starts nothing, or was delivered before", "Delivered", reflect.TypeFor[delivered]())
	op.Responses["202"] = answers("What it starts is stored", "Delivered", reflect.TypeFor[delivered]())
	h.OpenAPI().AddOperation(op)
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
