package model

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// anthropic is the Messages API.
type anthropic struct{}

var anthropicFacts = facts{
	vendorURL: "https://api.anthropic.com",
	calls: []apiCall{
		{pattern: matchExactly("/v1/messages"), billed: true, apartFields: []string{"system"}, historyField: "messages", lengthFields: []string{"max_tokens"}, thinkingField: "thinking.budget_tokens"},
		{pattern: matchExactly("/v1/messages/count_tokens"), apartFields: []string{"system"}, historyField: "messages"},
	},
	listing: "/v1/models?limit=1", listingHeader: http.Header{"Anthropic-Version": {"2023-06-01"}},
	tokenHeaders: []string{"X-Api-Key", "Authorization"}, keyHeader: "X-Api-Key",
	headers: []string{"Anthropic-Version"}, query: map[string]string{"beta": "true"},
	betaHeader: "Anthropic-Beta",
	// Features that are not part of the API yet. None makes the provider act, keeps something
	// there or changes what a token costs.
	betas: []string{
		"claude-code", "context-management", "effort", "extended-cache-ttl", "fine-grained-tool-streaming", "interleaved-thinking",
		"mid-conversation-tool-changes", "output-128k", "per-turn-control", "prompt-caching", "prompt-caching-scope", "structured-outputs",
		"thinking-display-updates", "thinking-token-count", "token-efficient-tools",
	},
	usageName: `"usage"`,
	sealed: append(sealNames("id", "tool_use_id", "name", "type", "role", "model", "media_type", "signature"),
		seal{member: "data", beside: "type", says: "base64"}, seal{member: "data", beside: "type", says: "redacted_thinking"}, seal{member: "thinking", beside: "type", says: "thinking"}), // thoughts are signed
	arguments:  []string{"input"},
	explained:  []string{"bash_", "text_editor_", "computer_", "memory_"},
	references: []string{"tool_reference", "tool_addition", "tool_removal"},
}

func (anthropic) factsAt(string) facts { return anthropicFacts }

func (anthropic) inspectRequest(_ string, request value) error {
	return anthropicRequest.checkObjectIn("the request")(request)
}

// What a request of the Messages API may hold, at each place. Beside what people, models
// and the agent's own tools say there are blocks that the provider fetches, runs or
// looks up, and there are gateways that turn what they know into such: so what is not
// listed here is refused.
var (
	anthropicRequest = form{
		"cache_control": cacheControl, "context_management": contextManagement, "max_tokens": checkPlainValue, "messages": listOf("messages", anthropicMessage.checkObjectIn("a message")),
		"metadata": allowAnything, "model": checkPlainValue, "output_config": outputConfig.checkObjectIn("output_config"), "output_format": allowAnything,
		"service_tier": allowTiers("service_tier", "auto", "standard_only"), "speed": allowTiers("speed", "standard"), "stop_sequences": allowAnything, "stream": checkPlainValue,
		"system": textOr(listOf("system", systemBlocks.checkObjectIn("system"))), "temperature": checkPlainValue, "thinking": allowAnything, "tool_choice": allowAnything, "tools": listOf("tools", anthropicTool),
		"top_k": checkPlainValue, "top_p": checkPlainValue,
	}
	anthropicMessage = form{
		"role": allowWords("role of a message", "user", "assistant", "system"), "content": textOr(listOf("content", messageBlocks.checkObjectIn("a message"))),
		"output_config": outputConfig.checkObjectIn("output_config"), "clear_at": checkPlainValue,
	}
	outputConfig = form{"effort": checkPlainValue, "format": allowAnything, "task_budget": allowAnything, "timing": checkPlainValue}

	cacheControl = form{"type": checkPlainValue, "ttl": checkPlainValue, "scope": checkPlainValue}.checkObjectIn("cache_control")
	textBlock    = form{"type": checkPlainValue, "text": checkPlainValue, "cache_control": cacheControl, "citations": listOf("citations", refuseCitation)}
	imageBlock   = form{"type": checkPlainValue, "source": checkPictureSource, "cache_control": cacheControl}
	toolChange   = form{"type": checkPlainValue, "tool": changedTool, "cache_control": cacheControl}

	systemBlocks  = forms{"text": textBlock}
	messageBlocks = forms{
		"text": textBlock, "image": imageBlock, "document": documentBlock, "tool_result": toolResult,
		"tool_use":          {"type": checkPlainValue, "id": checkPlainValue, "name": checkPlainValue, "input": allowAnything, "caller": calledByModel, "cache_control": cacheControl},
		"thinking":          {"type": checkPlainValue, "thinking": checkPlainValue, "signature": checkPlainValue, "cache_control": cacheControl},
		"redacted_thinking": {"type": checkPlainValue, "data": checkPlainValue, "cache_control": cacheControl},
		"connector_text":    {"type": checkPlainValue, "connector_text": checkPlainValue, "text": checkPlainValue, "signature": checkPlainValue, "cache_control": cacheControl},
		"mid_conv_system":   {"type": checkPlainValue, "text": checkPlainValue, "content": textOr(listOf("content", systemBlocks.checkObjectIn("a prompt"))), "cache_control": cacheControl},
		"tool_addition":     toolChange, "tool_removal": toolChange,
	}
	toolResult    = form{"type": checkPlainValue, "tool_use_id": checkPlainValue, "content": textOr(listOf("content", resultBlocks.checkObjectIn("a tool's result"))), "is_error": checkPlainValue, "cache_control": cacheControl}
	resultBlocks  = forms{"text": textBlock, "image": imageBlock, "document": documentBlock, "tool_reference": {"type": checkPlainValue, "tool_name": checkPlainValue, "cache_control": cacheControl}}
	documentBlock = form{"type": checkPlainValue, "source": checkDocumentSource, "title": checkPlainValue, "context": checkPlainValue, "citations": checkCitations, "cache_control": cacheControl}
	quotedBlocks  = forms{"text": textBlock, "image": imageBlock}

	anthropicTool = form{
		"type": checkClientTool, "name": checkPlainValue, "description": checkPlainValue, "input_schema": allowAnything, "input_examples": allowAnything, "cache_control": cacheControl,
		"strict": checkPlainValue, "eager_input_streaming": checkPlainValue, "defer_loading": checkPlainValue, "allowed_callers": listOf("allowed_callers", allowWords("caller of a tool", "direct")),
		"display_width_px": checkPlainValue, "display_height_px": checkPlainValue, "display_number": checkPlainValue, "enable_zoom": checkPlainValue, "max_characters": checkPlainValue,
	}.checkObjectIn("a tool")
	changedTool = forms{
		"tool_reference":  {"type": checkPlainValue, "name": checkPlainValue},
		"tool_definition": {"type": checkPlainValue, "definition": anthropicTool},
	}.checkObjectIn("a change of tools")
	calledByModel = form{"type": allowWords("caller of a tool", "direct")}.checkObjectIn("a caller") // not by code at the provider

	contextManagement = form{"edits": listOf("edits", contextEdit)}.checkObjectIn("context_management")
	contextEdit       = form{
		"type": checkClearing, "keep": allowAnything, "trigger": allowAnything, "clear_at_least": allowAnything, "clear_tool_inputs": allowAnything, "exclude_tools": allowAnything,
	}.checkObjectIn("an edit of the context")

	inlinePicture = form{"type": checkPlainValue, "media_type": checkPlainValue, "data": checkPlainValue}.checkObjectIn("a source")
	inlineText    = form{"type": checkPlainValue, "media_type": allowWords("media_type of a text", "text/plain"), "data": checkPlainValue}.checkObjectIn("a source")
	quoted        = form{"type": checkPlainValue, "content": textOr(listOf("content", quotedBlocks.checkObjectIn("a document")))}.checkObjectIn("a source")

	// A document that is to be cited is cut into pieces, which cost more than its text.
	checkCitations = form{"enabled": func(v value) error {
		if v.kind != isFalse {
			return errors.New("a document to be cited is not forwarded: it is cut into pieces, which cost more than its text")
		}
		return nil
	}}.checkObjectIn("citations")
)

