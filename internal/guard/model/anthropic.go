package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier/internal/price"
)

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) upstream() string { return "https://api.anthropic.com" }

func (a anthropic) at(string) protocol { return a }

func (anthropic) list() (string, http.Header) {
	return "/v1/models?limit=1", http.Header{"Anthropic-Version": {"2023-06-01"}}
}

func (anthropic) keyRefused(status int) bool { return denied(status) }

func (anthropic) given(h http.Header, _ url.Values) string {
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	return bearer(h)
}

func (anthropic) authorize(h http.Header, key string) { h.Set("X-Api-Key", key) }

func (anthropic) forwards(method, path string) bool {
	return method == http.MethodPost && (path == "/v1/messages" || path == "/v1/messages/count_tokens")
}

func (anthropic) billed(path string) bool { return path == "/v1/messages" }

func (anthropic) headers(all http.Header) (kept http.Header, unknown []string) {
	kept = pick(all, "Accept", "Anthropic-Version", "User-Agent")
	known, unknown := knownBetas(all.Values("Anthropic-Beta"))
	if known != "" {
		kept.Set("Anthropic-Beta", known)
	}
	return kept, unknown
}

// betas are the features, not part of the API yet, that may be asked for: names without
// the date that they end with in a request. None makes the provider act, keeps something
// there or changes what a token costs.
var betas = []string{
	"claude-code", "context-management", "effort", "extended-cache-ttl", "fine-grained-tool-streaming", "interleaved-thinking",
	"mid-conversation-tool-changes", "output-128k", "per-turn-control", "prompt-caching", "prompt-caching-scope", "structured-outputs",
	"thinking-display-updates", "thinking-token-count", "token-efficient-tools",
}

