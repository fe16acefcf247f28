package mcp

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
)

// The tools of a server that pushes faults.
const (
	toolSubscribe   = "events_subscribe"
	toolUnsubscribe = "events_unsubscribe"
	toolList        = "events_list_subscriptions"
)

// maxTools ends the reading of a tool list that has no end.
const maxTools = 2000

// toolSchema is what a tool's input schema says about the arguments we know.
type toolSchema struct {
	Properties struct {
		Mode *property `json:"mode"`
	} `json:"properties"`
}

type property struct {
	Enum []string `json:"enum"`
}

// toolSet holds the schemas of the tools above that the server has.
type toolSet map[string]toolSchema

func (s *session) readTools(ctx context.Context) (toolSet, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timings.Call)
	defer cancel()
	set, count := toolSet{}, 0
	for tool, err := range s.client.Tools(ctx, nil) {
		if err != nil {
			return nil, unreachableError("tools/list", err)
		}
		if count++; count > maxTools {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "the server lists more than %d tools", maxTools)
		}
		if slices.Contains([]string{toolSubscribe, toolUnsubscribe, toolList}, tool.Name) {
			set[tool.Name] = schemaOf(tool.InputSchema)
		}
	}
	if _, ok := set[toolSubscribe]; !ok {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the server has no tool %s (it lists %d others): it cannot push faults; use a server that has it", toolSubscribe, count)
	}
	return set, nil
}

// schemaOf reads a schema leniently: what is unreadable offers nothing.
func schemaOf(schema any) toolSchema {
	var out toolSchema
	if raw, err := json.Marshal(schema); err != nil || json.Unmarshal(raw, &out) != nil {
		return toolSchema{}
	}
	return out
}

// chooseMode picks the subscription mode out of what the server offers. Newer
// servers call faults what older ones called resource-faults.
func (t toolSet) chooseMode(want string) (string, error) {
	var offered []string
	if p := t[toolSubscribe].Properties.Mode; p != nil {
		offered = p.Enum
	}
	has := func(mode string) bool { return slices.Contains(offered, mode) }
	switch {
	case want == ModeAuto && has(ModeResourceFaults):
		return ModeResourceFaults, nil
	case want == ModeAuto && (has(ModeFaults) || len(offered) == 0):
		return ModeFaults, nil
	case want == ModeAuto && has(ModeEvents):
		return ModeEvents, nil
	case want == ModeResourceFaults && !has(want) && has(ModeFaults):
		return ModeFaults, nil
	case has(want) || len(offered) == 0:
		return want, nil
	}
	return "", nightcrier.Errorf(nightcrier.Invalid, "mode %s is not offered by the server, which has %s; set mode: auto", want, quoteList(offered))
}

func quoteList(words []string) string {
	if len(words) > 10 {
		words = append(slices.Clone(words[:10]), "…")
	}
	return strings.Join(words, ", ")
}

// textOf returns what a tool said.
func textOf(res *sdk.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// decodeEmbedded decodes the JSON object that stands in a tool's prose.
func decodeEmbedded(prose string, v any) bool {
	start := strings.IndexByte(prose, '{')
	return start >= 0 && json.NewDecoder(strings.NewReader(prose[start:])).Decode(v) == nil
}

var subscriptionIDs = regexp.MustCompile(`\bsub-[0-9A-Za-z-]{1,64}\b`)

// subscriptionID finds the id in the answer of events_subscribe.
func subscriptionID(prose string) string {
	var answer struct {
		ID string `json:"subscriptionId"`
	}
	if decodeEmbedded(prose, &answer) && answer.ID != "" {
		return answer.ID
	}
	return subscriptionIDs.FindString(prose)
}

// subscriptionHealth reads the answer of events_list_subscriptions.
func subscriptionHealth(prose, id string) error {
	var answer struct {
		Subscriptions []struct {
			ID       string `json:"subscriptionId"`
			Degraded bool   `json:"degraded"`
		} `json:"subscriptions"`
	}
	if !decodeEmbedded(prose, &answer) && strings.Contains(prose, id) {
		return nil // prose of another version, which still names it
	}
	for _, sub := range answer.Subscriptions {
		switch {
		case sub.ID == id && sub.Degraded:
			return nightcrier.Errorf(nightcrier.Unreachable, "the subscription is degraded: the server's watch of the cluster is broken")
		case sub.ID == id:
			return nil
		}
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "the server has forgotten the subscription")
}
