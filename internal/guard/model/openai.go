package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// openAI is two APIs on one base URL, Responses and Chat Completions, the second of
// which many other servers speak too. Those have extensions that make them act for
// whoever asks, so a request may hold only fields that are known not to.
type openAI struct {
	// azure is Microsoft's, where the key stands in a header of its own.
	azure bool
	// compatible is a server of somebody else's: many know only the older name of the
	// field that bounds an answer.
	compatible bool
}

func (openAI) protocolAt(host string) protocol {
	azure := strings.HasSuffix(host, ".azure.com")
	return openAI{azure: azure, compatible: !azure && !strings.HasSuffix(host, ".openai.com")}
}

const (
	responsesPath = "/v1/responses"
	chatPath      = "/v1/chat/completions"
)

func (openAI) vendorURL() string { return "https://api.openai.com" }

func (openAI) modelListing() (string, http.Header) { return "/v1/models", nil }

func (openAI) keyRefused(status int) bool { return isKeyDenied(status) }

func (openAI) givenToken(h http.Header, _ url.Values) string { return bearerToken(h) }

func (o openAI) setKeyHeader(h http.Header, key string) {
	if o.azure {
		h.Set("Api-Key", key)
		return
	}
	h.Set("Authorization", "Bearer "+key)
}

func (openAI) mayForward(method, path string) bool {
	return method == http.MethodPost && (path == responsesPath || path == chatPath)
}

func (openAI) isBilled(string) bool { return true }

// forwardedHeaders: the organization and the project that pay are the key's, not the agent's
// to choose.
func (openAI) forwardedHeaders(all http.Header) (http.Header, []string) {
	return pickHeaders(all, "Accept", "User-Agent"), nil
}

func (openAI) forwardedQuery(url.Values) url.Values { return nil }

// openAIFields are the fields of both APIs, responsesFields and chatFields those of
// one. What is not among them is refused, unless it is null.
var (
	openAIFields = []string{
		"frequency_penalty", "metadata", "model", "parallel_tool_calls", "presence_penalty", "prompt_cache_key", "prompt_cache_retention",
		"reasoning", "safety_identifier", "seed", "service_tier", "stream", "stream_options", "temperature", "tool_choice", "tools",
		"top_k", "top_logprobs", "top_p", "user", "verbosity",
	}
	responsesFields = []string{
		"client_metadata", "context_management", "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "text", "truncation",
	}
	chatFields = []string{
		"function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "messages", "min_p",
		"n", "reasoning_effort", "repetition_penalty", "response_format", "stop",
	}
)

func (openAI) inspectRequest(path string, request map[string]any) error {
	own := chatFields
	if path == responsesPath {
		own = responsesFields
	}
	for name, v := range request {
		switch {
		case v == nil || slices.Contains(openAIFields, name) || slices.Contains(own, name):
		case name == "background" && v == false:
		case name == "store" && v == false:
		default:
			return fmt.Errorf("the field %.64q is not forwarded: it may act at the provider, or leave something there", name)
		}
	}
	if path == responsesPath && request["store"] != false {
		return errors.New(`"store" is not false: the provider would keep the conversation, where other runs could go on with it`)
	}
	if !isSingleAnswer(request["n"]) {
		return errors.New(`"n" is not 1: each answer is paid`)
	}
	if !oneOf(request["service_tier"], "auto", "default", "flex") {
		return fmt.Errorf("the service_tier %.64q is not forwarded: it is sold apart", fmt.Sprint(request["service_tier"]))
	}
	if path == chatPath && saysNoUsage(request) {
		return errors.New(`"stream_options" without "include_usage" is not forwarded: what the call costs would be unknown`)
	}
	for _, name := range []string{"tools", "functions"} {
		if err := eachOf(name, request[name], checkOpenAITool); err != nil {
			return err
		}
	}
	if input := request["input"]; input != nil {
		if err := textOr(listOf("input", checkItem))(input); err != nil {
			return err
		}
	}
	for _, name := range []string{"input", "messages", "instructions"} {
		if err := checkOpenAIContent(request[name]); err != nil {
			return err
		}
	}
	return nil
}

// saysNoUsage reports whether a stream is asked for that does not say what it costs.
func saysNoUsage(request map[string]any) bool {
	given, asked := request["stream_options"]
	options, _ := given.(map[string]any)
	return asked && request["stream"] == true && options["include_usage"] != true
}

