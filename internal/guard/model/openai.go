package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// openAI is two APIs on one base URL, Responses and Chat Completions, the second of
// which many other servers speak too. Those have extensions that make them act for
// whoever asks, so a request may hold only fields that are known not to.
type openAI struct{}

const (
	responsesPath = "/v1/responses"
	chatPath      = "/v1/chat/completions"
)

var openAIFacts = facts{
	vendorURL: "https://api.openai.com",
	calls: []apiCall{
		{pattern: matchExactly(responsesPath), billed: true, apartFields: []string{"instructions", "clientmetadata"}, historyField: "input", lengthFields: []string{"max_output_tokens"}},
		{
			pattern: matchExactly(chatPath), billed: true, historyField: "messages", lengthFields: []string{"max_completion_tokens", "max_tokens"},
			// Else what a streamed chat costs would be unknown. Clients pass over the piece that says it.
			whenStreamed: struct{ name, json string }{"stream_options", `{"include_usage":true}`},
		},
	},
	listing:      "/v1/models",
	tokenHeaders: []string{"Authorization"}, keyHeader: "Authorization", keyPrefix: bearer,
	usageName: `"usage"`,
	sealed:    append(sealNames("id", "call_id", "tool_call_id", "item_id", "name", "type", "role", "model", "status", "signature", "encrypted_content", "prompt_cache_key"), seal{member: "image_url", whole: true}),
	arguments: []string{"arguments", "args", "env"}, results: []string{"output"},
	explained:  []string{"local_shell", "apply_patch", "tool_search"},
	references: []string{"tool_search_call", "tool_search_output"},
}

// factsAt: on Azure the key stands in a header of its own, and many servers of somebody else
// know only the older name of the field that bounds an answer.
func (openAI) factsAt(host string) facts {
	f := openAIFacts
	switch {
	case strings.HasSuffix(host, ".azure.com"):
		f.keyHeader, f.keyPrefix = "Api-Key", ""
	case !strings.HasSuffix(host, ".openai.com"):
		f.calls = slices.Clone(f.calls)
		f.calls[1].lengthFields = []string{"max_tokens", "max_completion_tokens"}
	}
	return f
}

// openRouter speaks Chat Completions for the models of many vendors.
type openRouter struct{ openAI }

func (openRouter) factsAt(host string) facts {
	f := openAI{}.factsAt(host)
	f.vendorURL, f.calls = "https://openrouter.ai/api", f.calls[1:]
	return f
}

// What a request may hold, at each place: fields of both APIs, and those of one.
var (
	responsesRequest = withFields(form{
		"client_metadata": allowAnything, "context_management": allowAnything, "include": allowAnything, "input": textOr(listOf("input", checkItem)), "instructions": checkOpenAIContent,
		"max_output_tokens": allowAnything, "max_tool_calls": allowAnything, "text": allowAnything, "truncation": allowAnything,
	})
	chatRequest = withFields(form{
		"function_call": allowAnything, "functions": openAITools("functions"), "logit_bias": allowAnything, "logprobs": allowAnything, "max_completion_tokens": allowAnything, "max_tokens": allowAnything,
		"messages": checkOpenAIContent, "min_p": allowAnything, "n": checkSingleAnswer, "reasoning_effort": allowAnything, "repetition_penalty": allowAnything, "response_format": allowAnything, "stop": allowAnything,
	})
	openAIFields = form{
		"background": checkUnset, "store": checkUnset, "service_tier": allowTiers("service_tier", "auto", "default", "flex"), "tools": openAITools("tools"),
		"frequency_penalty": allowAnything, "metadata": allowAnything, "model": allowAnything, "parallel_tool_calls": allowAnything, "presence_penalty": allowAnything, "prompt_cache_key": allowAnything,
		"prompt_cache_retention": allowAnything, "reasoning": allowAnything, "safety_identifier": allowAnything, "seed": allowAnything, "stream": allowAnything, "stream_options": allowAnything,
		"temperature": allowAnything, "tool_choice": allowAnything, "top_k": allowAnything, "top_logprobs": allowAnything, "top_p": allowAnything, "user": allowAnything, "verbosity": allowAnything,
	}
)

// withFields adds to a form the fields of both APIs.
func withFields(own form) form {
	maps.Copy(own, openAIFields)
	return own
}

// checkUnset refuses what the provider would do or keep if it were not false.
func checkUnset(v value) error {
	if v.kind != isFalse {
		return fmt.Errorf("the field %.64q that is not false is not forwarded: the provider would act, or keep something", v.name)
	}
	return nil
}

func (openAI) inspectRequest(path string, request value) error {
	if path == responsesPath {
		if request.findMember("store").kind != isFalse {
			return errors.New(`"store" is not false: the provider would keep the conversation, where other runs could go on with it`)
		}
		return responsesRequest.checkObjectIn("the request")(request)
	}
	options := request.findMember("stream_options")
	if options.kind != isAbsent && request.findMember("stream").kind == isTrue && options.findMember("include_usage").kind != isTrue {
		return errors.New(`"stream_options" without "include_usage" is not forwarded: what the call costs would be unknown`)
	}
	return chatRequest.checkObjectIn("the request")(request)
}

func openAITools(name string) check { return listOf(name, checkOpenAITool) }

// ownTools are the types of tools that the agent itself executes; a tool without a
// type is a function of an older spelling. A namespace holds tools.
var ownTools = []string{"function", "custom", "namespace", "local_shell", "apply_patch"}

