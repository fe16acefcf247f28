package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A model's provider can act for whoever asks: search and fetch the web, call
// MCP servers, run code, read uploaded files. Each of these is a way out of the
// sandbox, or into what other runs left, so a request may hold nothing of it.

// maxDepth bounds the nesting of a request.
const maxDepth = 200

// clientTools begin the types of tools that the agent itself executes; a tool
// without a type is one of them. All others run at the provider.
var clientTools = []string{"custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_"}

// inspect returns why a request may not be forwarded, nil when it may.
func inspect(body []byte) error {
	request, err := parse(body)
	if err != nil {
		return err
	}
	fields, ok := request.(map[string]any)
	if !ok {
		return errors.New("the request is not a JSON object")
	}
	for _, name := range []string{"mcp_servers", "container"} {
		if fields[name] != nil {
			return fmt.Errorf("%s is not forwarded: it runs at the provider", name)
		}
	}
	if err := checkTools(fields["tools"]); err != nil {
		return err
	}
	for _, name := range []string{"messages", "system"} {
		if err := checkContent(fields[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkTools(v any) error {
	if v == nil {
		return nil
	}
	tools, ok := v.([]any)
	if !ok {
		return errors.New("tools is not a list")
	}
	for _, t := range tools {
		tool, _ := t.(map[string]any) // nil has no type, and the API refuses it
		if kind, typed := tool["type"]; typed && kind != nil && !clientTool(kind) {
			return fmt.Errorf("a tool of type %.64q is not forwarded: it runs at the provider", fmt.Sprint(kind))
		}
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

// parse decodes a document in which no object has a name twice: readers differ
// in which of the two they believe.
func parse(body []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	v, err := value(dec, 0)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind the request")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the request is not readable JSON: %w", err)
	}
	return v, nil
}

func value(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		return list(dec, depth)
	case json.Delim('{'):
		return object(dec, depth)
	}
	return t, nil
}

func list(dec *json.Decoder, depth int) (any, error) {
	all := []any{}
	for dec.More() {
		v, err := value(dec, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	_, err := dec.Token()
	return all, err
}

func object(dec *json.Decoder, depth int) (any, error) {
	all := map[string]any{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string) // the decoder lets nothing else pass
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("it has the name %.64q twice in one object", name)
		}
		if all[name], err = value(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return all, err
}
