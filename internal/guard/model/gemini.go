package model

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// gemini is Google's generateContent API.
type gemini struct{}

// All resources but models (files, caches, batches, tuned models, operations) stay out of reach.
const geminiModel = `^/v1(?:beta)?/models/[A-Za-z0-9][A-Za-z0-9._-]*:`

var geminiFacts = facts{
	vendorURL: "https://generativelanguage.googleapis.com",
	calls: []apiCall{
		{
			pattern: regexp.MustCompile(geminiModel + `(generateContent|streamGenerateContent)$`), billed: true, apartFields: []string{"systeminstruction"}, historyField: "contents",
			lengthFields: []string{"generationConfig.maxOutputTokens"}, thinkingField: "generationConfig.thinkingConfig.thinkingBudget",
		},
		{pattern: regexp.MustCompile(geminiModel + `countTokens$`), apartFields: []string{"systeminstruction"}, historyField: "contents"},
	},
	listing: "/v1beta/models?pageSize=1", keyDenied: []int{http.StatusBadRequest}, // a key that is none is called a bad request
	tokenHeaders: []string{"X-Goog-Api-Key"}, tokenQuery: "key", keyHeader: "X-Goog-Api-Key", // clients put the key into a header, or into the query
	headers: []string{"X-Goog-Api-Client"}, query: map[string]string{"alt": "sse"},
	usageName: `"usageMetadata"`,
	// The CLI asks again where a stream lacks its last event, and takes a broken connection
	// for the end of its work.
	endsBrokenStreams: true,
	sealed: append(sealNames("id", "name", "role", "model", "mimeType", "mime_type", "thoughtSignature", "thought_signature"),
		seal{member: "data", beside: "mimeType"}, seal{member: "data", beside: "mime_type"}, seal{member: "text", beside: "thought", says: "true"}), // thoughts are signed
	arguments: []string{"args"}, results: []string{"response"},
}

func (gemini) factsAt(string) facts { return geminiFacts }

func (gemini) inspectRequest(path string, request value) error {
	if strings.HasSuffix(path, ":countTokens") {
		return geminiCounted.checkObjectIn("the request")(request)
	}
	return geminiRequest.checkObjectIn("the request")(request)
}

// What a request may hold, at each place. Lists of what is known to be harmless,
// because what the provider offers to do for its callers grows: search, code,
// fetched URLs, stored files and caches. The API reads both function_declarations and
// functionDeclarations.
var (
	geminiRequest = looseForm{
		"contents": listOf("contents", geminiContent.checkObjectIn("a content")), "generationconfig": geminiConfig.checkObjectIn("generationConfig"), "model": checkPlainValue,
		"safetysettings": allowAnything, "systeminstruction": geminiContent.checkObjectIn("systemInstruction"), "toolconfig": looseForm{"functioncallingconfig": allowAnything}.checkObjectIn("toolConfig"), "tools": checkGeminiTools,
	}
	geminiCounted = func() looseForm {
		f := looseForm{"generatecontentrequest": geminiRequest.checkObjectIn("generateContentRequest")}
		maps.Copy(f, geminiRequest)
		return f
	}()
	// geminiConfig are the settings that change how the model answers; gateways know others,
	// by which they choose another model, keep something or call elsewhere.
	geminiConfig = looseForm{
		"candidatecount": checkSingleAnswer, "frequencypenalty": allowAnything, "logprobs": allowAnything, "maxoutputtokens": allowAnything, "mediaresolution": allowAnything, "presencepenalty": allowAnything,
		"responsejsonschema": allowAnything, "responselogprobs": allowAnything, "responsemimetype": allowAnything, "responsemodalities": listOf("responseModalities", checkTextAnswer), "responseschema": allowAnything,
		"seed": allowAnything, "stopsequences": allowAnything, "temperature": allowAnything, "topk": allowAnything, "topp": allowAnything,
		"thinkingconfig": looseForm{"includethoughts": allowAnything, "thinkingbudget": allowAnything, "thinkinglevel": allowAnything}.checkObjectIn("thinkingConfig"),
	}
	geminiTool    = looseForm{"functiondeclarations": allowAnything}.checkObjectIn("a tool")
	geminiContent = looseForm{"parts": listOf("parts", looseForm{
		"functioncall": allowAnything, "functionresponse": geminiResult.checkObjectIn("a tool's result"), "inlinedata": checkGeminiPicture, "text": allowAnything, "thought": allowAnything, "thoughtsignature": allowAnything,
	}.checkObjectIn("a part")), "role": allowAnything}
	// geminiResult is what a tool returned, which can hold pictures beside its words.
	geminiResult = looseForm{"id": allowAnything, "name": allowAnything, "response": allowAnything, "scheduling": allowAnything, "willcontinue": allowAnything, "parts": listOf("parts", looseForm{
		"inlinedata": checkGeminiPicture, "text": allowAnything,
	}.checkObjectIn("a part of a tool's result"))}
	geminiBlob = looseForm{"data": allowAnything, "displayname": allowAnything, "mimetype": checkPictureType}.checkObjectIn("inline data")
)

// checkGeminiTools: the API takes a tool for a list of one.
func checkGeminiTools(v value) error {
	if v.kind == isObject {
		return geminiTool(v)
	}
	return listOf("tools", geminiTool)(v)
}

func checkTextAnswer(modality value) error {
	if modality.kind != isText || !strings.EqualFold(modality.text, "text") {
		return fmt.Errorf("answers as %.64q are not forwarded: text is enough", modality.String())
	}
	return nil
}

// checkGeminiPicture refuses what is inline and of another kind, or of none: a page or a second of
// it costs much more than its bytes.
func checkGeminiPicture(v value) error {
	if err := geminiBlob(v); err != nil {
		return err
	}
	if v.findMember("data").isSaid() && !v.findMember("mimeType").isSaid() && !v.findMember("mime_type").isSaid() {
		return errors.New("inline data of no type is not forwarded: what it costs cannot be told from its size")
	}
	return nil
}

func checkPictureType(v value) error {
	if v.kind != isText || !strings.HasPrefix(v.text, "image/") {
		return fmt.Errorf("inline data of type %.64q is not forwarded: what it costs cannot be told from its size", v.String())
	}
	return nil
}

func (gemini) leavesOut(value) bool { return false }

// readUsage: each event of a stream has the totals so far, the last one says why the model
// stopped. A stream that was not asked for as events is one list of them.
func (gemini) readUsage(document value) usage {
	if document.kind != isList {
		return readGeminiUsage(document)
	}
	var all usage
	for _, event := range document.inner {
		u := readGeminiUsage(event)
		all = usage{tokens: all.tokens.Grown(u.tokens), said: all.said || u.said, final: all.final || u.final}
	}
	return all
}

// readGeminiUsage: the thoughts of a model are paid as output and are not among its
// candidates' tokens; what was cached is part of the prompt.
func readGeminiUsage(event value) usage {
	c := counts{value: event.findMember("usageMetadata")}
	if c.kind != isObject {
		return usage{}
	}
	ended := event.findMember("promptFeedback").findMember("blockReason").text != ""
	if candidates := event.findMember("candidates"); candidates.kind == isList && len(candidates.inner) > 0 {
		ended = ended || candidates.inner[0].findMember("finishReason").text != ""
	}
	prompt := c.readCount("promptTokenCount")
	read := min(c.readCount("cachedContentTokenCount"), prompt)
	return c.usageOf(price.Tokens{
		Input: prompt - read + c.readCount("toolUsePromptTokenCount"), CacheRead: read, Output: c.readCount("candidatesTokenCount") + c.readCount("thoughtsTokenCount"),
	}, ended)
}

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