// checkClearing lets a history be cleared, and refuses to have the provider sum it up: that
// is a call of its own.
func checkClearing(kind value) error {
	if !strings.HasPrefix(kind.text, "clear_") {
		return fmt.Errorf("the context edit %.64q is not forwarded: it is paid for apart", kind.String())
	}
	return nil
}

// checkClientTool lets a tool pass that the agent itself executes. All others run at the provider.
func checkClientTool(kind value) error {
	if kind.text == "custom" || anthropicFacts.isExplained(kind.text) {
		return nil
	}
	return fmt.Errorf("a tool of type %.64q is not forwarded: it runs at the provider", kind.String())
}

// checkPictureSource lets a picture pass that is in the request itself.
func checkPictureSource(v value) error {
	if kind := v.findMember("type"); kind.text != "base64" {
		return fmt.Errorf("a source of type %.64q is not forwarded: the provider would fetch it", kind.String())
	}
	if media := v.findMember("media_type"); !strings.HasPrefix(media.text, "image/") {
		return fmt.Errorf("a picture of type %.64q is not forwarded: what it costs cannot be told from its size", media.String())
	}
	return inlinePicture(v)
}

// checkDocumentSource lets a document pass that is text, or made of such blocks.
func checkDocumentSource(v value) error {
	switch kind := v.findMember("type"); kind.text {
	case "text":
		return inlineText(v)
	case "content":
		return quoted(v)
	case "url", "file":
		return fmt.Errorf("a source of type %s is not forwarded: the provider would fetch it", kind.text)
	}
	return errors.New("a document that is no text is not forwarded: what it costs cannot be told from its size")
}

// refuseCitation refuses what stands for a part of a document or of a page.
func refuseCitation(value) error {
	return errors.New("a citation is not forwarded: it refers to what only the provider has")
}

// leavesOut: all edits clear something, but the one that keeps all thoughts.
func (anthropic) leavesOut(request value) bool {
	edits := request.findMember("context_management").findMember("edits").inner
	return slices.ContainsFunc(edits, func(e value) bool {
		return !strings.HasPrefix(e.findMember("type").text, "clear_thinking_") || e.findMember("keep").text != "all"
	})
}

// readUsage: the first event of a stream has the input, and a count of the output that has
// only begun; the one that says why the model stopped has all of it.
func (anthropic) readUsage(document value) usage {
	begun := true
	c := counts{value: document.findMember("message").findMember("usage")}
	if !c.isSaid() {
		begun = document.findMember("type").text == "message_delta" && document.findMember("delta").findMember("stop_reason").text == ""
		c.value = document.findMember("usage")
	}
	if c.kind != isObject {
		return usage{}
	}
	written := c.readCount("cache_creation_input_tokens")
	hour := min(c.readCount("cache_creation", "ephemeral_1h_input_tokens"), written)
	return c.usageOf(price.Tokens{
		Input: c.readCount("input_tokens"), CacheWrite: written - hour, CacheWriteHour: hour, CacheRead: c.readCount("cache_read_input_tokens"), Output: c.readCount("output_tokens"),
	}, !begun)
}

func (anthropic) refusalBody(_ int, kind, message string) any {
	return map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}}
}
