package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// gemini is Google's generateContent API.
type gemini struct{}

func (gemini) vendorURL() string { return "https://generativelanguage.googleapis.com" }

func (g gemini) protocolAt(string) protocol { return g }

func (gemini) modelListing() (string, http.Header) { return "/v1beta/models?pageSize=1", nil }

// keyRefused: a key that is none is called a bad request.
func (gemini) keyRefused(status int) bool {
	return isKeyDenied(status) || status == http.StatusBadRequest
}

// givenToken: clients put the key into a header, or into the query.
func (gemini) givenToken(h http.Header, q url.Values) string {
	if key := h.Get("X-Goog-Api-Key"); key != "" {
		return key
	}
	return q.Get("key")
}

func (gemini) setKeyHeader(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) }

// geminiCall is a method of a model; all other resources (files, caches, batches,
// tuned models, operations) stay out of reach.
var geminiCall = regexp.MustCompile(`^/v1(?:beta)?/models/[A-Za-z0-9][A-Za-z0-9._-]*:(generateContent|streamGenerateContent|countTokens)$`)

func (gemini) mayForward(method, path string) bool {
	return method == http.MethodPost && geminiCall.MatchString(path)
}

func (gemini) isBilled(path string) bool { return !strings.HasSuffix(path, ":countTokens") }

func (gemini) forwardedHeaders(all http.Header) (http.Header, []string) {
	return pickHeaders(all, "Accept", "User-Agent", "X-Goog-Api-Client"), nil
}

func (gemini) forwardedQuery(q url.Values) url.Values {
	if q.Get("alt") == "sse" {
		return url.Values{"alt": {"sse"}}
	}
	return nil
}

// What a request may hold, at each place. Lists of what is known to be harmless,
// because what the provider offers to do for its callers grows: search, code,
// fetched URLs, stored files and caches. Names are compared without underscores
// and case: the API reads both function_declarations and functionDeclarations.
var (
	geminiFields   = []string{"contents", "generationconfig", "model", "safetysettings", "systeminstruction", "toolconfig", "tools"}
	geminiCounted  = append([]string{"generatecontentrequest"}, geminiFields...)
	geminiTools    = []string{"functiondeclarations"}
	geminiToolConf = []string{"functioncallingconfig"}
	// geminiConfig are the settings that change how the model answers; gateways know others,
	// by which they choose another model, keep something or call elsewhere.
	geminiConfig = []string{
		"candidatecount", "frequencypenalty", "logprobs", "maxoutputtokens", "mediaresolution", "presencepenalty", "responsejsonschema",
		"responselogprobs", "responsemimetype", "responsemodalities", "responseschema", "seed", "stopsequences", "temperature",
		"thinkingconfig", "topk", "topp",
	}
	geminiThinking = []string{"includethoughts", "thinkingbudget", "thinkinglevel"}
	geminiContent  = []string{"parts", "role"}
	geminiResult   = []string{"id", "name", "parts", "response", "scheduling", "willcontinue"} // of a tool
	geminiBlob     = []string{"data", "displayname", "mimetype"}
	geminiParts    = []string{"functioncall", "functionresponse", "inlinedata", "text", "thought", "thoughtsignature"}
)

func (gemini) inspectRequest(path string, request map[string]any) error {
	allowed := geminiFields
	if strings.HasSuffix(path, ":countTokens") {
		allowed = geminiCounted
	}
	return inspectGemini(modelIn(path), request, allowed)
}

func inspectGemini(model string, request map[string]any, allowed []string) error {
	if err := onlyNames("the request", request, allowed); err != nil {
		return err
	}
	for name, v := range request {
		if err := inspectGeminiField(model, plainName(name), v); err != nil {
			return err
		}
	}
	return nil
}

func inspectGeminiField(model, name string, v any) error {
	switch name {
	case "model":
		if !oneOf(v, model, "models/"+model) {
			return fmt.Errorf("the model %.64q is not the one that the path asks", fmt.Sprint(v))
		}
	case "contents":
		return eachOf(name, v, func(content any) error { return inspectContent("a content", content, geminiContent) })
	case "systeminstruction":
		return inspectContent(name, v, geminiContent)
	case "tools":
		if _, one := v.(map[string]any); one {
			v = []any{v} // the API takes a tool for a list of one
		}
		return eachOf(name, v, func(tool any) error { return onlyNames("a tool", tool, geminiTools) })
	case "generationconfig":
		return inspectGeneration(v)
	case "toolconfig":
		return onlyNames(name, v, geminiToolConf)
	case "generatecontentrequest":
		inner, _ := v.(map[string]any) // of another shape it holds nothing
		return inspectGemini(model, inner, geminiFields)
	}
	return nil
}

// inspectGeneration refuses more answers than one, answers that are no text, and settings
// that are not known.
func inspectGeneration(v any) error {
	if err := onlyNames("generationConfig", v, geminiConfig); err != nil {
		return err
	}
	config, _ := v.(map[string]any) // onlyNames let nothing else pass but null
	for name, value := range config {
		switch plainName(name) {
		case "candidatecount":
			if !isSingleAnswer(value) {
				return errors.New("candidateCount is not 1: each answer is paid")
			}
		case "thinkingconfig":
			if err := onlyNames(name, value, geminiThinking); err != nil {
				return err
			}
		case "responsemodalities":
			if err := eachOf(name, value, onlyText); err != nil {
				return err
			}
		}
	}
	return nil
}

