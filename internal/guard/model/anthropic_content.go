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
		"role": allowWords("role of a message", "user", "assistant", "system"), "content": textOr(listOf("content", messageBlocks.checkObjectIn("a message"))),
		"output_config": outputConfig.checkObjectIn("output_config"), "clear_at": checkPlainValue,
	}
	outputConfig = form{"effort": checkPlainValue, "format": allowAnything, "task_budget": allowAnything, "timing": checkPlainValue}

	cacheControl = form{"type": checkPlainValue, "ttl": checkPlainValue, "scope": checkPlainValue}.checkObjectIn("cache_control")
	textBlock    = form{"type": checkPlainValue, "text": checkPlainValue, "cache_control": cacheControl, "citations": listOf("citations", notCited)}
	imageBlock   = form{"type": checkPlainValue, "source": pictureSource, "cache_control": cacheControl}
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
	documentBlock = form{"type": checkPlainValue, "source": documentSource, "title": checkPlainValue, "context": checkPlainValue, "citations": checkCitations, "cache_control": cacheControl}
	quotedBlocks  = forms{"text": textBlock, "image": imageBlock}

	anthropicTool = form{
		"type": clientTool, "name": checkPlainValue, "description": checkPlainValue, "input_schema": allowAnything, "input_examples": allowAnything, "cache_control": cacheControl,
		"strict": checkPlainValue, "eager_input_streaming": checkPlainValue, "defer_loading": checkPlainValue, "allowed_callers": listOf("allowed_callers", allowWords("caller of a tool", "direct")),
		"display_width_px": checkPlainValue, "display_height_px": checkPlainValue, "display_number": checkPlainValue, "enable_zoom": checkPlainValue, "max_characters": checkPlainValue,
	}.checkObjectIn("a tool")

	contextManagement = form{"edits": listOf("edits", contextEdit)}.checkObjectIn("context_management")
	contextEdit       = form{
		"type": checkClearing, "keep": allowAnything, "trigger": allowAnything, "clear_at_least": allowAnything, "clear_tool_inputs": allowAnything, "exclude_tools": allowAnything,
	}.checkObjectIn("an edit of the context")
)

// checkClearing lets a history be cleared, and refuses to have the provider sum it up: that
// is a call of its own.
func checkClearing(kind any) error {
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
		"tool_reference":  {"type": checkPlainValue, "name": checkPlainValue},
		"tool_definition": {"type": checkPlainValue, "definition": anthropicTool},
	}.checkObjectIn("a change of tools")(v)
}

// calledByModel refuses calls that code at the provider made.
func calledByModel(v any) error {
	return form{"type": allowWords("caller of a tool", "direct")}.checkObjectIn("a caller")(v)
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
	return form{"type": checkPlainValue, "media_type": checkPlainValue, "data": checkPlainValue}.checkObjectIn("a source")(v)
}

// documentSource lets a document pass that is text, or made of such blocks.
func documentSource(v any) error {
	source, _ := v.(map[string]any)
	switch source["type"] {
	case "text":
		return form{"type": checkPlainValue, "media_type": allowWords("media_type of a text", "text/plain"), "data": checkPlainValue}.checkObjectIn("a source")(v)
	case "content":
		return form{"type": checkPlainValue, "content": textOr(listOf("content", quotedBlocks.checkObjectIn("a document")))}.checkObjectIn("a source")(v)
	case "url", "file":
		return fmt.Errorf("a source of type %s is not forwarded: the provider would fetch it", source["type"])
	}
	return errors.New("a document that is no text is not forwarded: what it costs cannot be told from its size")
}

// checkCitations refuses documents that are to be cited.
func checkCitations(v any) error {
	return form{"enabled": func(v any) error {
		if v != false {
			return errors.New("a document to be cited is not forwarded: it is cut into pieces, which cost more than its text")
		}
		return nil
	}}.checkObjectIn("citations")(v)
}

// notCited refuses what stands for a part of a document or of a page.
func notCited(any) error {
	return errors.New("a citation is not forwarded: it refers to what only the provider has")
}