// ownTools are the types of tools that the agent itself executes; a tool without a
// type is a function of an older spelling. A namespace holds tools.
var ownTools = []string{"function", "custom", "namespace", "local_shell", "apply_patch"}

func checkOpenAITool(v any) error {
	tool, _ := v.(map[string]any) // nil has no type, and the API refuses it
	if err := checkSpelling(tool); err != nil {
		return err
	}
	kind, typed := tool["type"]
	name, _ := kind.(string)
	client := slices.Contains(ownTools, name) || name == "tool_search" && tool["execution"] == "client"
	if typed && kind != nil && !client {
		return fmt.Errorf("a tool of type %.64q is not forwarded: it runs at the provider", fmt.Sprint(kind))
	}
	if name == "namespace" {
		return eachOf("tools", tool["tools"], checkOpenAITool)
	}
	return nil
}

// inputs are the types of items that hold what was said and done themselves. All others
// stand for something at the provider, or are of its own doing.
var inputs = []string{
	"message", "reasoning", "compaction", "additional_tools",
	"function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "tool_search_call", "tool_search_output",
	"local_shell_call", "local_shell_call_output", "apply_patch_call", "apply_patch_call_output",
}

// checkItem refuses an item that is looked up at the provider by its id, where other runs
// may have left it.
func checkItem(v any) error {
	item, ok := v.(map[string]any)
	if !ok {
		return errors.New("the input holds an item that is not an object")
	}
	kind := item["type"]
	switch {
	case kind == nil && (item["role"] == nil || item["content"] == nil):
		return errors.New("an item of no type that says nothing is not forwarded: it refers to the provider")
	case !oneOf(kind, inputs...):
		return fmt.Errorf("an item of type %.64q is not forwarded: it refers to the provider", fmt.Sprint(kind))
	case (kind == "reasoning" || kind == "compaction") && item["id"] != nil && item["encrypted_content"] == nil:
		return fmt.Errorf("an item of type %.64q with an id and no encrypted_content is not forwarded: it refers to the provider", kind)
	case kind == "message" && item["content"] == nil:
		return errors.New("a message without content is not forwarded: it refers to the provider")
	case strings.HasPrefix(fmt.Sprint(kind), "tool_search_") && item["execution"] != "client":
		return fmt.Errorf("an item of type %.64q is not forwarded: it runs at the provider", kind)
	}
	return nil
}

// checkOpenAIContent looks through messages and items for what the provider would
// fetch, for references to what it keeps, and for tools that are offered among them.
func checkOpenAIContent(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := checkOpenAIContent(e); err != nil {
				return err
			}
		}
	case map[string]any:
		return checkOpenAIItem(v)
	}
	return nil
}

func checkOpenAIItem(item map[string]any) error {
	if err := checkSpelling(item); err != nil {
		return err
	}
	for _, name := range media {
		if item[name] != nil {
			return fmt.Errorf("%s is not forwarded: the provider would fetch it, or what it costs cannot be told from its size", name)
		}
	}
	if !isInlineImage(item["image_url"]) {
		return errors.New("an image_url that is no data: URL of a picture is not forwarded: the provider would fetch it")
	}
	if err := checkParts(item); err != nil {
		return err
	}
	if err := eachOf("tools", item["tools"], checkOpenAITool); err != nil {
		return err
	}
	for name, e := range item {
		if name == "tools" || name == "arguments" || name == "env" {
			continue // schemas and arguments are the agent's own
		}
		if err := checkOpenAIContent(e); err != nil {
			return err
		}
	}
	return nil
}

// parts are the types of what stands in a message or in a tool's answer.
var parts = []string{"text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text", "image_url", "input_image", "encrypted_content"}

// checkParts refuses parts of a kind that is not known.
func checkParts(item map[string]any) error {
	for _, name := range []string{"content", "output"} {
		list, _ := item[name].([]any)
		for _, e := range list {
			part, _ := e.(map[string]any)
			if kind, typed := part["type"]; typed && !oneOf(kind, parts...) {
				return fmt.Errorf("a part of type %.64q is not forwarded: what it costs cannot be told from its size", fmt.Sprint(kind))
			}
		}
	}
	return nil
}

// media are the members of messages and items that stand for files, sounds and films,
// some of them by an address.
var media = []string{"file_id", "file_url", "file_data", "input_audio", "audio", "audio_url", "input_video", "video", "video_url", "audio_embeds", "image_embeds"}

