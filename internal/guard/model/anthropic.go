package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) vendorURL() string { return "https://api.anthropic.com" }

func (a anthropic) protocolAt(string) protocol { return a }

func (anthropic) modelListing() (string, http.Header) {
	return "/v1/models?limit=1", http.Header{"Anthropic-Version": {"2023-06-01"}}
}

func (anthropic) keyRefused(status int) bool { return isKeyDenied(status) }

func (anthropic) givenToken(h http.Header, _ url.Values) string {
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	return bearerToken(h)
}

func (anthropic) setKeyHeader(h http.Header, key string) { h.Set("X-Api-Key", key) }

func (anthropic) mayForward(method, path string) bool {
	return method == http.MethodPost && (path == "/v1/messages" || path == "/v1/messages/count_tokens")
}

func (anthropic) isBilled(path string) bool { return path == "/v1/messages" }

func (anthropic) forwardedHeaders(all http.Header) (kept http.Header, unknown []string) {
	kept = pickHeaders(all, "Accept", "Anthropic-Version", "User-Agent")
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

func (d *dropped) warnOfBetas(log *slog.Logger, betas []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range betas {
		if b = b[:min(len(b), 64)]; len(d.names) < maxDropped && !slices.Contains(d.names, b) {
			d.names = append(d.names, b)
			log.Warn("model guard does not ask for a beta that it does not know", "beta", b)
		}
	}
}

func (anthropic) forwardedQuery(q url.Values) url.Values {
	if q.Get("beta") == "true" {
		return url.Values{"beta": {"true"}}
	}
	return nil
}

// anthropicFields are the fields of a request that are forwarded: what is not among
// them is refused, unless it is null.
var anthropicFields = map[string]check{
	"cache_control": cacheControl, "context_management": contextManagement, "max_tokens": checkPlainValue, "messages": listOf("messages", anthropicMessage.checkObjectIn("a message")),
	"metadata": allowAnything, "model": checkPlainValue, "output_config": outputConfig.checkObjectIn("output_config"), "output_format": allowAnything,
	"service_tier": soldApart("service_tier", "auto", "standard_only"), "speed": soldApart("speed", "standard"), "stop_sequences": allowAnything, "stream": checkPlainValue,
	"system": textOr(listOf("system", systemBlocks.checkObjectIn("system"))), "temperature": checkPlainValue, "thinking": allowAnything, "tool_choice": allowAnything, "tools": listOf("tools", anthropicTool),
	"top_k": checkPlainValue, "top_p": checkPlainValue,
}

func (anthropic) inspectRequest(_ string, request map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(request)) {
		if request[name] == nil {
			continue
		}
		look, known := anthropicFields[name]
		if !known {
			return fmt.Errorf("the field %.64q is not forwarded: it may act at the provider, or cost more", name)
		}
		if err := look(request[name]); err != nil {
			return err
		}
	}
	return nil
}

// soldApart refuses what is none of some words.
func soldApart(name string, words ...string) check {
	return func(v any) error {
		if !oneOf(v, words...) {
			return fmt.Errorf("the %s %.64q is not forwarded: it is sold apart", name, fmt.Sprint(v))
		}
		return nil
	}
}

func (anthropic) amendRequest(string, *document) {}

func (anthropic) endsBrokenStreams() bool { return false }

func (anthropic) lengthFields(string) []string { return []string{"max_tokens"} }

func (anthropic) thinkingField() string { return "thinking.budget_tokens" }

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

// readUsage: the first event of a stream has the input, and a count of the output that has
// only begun; the one that says why the model stopped has all of it.
func (anthropic) readUsage(document json.RawMessage) usage {
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

func (anthropic) refusalBody(_ int, kind, message string) any {
	return map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}}
}
