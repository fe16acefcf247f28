package model

import (
	"errors"
	"fmt"
	"strings"
)

// What a request of the Messages API may hold, at each place. Beside what people, models
// and the agent's own tools say there are blocks that the provider fetches, runs or
// looks up, and there are gateways that turn what they know into such: so what is not
// listed here is refused.
var (
	anthropicMessage = form{
		"role": word("role of a message", "user", "assistant", "system"), "content": textOr(listOf("content", messageBlocks.of("a message"))),
		"output_config": outputConfig.of("output_config"), "clear_at": plain,
	}
	outputConfig = form{"effort": plain, "format": anything, "task_budget": anything, "timing": plain}

	cacheControl = form{"type": plain, "ttl": plain, "scope": plain}.of("cache_control")
	textBlock    = form{"type": plain, "text": plain, "cache_control": cacheControl, "citations": listOf("citations", notCited)}
	imageBlock   = form{"type": plain, "source": pictureSource, "cache_control": cacheControl}
	toolChange   = form{"type": plain, "tool": changedTool, "cache_control": cacheControl}

	systemBlocks  = forms{"text": textBlock}
	messageBlocks = forms{
		"text": textBlock, "image": imageBlock, "document": documentBlock, "tool_result": toolResult,
		"tool_use":          {"type": plain, "id": plain, "name": plain, "input": anything, "caller": calledByModel, "cache_control": cacheControl},
		"thinking":          {"type": plain, "thinking": plain, "signature": plain, "cache_control": cacheControl},
		"redacted_thinking": {"type": plain, "data": plain, "cache_control": cacheControl},
		"connector_text":    {"type": plain, "connector_text": plain, "text": plain, "signature": plain, "cache_control": cacheControl},
		"mid_conv_system":   {"type": plain, "text": plain, "content": textOr(listOf("content", systemBlocks.of("a prompt"))), "cache_control": cacheControl},
		"tool_addition":     toolChange, "tool_removal": toolChange,
	}
	toolResult    = form{"type": plain, "tool_use_id": plain, "content": textOr(listOf("content", resultBlocks.of("a tool's result"))), "is_error": plain, "cache_control": cacheControl}
	resultBlocks  = forms{"text": textBlock, "image": imageBlock, "document": documentBlock, "tool_reference": {"type": plain, "tool_name": plain, "cache_control": cacheControl}}
	documentBlock = form{"type": plain, "source": documentSource, "title": plain, "context": plain, "citations": citations, "cache_control": cacheControl}
	quotedBlocks  = forms{"text": textBlock, "image": imageBlock}

	anthropicTool = form{
		"type": clientTool, "name": plain, "description": plain, "input_schema": anything, "input_examples": anything, "cache_control": cacheControl,
		"strict": plain, "eager_input_streaming": plain, "defer_loading": plain, "allowed_callers": listOf("allowed_callers", word("caller of a tool", "direct")),
		"display_width_px": plain, "display_height_px": plain, "display_number": plain, "enable_zoom": plain, "max_characters": plain,
	}.of("a tool")

	contextManagement = form{"edits": listOf("edits", contextEdit)}.of("context_management")
	contextEdit       = form{
		"type": clearing, "keep": anything, "trigger": anything, "clear_at_least": anything, "clear_tool_inputs": anything, "exclude_tools": anything,
	}.of("an edit of the context")
)

// clearing lets a history be cleared, and refuses to have the provider sum it up: that
// is a call of its own.
func clearing(kind any) error {
	if name, _ := kind.(string); !strings.HasPrefix(name, "clear_") {
		return fmt.Errorf("the context edit %.64q is not forwarded: it is paid for apart", fmt.Sprint(kind))
	}
	return nil
}

// clientTools begin the types of tools that the agent itself executes; a tool
// without a type is one of them. All others run at the provider.
var clientTools = []string{"custom", "bash_", "text_editor_", "computer_", "memory_"}

func clientTool(kind any) error {
	name, _ := kind.(string)
	for _, prefix := range clientTools {
		if name == prefix || strings.HasSuffix(prefix, "_") && strings.HasPrefix(name, prefix) {
			return nil
		}
	}
	return fmt.Errorf("a tool of type %.64q is not forwarded: it runs at the provider", fmt.Sprint(kind))
}

// changedTool is one that is offered from now on, or no longer: named, or told of anew.
func changedTool(v any) error {
	return forms{
		"tool_reference":  {"type": plain, "name": plain},
		"tool_definition": {"type": plain, "definition": anthropicTool},
	}.of("a change of tools")(v)
}

// calledByModel refuses calls that code at the provider made.
func calledByModel(v any) error {
	return form{"type": word("caller of a tool", "direct")}.of("a caller")(v)
}

// pictureSource lets a picture pass that is in the request itself.
func pictureSource(v any) error {
	source, _ := v.(map[string]any)
	if kind := source["type"]; kind != "base64" {
		return fmt.Errorf("a source of type %.64q is not forwarded: the provider would fetch it", fmt.Sprint(kind))
	}
	if media, _ := source["media_type"].(string); !strings.HasPrefix(media, "image/") {
		return fmt.Errorf("a picture of type %.64q is not forwarded: what it costs cannot be told from its size", fmt.Sprint(source["media_type"]))
	}
	return form{"type": plain, "media_type": plain, "data": plain}.of("a source")(v)
}

// documentSource lets a document pass that is text, or made of such blocks.
func documentSource(v any) error {
	source, _ := v.(map[string]any)
	switch source["type"] {
	case "text":
		return form{"type": plain, "media_type": word("media_type of a text", "text/plain"), "data": plain}.of("a source")(v)
	case "content":
		return form{"type": plain, "content": textOr(listOf("content", quotedBlocks.of("a document")))}.of("a source")(v)
	case "url", "file":
		return fmt.Errorf("a source of type %s is not forwarded: the provider would fetch it", source["type"])
	}
	return errors.New("a document that is no text is not forwarded: what it costs cannot be told from its size")
}

// citations refuses documents that are to be cited.
func citations(v any) error {
	return form{"enabled": func(v any) error {
		if v != false {
			return errors.New("a document to be cited is not forwarded: it is cut into pieces, which cost more than its text")
		}
		return nil
	}}.of("citations")(v)
}

// notCited refuses what stands for a part of a document or of a page.
func notCited(any) error {
	return errors.New("a citation is not forwarded: it refers to what only the provider has")
}