// telling are the names that are looked for.
var telling = append([]string{"type", "role", "id", "tools", "execution", "image_url", "url", "content", "encrypted_content", "output"}, media...)

var spelled = func() map[string]string {
	all := map[string]string{}
	for _, name := range telling {
		all[foldName(name)] = name
	}
	return all
}()

// checkSpelling refuses other spellings of these names: some servers read a name in any
// case, and with or without what joins its words.
func checkSpelling(object map[string]any) error {
	for name := range object {
		if exact, looks := spelled[foldName(name)]; looks && name != exact {
			return fmt.Errorf("the name %.64q is not forwarded: some servers read it as %q", name, exact)
		}
	}
	return nil
}

// foldName returns a name as the least strict of readers compares it: there are letters beyond
// ASCII that only become one of it by way of the other case.
func foldName(name string) string {
	return strings.ToLower(strings.ToUpper(unjoined.Replace(name)))
}

var unjoined = strings.NewReplacer("_", "", "-", "")

// isInlineImage reports whether an image, if there is one, is in the request itself. Chat
// puts the URL into an object.
func isInlineImage(image any) bool {
	if object, ok := image.(map[string]any); ok {
		image = object["url"]
	}
	if image == nil {
		return true
	}
	u, ok := image.(string)
	return ok && strings.HasPrefix(u, "data:image/")
}

// amendRequest asks for the usage of a streamed chat where the client does not: else what
// the call costs would be unknown. Clients pass over the piece that says it.
func (openAI) amendRequest(path string, d *document) {
	if _, asked := d.fields["stream_options"]; asked || path != chatPath || d.fields["stream"] != true {
		return
	}
	open := d.places[""][0].from + 1
	d.replaceSpan(span{open, open}, `"stream_options":{"include_usage":true},`)
}

func (openAI) endsBrokenStreams() bool { return false }

func (o openAI) lengthFields(path string) []string {
	switch {
	case path == responsesPath:
		return []string{"max_output_tokens"}
	case o.compatible:
		return []string{"max_tokens", "max_completion_tokens"}
	}
	return []string{"max_completion_tokens", "max_tokens"}
}

func (openAI) thinkingField() string { return "" }

// openAIUsage is the usage object of both APIs. What was cached is part of the input,
// what was reasoned part of the output.
type openAIUsage struct {
	Input         int64        `json:"input_tokens"`
	InputDetails  openAICached `json:"input_tokens_details"`
	Output        int64        `json:"output_tokens"`
	Prompt        int64        `json:"prompt_tokens"`
	PromptDetails openAICached `json:"prompt_tokens_details"`
	Completion    int64        `json:"completion_tokens"`
}

type openAICached struct {
	Read  int64 `json:"cached_tokens"`
	Write int64 `json:"cache_write_tokens"`
}

func (u openAIUsage) tokens() price.Tokens {
	input := max(u.Input, u.Prompt)
	read := min(max(u.InputDetails.Read, u.PromptDetails.Read), input)
	write := min(max(u.InputDetails.Write, u.PromptDetails.Write), input-read)
	return price.Tokens{Input: input - read - write, CacheRead: read, CacheWrite: write, Output: max(u.Output, u.Completion)}
}

// readUsage: the last event of a stream has it, of Responses within the whole response.
// Some servers that speak Chat say it in every piece; there it is whole when a choice
// is finished, or where there is none any more.
func (openAI) readUsage(document json.RawMessage) usage {
	var v struct {
		Usage    *openAIUsage `json:"usage"`
		Response struct {
			Usage *openAIUsage `json:"usage"`
		} `json:"response"`
		Choices []struct {
			Finish string `json:"finish_reason"`
		} `json:"choices"`
	}
	if !bytes.Contains(document, []byte(`"usage"`)) || json.Unmarshal(document, &v) != nil {
		return usage{}
	}
	switch {
	case v.Response.Usage != nil:
		return usage{tokens: v.Response.Usage.tokens(), said: true, final: true}
	case v.Usage != nil:
		return usage{tokens: v.Usage.tokens(), said: true, final: len(v.Choices) == 0 || v.Choices[0].Finish != ""}
	}
	return usage{}
}

func (openAI) refusalBody(_ int, kind, message string) any {
	return map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": kind}}
}
