package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
)

// Answers that have a structure are told as data too, by the schema that the tool's
// listing has; those that are prose have none.
func TestStructuredContent(t *testing.T) {
	f := newFake()
	f.answers = map[string]string{
		"/api/v1/events":                        `{"kind":"EventList","items":[` + event("BackOff", "Warning") + `]}`,
		"/api/v1/pods":                          `{"kind":"PodList","items":[` + crashing("cart\u202e") + `]}`,
		"/api/v1/namespaces/shop/pods/cart":     strings.Replace(crashing("cart"), `"spec":{`, `"spec":{"containers":[{"name":"app"}],`, 1),
		"/api/v1/namespaces/shop/pods/cart/log": "one\ntwo \x1b[2J\n",
		"/apis/metrics.k8s.io/v1beta1/pods":     `{"items":[{"metadata":{"name":"cart","namespace":"shop"},"containers":[{"name":"app","usage":{"cpu":"250m","memory":"64Mi"}}]}]}`,
	}
	d := &desk{work: func(context.Context) error { return nil }, incidents: []nightcrier.Incident{{ID: "0199", Severity: nightcrier.Critical}}, report: `{"title":"it \u202ecrashes"}`}
	cfg := quick(f)
	cfg.Investigator, cfg.Records = d, d
	url, _ := serve(t, cfg)
	c := connect(t, url, nil)
	c.level(t, "warning")
	listed, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	prose := map[string]bool{"kubernetes_describe": true, "kubernetes_changes": true}
	schemas := map[string]*jsonschema.Resolved{}
	for _, tool := range listed.Tools {
		if (tool.OutputSchema == nil) != prose[tool.Name] {
			t.Errorf("%s has the output schema %v", tool.Name, tool.OutputSchema)
		}
		if tool.OutputSchema != nil {
			schemas[tool.Name] = resolved(t, tool.OutputSchema)
		}
	}
	for _, call := range []struct{ tool, args, has string }{
		{"kubernetes_list", `{"kind":"pods"}`, `"rows":[["shop","cart�"`},
		{"kubernetes_get", `{"kind":"pod","name":"cart","namespace":"shop"}`, `"phase":"Running"`},
		{"kubernetes_get", `{"kind":"pod","name":"cart","namespace":"shop","path":"status.phase"}`, `"value":"Running"`},
		{"kubernetes_logs", `{"name":"cart","namespace":"shop"}`, `"lines":["one","two �"]`},
		{"kubernetes_events", `{}`, `"reason":"BackOff"`},
		{"kubernetes_top", `{}`, `"cpu":"250m"`},
		{"investigate", `{"kind":"Pod","name":"cart"}`, `"rootCause":"it\ncrashes �"`},
		{"get_report", `{"incident":"0199"}`, `"markdown":"report true�"`},
		{"get_report", `{"incident":"0199","output":"json"}`, `"report":{"title":"it �crashes"}`},
		{"search_incidents", `{}`, `"incidentId":"0199"`},
		{"events_list", `{}`, `"reason":"BackOff"`},
		{"events_subscribe", `{"mode":"faults"}`, `"status":"active"`},
		{"events_list_subscriptions", `{}`, `"total":1`},
		{"events_unsubscribe", `{"subscriptionId":"sub-1"}`, `"status":"cancelled"`},
	} {
		res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: call.tool, Arguments: json.RawMessage(call.args)})
		if err != nil || res.IsError || len(res.Content) != 1 || res.Content[0].(*sdk.TextContent).Text == "" {
			t.Errorf("%s %s: %+v, %v", call.tool, call.args, res, err)
			continue
		}
		data, _ := json.Marshal(res.StructuredContent)
		if err := schemas[call.tool].Validate(res.StructuredContent); err != nil || !strings.Contains(string(data), call.has) {
			t.Errorf("%s %s: %s, %v, without %s", call.tool, call.args, data, err, call.has)
		}
		delete(prose, call.tool)
	}
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "kubernetes_get", Arguments: json.RawMessage(`{"kind":"pod","name":"nobody"}`)})
	if err != nil || !res.IsError || res.StructuredContent != nil {
		t.Errorf("a failure: %+v, %v", res, err)
	}
}

func resolved(t *testing.T, schema any) *jsonschema.Resolved {
	t.Helper()
	raw, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil || s.Type != "object" {
		t.Fatalf("%s: %v", raw, err)
	}
	return r
}