func checkOpenAITool(tool value) error {
	if err := checkSpelling(tool); err != nil {
		return err
	}
	kind := tool.findMember("type")
	client := kind.kind == isText && kind.text == "tool_search" && tool.findMember("execution").text == "client"
	if !client && !kind.saysOneOf(ownTools...) {
		return fmt.Errorf("a tool of type %.64q is not forwarded: it runs at the provider", kind.String())
	}
	if tools := tool.findMember("tools"); kind.text == "namespace" && tools.isSaid() {
		return openAITools("tools")(tools)
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
func checkItem(item value) error {
	if item.kind != isObject {
		return errors.New("the input holds an item that is not an object")
	}
	kind, says := item.findMember("type"), func(name string) bool { return item.findMember(name).isSaid() }
	switch {
	case !kind.isSaid() && !(says("role") && says("content")):
		return errors.New("an item of no type that says nothing is not forwarded: it refers to the provider")
	case !kind.saysOneOf(inputs...):
		return fmt.Errorf("an item of type %.64q is not forwarded: it refers to the provider", kind.String())
	case (kind.text == "reasoning" || kind.text == "compaction") && says("id") && !says("encrypted_content"):
		return fmt.Errorf("an item of type %.64q with an id and no encrypted_content is not forwarded: it refers to the provider", kind.text)
	case kind.text == "message" && !says("content"):
		return errors.New("a message without content is not forwarded: it refers to the provider")
	case strings.HasPrefix(kind.text, "tool_search_") && item.findMember("execution").text != "client":
		return fmt.Errorf("an item of type %.64q is not forwarded: it runs at the provider", kind.text)
	}
	return checkOpenAIContent(item)
}

// checkOpenAIContent looks through messages and items for what the provider would
// fetch, for references to what it keeps, and for tools that are offered among them.
func checkOpenAIContent(v value) error {
	if v.kind == isObject {
		if err := checkOpenAIItem(v); err != nil {
			return err
		}
	}
	for _, e := range v.inner {
		if e.name == "tools" || e.name == "arguments" || e.name == "env" {
			continue // schemas and arguments are the agent's own
		}
		if err := checkOpenAIContent(e); err != nil {
			return err
		}
	}
	return nil
}

func checkOpenAIItem(item value) error {
	if err := checkSpelling(item); err != nil {
		return err
	}
	for _, m := range item.inner {
		if !m.isSaid() {
			continue
		}
		var err error
		switch {
		case slices.Contains(media, m.name):
			err = fmt.Errorf("%s is not forwarded: the provider would fetch it, or what it costs cannot be told from its size", m.name)
		case m.name == "image_url":
			err = checkInlineImage(m)
		case m.name == "content" || m.name == "output":
			err = checkParts(m)
		case m.name == "tools":
			err = openAITools("tools")(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parts are the types of what stands in a message or in a tool's answer.
var parts = []string{"text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text", "image_url", "input_image", "encrypted_content"}

// checkParts refuses parts of a kind that is not known.
func checkParts(list value) error {
	if list.kind != isList {
		return nil
	}
	for _, part := range list.inner {
		if kind := part.findMember("type"); !kind.saysOneOf(parts...) {
			return fmt.Errorf("a part of type %.64q is not forwarded: what it costs cannot be told from its size", kind.String())
		}
	}
	return nil
}

// checkInlineImage refuses an image that is not in the request itself. Chat puts the URL into
// an object.
func checkInlineImage(image value) error {
	if image.kind == isObject {
		image = image.findMember("url")
	}
	if image.isSaid() && (image.kind != isText || !strings.HasPrefix(image.text, "data:image/")) {
		return errors.New("an image_url that is no data: URL of a picture is not forwarded: the provider would fetch it")
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
func checkSpelling(object value) error {
	for _, m := range object.inner {
		if exact, looks := spelled[foldName(m.name)]; looks && m.name != exact {
			return fmt.Errorf("the name %.64q is not forwarded: some servers read it as %q", m.name, exact)
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

func (openAI) leavesOut(request value) bool {
	return !request.findMember("truncation").saysOneOf("disabled") || request.findMember("context_management").isSaid()
}

// readUsage: the last event of a stream has it, of Responses within the whole response.
// Some servers that speak Chat say it in every piece; there it is whole when a choice
// is finished, or where there is none any more. What was cached is part of the input, what
// was reasoned part of the output.
func (openAI) readUsage(document value) usage {
	final := true
	c := counts{value: document.findMember("response").findMember("usage")}
	if !c.isSaid() {
		c.value = document.findMember("usage")
		if choices := document.findMember("choices"); choices.kind == isList && len(choices.inner) > 0 {
			final = choices.inner[0].findMember("finish_reason").text != ""
		}
	}
	if c.kind != isObject {
		return usage{}
	}
	input := max(c.readCount("input_tokens"), c.readCount("prompt_tokens"))
	read := min(max(c.readCount("input_tokens_details", "cached_tokens"), c.readCount("prompt_tokens_details", "cached_tokens")), input)
	write := min(max(c.readCount("input_tokens_details", "cache_write_tokens"), c.readCount("prompt_tokens_details", "cache_write_tokens")), input-read)
	return c.usageOf(price.Tokens{
		Input: input - read - write, CacheRead: read, CacheWrite: write, Output: max(c.readCount("output_tokens"), c.readCount("completion_tokens")),
	}, final)
}

func (openAI) refusalBody(_ int, kind, message string) any {
	return map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": kind}}
}