func onlyText(modality any) error {
	if word, _ := modality.(string); !strings.EqualFold(word, "text") {
		return fmt.Errorf("answers as %.64q are not forwarded: text is enough", fmt.Sprint(modality))
	}
	return nil
}

// inspectContent checks what one side said. A tool's answer can hold parts again.
func inspectContent(place string, v any, allowed []string) error {
	if err := onlyNames(place, v, allowed); err != nil {
		return err
	}
	content, _ := v.(map[string]any) // onlyNames let nothing else pass but null
	for name, parts := range content {
		if plainName(name) == "parts" {
			if err := eachOf(name, parts, inspectPart); err != nil {
				return err
			}
		}
	}
	return nil
}

func inspectPart(v any) error {
	if err := onlyNames("a part", v, geminiParts); err != nil {
		return err
	}
	part, _ := v.(map[string]any) // onlyNames let nothing else pass
	for name, v := range part {
		var err error
		switch plainName(name) {
		case "functionresponse":
			err = inspectContent("a tool's result", v, geminiResult)
		case "inlinedata":
			err = onlyPicture(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onlyPicture refuses what is inline and of another kind: a page or a second of it
// costs much more than its bytes.
func onlyPicture(v any) error {
	if err := onlyNames("inline data", v, geminiBlob); err != nil {
		return err
	}
	blob, _ := v.(map[string]any) // onlyNames let nothing else pass but null
	typed := false
	for name, kind := range blob {
		if word, _ := kind.(string); plainName(name) == "mimetype" && !strings.HasPrefix(word, "image/") {
			return fmt.Errorf("inline data of type %.64q is not forwarded: what it costs cannot be told from its size", fmt.Sprint(kind))
		}
		typed = typed || plainName(name) == "mimetype"
	}
	if blob["data"] != nil && !typed {
		return errors.New("inline data of no type is not forwarded: what it costs cannot be told from its size")
	}
	return nil
}

// onlyNames refuses an object that holds more than is allowed in its place, or one name
// in two spellings: readers differ in which of them they believe.
func onlyNames(place string, v any, allowed []string) error {
	if v == nil {
		return nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not an object", place)
	}
	spelled := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(allowed, plainName(name)) {
			return fmt.Errorf("%s with %.64q is not forwarded: it may run or be fetched at the provider", place, name)
		}
		if spelled[plainName(name)] {
			return fmt.Errorf("%s with two spellings of %.64q is not forwarded: which one is believed is open", place, name)
		}
		spelled[plainName(name)] = true
	}
	return nil
}

func plainName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

func (gemini) amendRequest(string, *document) {}

func (gemini) lengthFields(string) []string {
	return []string{"generationConfig.maxOutputTokens"}
}

func (gemini) thinkingField() string { return "generationConfig.thinkingConfig.thinkingBudget" }

// geminiAnswer is the part of an answer that tells what it cost. The thoughts of a
// model are paid as output and are not among its candidates' tokens; what was cached is
// part of the prompt.
type geminiAnswer struct {
	Usage *struct {
		Prompt     int64 `json:"promptTokenCount"`
		ToolPrompt int64 `json:"toolUsePromptTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
	Candidates []struct {
		Finish string `json:"finishReason"`
	} `json:"candidates"`
	Feedback struct {
		Block string `json:"blockReason"`
	} `json:"promptFeedback"`
}

func (a geminiAnswer) usage() usage {
	if a.Usage == nil {
		return usage{}
	}
	u := *a.Usage
	read := min(u.Cached, u.Prompt)
	ended := a.Feedback.Block != "" || len(a.Candidates) > 0 && a.Candidates[0].Finish != ""
	return usage{said: true, final: ended, tokens: price.Tokens{Input: u.Prompt - read + u.ToolPrompt, CacheRead: read, Output: u.Candidates + u.Thoughts}}
}

// readUsage: each event of a stream has the totals so far, the last one says why the model
// stopped. A stream that was not asked for as events is one list of them.
func (gemini) readUsage(document json.RawMessage) usage {
	if !bytes.Contains(document, []byte(`"usageMetadata"`)) {
		return usage{}
	}
	answers := make([]geminiAnswer, 1)
	if json.Unmarshal(document, &answers[0]) != nil && json.Unmarshal(document, &answers) != nil {
		return usage{}
	}
	var all usage
	for _, a := range answers {
		u := a.usage()
		all = usage{tokens: all.tokens.Grown(u.tokens), said: all.said || u.said, final: all.final || u.final}
	}
	return all
}

// endsBrokenStreams: the CLI asks again where a stream lacks its last event, and takes a
// broken connection for the end of its work.
func (gemini) endsBrokenStreams() bool { return true }

// geminiStatus are the names that Google's errors have beside their number.
var geminiStatus = map[int]string{
	http.StatusUnauthorized:          "UNAUTHENTICATED",
	http.StatusForbidden:             "PERMISSION_DENIED",
	http.StatusRequestEntityTooLarge: "INVALID_ARGUMENT",
	http.StatusTooManyRequests:       "RESOURCE_EXHAUSTED",
	http.StatusBadGateway:            "UNAVAILABLE",
}

func (gemini) refusalBody(status int, kind, message string) any {
	name := geminiStatus[status]
	if name == "" {
		name = strings.ToUpper(kind)
	}
	return map[string]any{"error": map[string]any{"code": status, "message": message, "status": name}}
}