var betaDay = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`)

// knownBetas parts a header's betas into those that may be asked for, as they stand in
// a header, and the others.
func knownBetas(values []string) (header string, unknown []string) {
	var kept []string
	for _, b := range strings.Split(strings.Join(values, ","), ",") {
		b = strings.TrimSpace(b)
		name := betaDay.ReplaceAllString(b, "")
		switch {
		case name != b && slices.Contains(betas, name):
			kept = append(kept, b)
		case b != "":
			unknown = append(unknown, b)
		}
	}
	return strings.Join(kept, ","), unknown
}

// maxDropped bounds the unknown betas that are logged: an agent can make up any number.
const maxDropped = 16

// dropped are the unknown betas that were logged.
type dropped struct {
	mu    sync.Mutex
	names []string
}

func (d *dropped) tell(log *slog.Logger, betas []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range betas {
		if b = b[:min(len(b), 64)]; len(d.names) < maxDropped && !slices.Contains(d.names, b) {
			d.names = append(d.names, b)
			log.Warn("model guard does not ask for a beta that it does not know", "beta", b)
		}
	}
}

func (anthropic) query(q url.Values) url.Values {
	if q.Get("beta") == "true" {
		return url.Values{"beta": {"true"}}
	}
	return nil
}

// clientTools begin the types of tools that the agent itself executes; a tool
// without a type is one of them. All others run at the provider.
var clientTools = []string{"custom", "bash_", "text_editor_", "computer_", "memory_"}

// anthropicFields are the fields of a request that are forwarded: what is not among
// them is refused, unless it is null.
var anthropicFields = []string{
	"cache_control", "context_management", "max_tokens", "messages", "metadata", "model", "output_config", "output_format",
	"service_tier", "speed", "stop_sequences", "stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p",
}

func (anthropic) inspect(_ string, request map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(request)) {
		if request[name] != nil && !slices.Contains(anthropicFields, name) {
			return fmt.Errorf("the field %.64q is not forwarded: it may act at the provider, or cost more", name)
		}
	}
	if !oneOf(request["speed"], "standard") {
		return fmt.Errorf("the speed %.64q is not forwarded: it is sold apart", fmt.Sprint(request["speed"]))
	}
	if !oneOf(request["service_tier"], "auto", "standard_only") {
		return fmt.Errorf("the service_tier %.64q is not forwarded: it is sold apart", fmt.Sprint(request["service_tier"]))
	}
	if err := checkContext(request["context_management"]); err != nil {
		return err
	}
	if err := eachOf("tools", request["tools"], checkTool); err != nil {
		return err
	}
	for _, name := range []string{"messages", "system"} {
		if err := checkContent(request[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkContext lets a history be cleared, and refuses to have the provider sum it up:
// that is a call of its own.
func checkContext(v any) error {
	management, _ := v.(map[string]any) // of another shape the API refuses it
	edits, _ := management["edits"].([]any)
	for _, e := range edits {
		one, _ := e.(map[string]any)
		if kind, _ := one["type"].(string); !strings.HasPrefix(kind, "clear_") {
			return fmt.Errorf("the context edit %.64q is not forwarded: it is paid for apart", kind)
		}
	}
	return nil
}

func checkTool(v any) error {
	tool, _ := v.(map[string]any) // nil has no type, and the API refuses it
	if kind, typed := tool["type"]; typed && kind != nil && !clientTool(kind) {
		return fmt.Errorf("a tool of type %.64q is not forwarded: it runs at the provider", fmt.Sprint(kind))
	}
	return nil
}

func clientTool(kind any) bool {
	name, _ := kind.(string)
	for _, prefix := range clientTools {
		if name == prefix || strings.HasSuffix(prefix, "_") && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// checkContent looks for sources that the provider would fetch. The arguments of
// the agent's own tool calls are its own.
func checkContent(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := checkContent(e); err != nil {
				return err
			}
		}
	case map[string]any:
		if source, ok := v["source"].(map[string]any); ok && (source["type"] == "url" || source["type"] == "file") {
			return fmt.Errorf("a source of type %s is not forwarded: the provider would fetch it", source["type"])
		}
		if v["type"] == "document" {
			if source, _ := v["source"].(map[string]any); source["type"] != "text" && source["type"] != "content" {
				return errors.New("a document that is no text is not forwarded: what it costs cannot be told from its size")
			}
			if citations, _ := v["citations"].(map[string]any); citations["enabled"] != nil && citations["enabled"] != false {
				return errors.New("a document to be cited is not forwarded: it is cut into pieces, which cost more than its text")
			}
		}
		if v["type"] == "container_upload" {
			return errors.New("container_upload is not forwarded: it runs at the provider")
		}
		for name, e := range v {
			if name == "input" && v["type"] == "tool_use" {
				continue
			}
			if err := checkContent(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (anthropic) amend(string, *document) {}

func (anthropic) endsBrokenStreams() bool { return false }

func (anthropic) lengths(string) []string { return []string{"max_tokens"} }

func (anthropic) thinking() string { return "thinking.budget_tokens" }

// anthropicUsage is the usage object of the Messages API.
type anthropicUsage struct {
	Input    int64 `json:"input_tokens"`
	Written  int64 `json:"cache_creation_input_tokens"`
	Creation struct {
		Hour int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	CacheRead int64 `json:"cache_read_input_tokens"`
	Output    int64 `json:"output_tokens"`
}

func (u anthropicUsage) tokens() price.Tokens {
	hour := min(u.Creation.Hour, u.Written)
	return price.Tokens{Input: u.Input, CacheWrite: u.Written - hour, CacheWriteHour: hour, CacheRead: u.CacheRead, Output: u.Output}
}

// usage: the first event of a stream has the input, and a count of the output that has
// only begun; the one that says why the model stopped has all of it.
func (anthropic) usage(document json.RawMessage) usage {
	var v struct {
		Type    string          `json:"type"`
		Usage   *anthropicUsage `json:"usage"`
		Message struct {
			Usage *anthropicUsage `json:"usage"`
		} `json:"message"`
		Delta struct {
			Stop string `json:"stop_reason"`
		} `json:"delta"`
	}
	if !bytes.Contains(document, []byte(`"usage"`)) || json.Unmarshal(document, &v) != nil {
		return usage{}
	}
	switch {
	case v.Message.Usage != nil:
		return usage{tokens: v.Message.Usage.tokens(), said: true}
	case v.Usage != nil:
		return usage{tokens: v.Usage.tokens(), said: true, final: v.Type != "message_delta" || v.Delta.Stop != ""}
	}
	return usage{}
}

func (anthropic) refusal(_ int, kind, message string) any {
	return map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}}
}
