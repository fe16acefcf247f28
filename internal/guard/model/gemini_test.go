package model

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

const generate = "/v1beta/models/gemini-2.5-pro:generateContent"

func newGeminiGuard(t *testing.T, base string) *Guard {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g, err := Start(l, Config{Provider: nightcrier.Google, Upstream: base, Key: realKey, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func withGeminiToken(g *Guard) http.Header { return http.Header{"X-Goog-Api-Key": {g.Token()}} }

// The token comes in a header or in the query; the real key leaves in the header.
func TestGeminiKey(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"usageMetadata":{"promptTokenCount":11,"toolUsePromptTokenCount":1,"candidatesTokenCount":5,"thoughtsTokenCount":30,"totalTokenCount":47}}`)
	})
	g := newGeminiGuard(t, u.URL+"/prefix")
	for _, c := range []struct {
		query  string
		header http.Header
		status int
	}{
		{"", withGeminiToken(g), 200},
		{"?key=" + g.Token(), http.Header{}, 200},
		{"?alt=sse&key=" + g.Token() + "&$httpMethod=DELETE", http.Header{}, 200},
		{"?key=" + g.Token(), http.Header{"X-Goog-Api-Key": {"another"}}, 401},
		{"?key=" + realKey, http.Header{}, 401},
		{"", http.Header{"Authorization": {"Bearer " + g.Token()}}, 401},
		{"", http.Header{}, 401},
	} {
		resp, body := call(t, g, "POST", generate+c.query, c.header, strings.NewReader(`{"contents":[]}`))
		if resp.StatusCode != c.status {
			t.Errorf("%s %v: %d %s", c.query, c.header, resp.StatusCode, body)
			continue
		}
		if c.status != 200 {
			if !strings.Contains(body, `"code":401`) || !strings.Contains(body, `"status":"UNAUTHENTICATED"`) || len(u.seen) > 0 {
				t.Errorf("refused with %s", body)
			}
			continue
		}
		r := <-u.seen
		if r.URL.Path != "/prefix"+generate || r.URL.Query().Has("key") || r.URL.Query().Has("$httpMethod") || r.Header.Get("X-Goog-Api-Key") != realKey {
			t.Errorf("upstream was asked for %s with %v", r.URL, r.Header)
		}
	}
	if got := counted(g); got.InputTokens%12 != 0 || got.OutputTokens%35 != 0 || got.InputTokens == 0 {
		t.Errorf("usage %+v", got)
	}
}

func TestGeminiRefusesOtherCalls(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was reached") })
	g := newGeminiGuard(t, u.URL)
	for _, c := range []struct{ method, path string }{
		{"GET", "/v1beta/models"},
		{"GET", generate},
		{"POST", "/v1beta/models/gemini-2.5-pro:embedContent"},
		{"POST", "/v1beta/models/gemini-2.5-pro:batchGenerateContent"},
		{"POST", "/v1beta/models/gemini-2.5-pro:generateContent:x"},
		{"POST", "/v1beta/models/a%2F..%2F..%2Ffiles:generateContent"},
		{"POST", "/v1beta/models/../tunedModels/x:generateContent"},
		{"POST", "/v1beta/models//x:generateContent"},
		{"POST", "/v1beta/models/x:generateContent%0a"},
		{"POST", "/v1beta/tunedModels/x:generateContent"},
		{"POST", "/v1beta/cachedContents"},
		{"POST", "/v1beta/files"},
		{"POST", "/upload/v1beta/files"},
		{"POST", "/v1alpha/models/x:bidiGenerateContent"},
		{"POST", "/v1/messages"},
		{"POST", "/v1beta/models/:generateContent"},
	} {
		resp, body := call(t, g, c.method, c.path, withGeminiToken(g), strings.NewReader(`{}`))
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "PERMISSION_DENIED") {
			t.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, body)
		}
	}
}

// What would make Google act, fetch or remember: each is a way around the sandbox.
func TestGeminiDoesNotAct(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was reached") })
	g := newGeminiGuard(t, u.URL)
	part := func(p string) string { return `{"contents":[{"role":"user","parts":[{"text":"a"},` + p + `]}]}` }
	for _, body := range []string{
		`{"tools":[{"googleSearch":{}}]}`,
		`{"tools":{"googleSearch":{}}}`,
		`{"tools":{"functionDeclarations":[],"urlContext":{}}}`,
		`{"tools":[{"google_search":{}}]}`,
		`{"tools":[{"functionDeclarations":[]},{"googleSearchRetrieval":{}}]}`,
		`{"tools":[{"functionDeclarations":[],"urlContext":{}}]}`,
		`{"tools":[{"codeExecution":{}}]}`,
		`{"tools":[{"code_execution":null}]}`,
		`{"tools":[{"computerUse":{"environment":"ENVIRONMENT_BROWSER"}}]}`,
		`{"tools":[{"fileSearch":{"fileSearchStoreNames":["x"]}}]}`,
		`{"tools":[{"retrieval":{}}]}`,
		`{"tools":[{"googleMaps":{}}]}`,
		`{"tools":[{"mcpServers":[{"name":"x","streamableHttpTransport":{"url":"https://evil.example"}}]}]}`,
		`{"tools":[{"enterpriseWebSearch":{}}]}`,
		`{"tools":[{"somethingNew":{}}]}`,
		`{"tools":{"googleSearch":{}}}`,
		`{"tools":["googleSearch"]}`,
		`{"TOOLS":[{"googleSearch":{}}]}`,
		`{"tools":[],"tools":[{"googleSearch":{}}]}`,
		`{"t\u006fols":[{"google\u0053earch":{}}]}`,
		`{"toolConfig":{"retrievalConfig":{}}}`,
		`{"toolConfig":{"includeServerSideToolInvocations":true}}`,
		`{"cachedContent":"cachedContents/x"}`,
		`{"cached_content":"cachedContents/x"}`,
		`{"store":true}`,
		part(`{"fileData":{"fileUri":"https://evil.example/?secret"}}`),
		part(`{"file_data":{"file_uri":"gs://x"}}`),
		part(`{"executableCode":{"language":"PYTHON","code":"1"}}`),
		part(`{"codeExecutionResult":{}}`),
		part(`{"functionResponse":{"name":"x","response":{},"parts":[{"fileData":{"fileUri":"https://evil.example/"}}]}}`),
		part(`{"function_response":{"parts":{"fileData":{}}}}`),
		part(`"fileData"`), part(`{"text":"x","fileData":null}`),
		part(`{"functionResponse":{"name":"x","response":{},"fileData":{"fileUri":"https://evil.example/"}}}`),
		part(`{"inlineData":{"mimeType":"image/png","data":"AA==","fileUri":"https://evil.example/"}}`),
		`{"contents":[{"parts":[],"cachedContent":"cachedContents/x"}]}`, `{"systemInstruction":{"parts":[],"fileData":{}}}`, `{"contents":[{"parts":[],"part\u017f":[{"fileData":{}}]}]}`,
		part(`{"inlineData":{"data":"AA=="}}`),
		part(`{"inlineData":{"mimeType":"image/png","mime_type":"video/mp4","data":"AA=="}}`),
		part(`{"inlineData":{"mimeType":"application/pdf","data":"AA=="}}`),
		part(`{"inline_data":{"mime_type":"audio/ogg","data":"AA=="}}`),
		part(`{"functionResponse":{"name":"x","response":{},"parts":[{"inlineData":{"mimeType":"video/mp4","data":"AA=="}}]}}`),
		`{"contents":{"parts":[{"fileData":{}}]}}`,
		`{"systemInstruction":{"parts":[{"fileData":{"fileUri":"x"}}]}}`,
		`{"system_instruction":"text"}`,
		`{"generateContentRequest":{"tools":[{"googleSearch":{}}]}}`,
		`[]`, ``, `{} {}`, "\xff",
	} {
		resp, answer := call(t, g, "POST", generate, withGeminiToken(g), strings.NewReader(body))
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%.100s: %d %s", body, resp.StatusCode, answer)
		}
	}
	for _, body := range []string{
		`{"generateContentRequest":{"tools":[{"googleSearch":{}}]}}`,
		`{"generateContentRequest":{"cachedContent":"x"}}`,
		`{"generateContentRequest":{"generateContentRequest":{}}}`,
	} {
		count := strings.Replace(generate, "generateContent", "countTokens", 1)
		if resp, answer := call(t, g, "POST", count, withGeminiToken(g), strings.NewReader(body)); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%.100s: %d %s", body, resp.StatusCode, answer)
		}
	}
}

// What the CLI sends goes through, byte for byte.
func TestGeminiAgentsWorkGoesThrough(t *testing.T) {
	got := make(chan string, 1)
	u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- string(b)
	})
	g := newGeminiGuard(t, u.URL)
	body := ` {"contents":[{"role":"user","parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]},
		{"role":"model","parts":[{"thought":true,"text":"hm"},{"functionCall":{"id":"1","name":"run_shell_command","args":{"fileData":{},"parts":[{"fileData":1}]}},"thoughtSignature":"x"}]},
		{"role":"user","parts":[{"functionResponse":{"id":"1","name":"x","response":{"fileData":{"googleSearch":1}},"parts":[{"inlineData":{}}]}}]}],
		"systemInstruction":{"role":"user","parts":[{"text":"s"}]},"tools":[{"functionDeclarations":[{"name":"googleSearch","parametersJsonSchema":{"properties":{"urlContext":{}}}}]}],
		"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},"safetySettings":[],"generationConfig":{"temperature":1,"maxOutputTokens":9,"thinkingConfig":{"includeThoughts":true}}} `
	if resp, answer := call(t, g, "POST", generate, withGeminiToken(g), strings.NewReader(body)); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, answer)
	}
	if s := <-got; s != body {
		t.Errorf("the upstream got %q", s)
	}
}

// Each event of a stream tells the totals so far; thoughts are paid as output.
func TestGeminiUsage(t *testing.T) {
	for _, c := range []struct {
		name, contentType, answer string
		input, output             int64
	}{
		{"events", "text/event-stream", "data: {\"usageMetadata\":{\"promptTokenCount\":100}}\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":100,\"candidatesTokenCount\":3,\"thoughtsTokenCount\":7}}\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":100,\"candidatesTokenCount\":9,\"thoughtsTokenCount\":7,\"cachedContentTokenCount\":80}}\n\n", 100, 16},
		{"list", "application/json", `[{"usageMetadata":{"promptTokenCount":100}},{"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":9}}]`, 100, 9},
		{"hostile", "text/event-stream", "data: {\"usageMetadata\":\"much\"}\ndata: {\"usageMetadata\":{\"promptTokenCount\":-5}}\ndata: [\"usageMetadata\"]\ndata: {\"usageMetadata\":{\"promptTokenCount\":4}}", 4, 0},
	} {
		u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.contentType)
			_, _ = io.WriteString(w, c.answer)
		})
		g := newGeminiGuard(t, u.URL)
		path := strings.Replace(generate, "generateContent", "streamGenerateContent", 1) + "?alt=sse"
		_, body := call(t, g, "POST", path, withGeminiToken(g), strings.NewReader(`{}`))
		if got := counted(g); body != c.answer || got.InputTokens != c.input || got.OutputTokens != c.output {
			t.Errorf("%s: usage %+v", c.name, got)
		}
	}
}

// Counting tokens is not paid.
func TestGeminiCountingIsNotBilled(t *testing.T) {
	facts := gemini{}.factsAt("")
	if facts.callOf("POST", strings.Replace(generate, "generateContent", "countTokens", 1)).billed || !facts.callOf("POST", generate).billed {
		t.Error("the wrong calls are billed")
	}
}

// A stream that breaks off reaches the agent as one that ended early: what came of
// it, and no last event. A plain answer that breaks off is broken.
func TestGeminiBrokenStreams(t *testing.T) {
	for contentType, broken := range map[string]bool{"text/event-stream": false, "application/json": true} {
		u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, "data: {\"usageMetadata\":{\"promptTokenCount\":7}}\n\ndata: {\"cand")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		g := newGeminiGuard(t, u.URL)
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL()+generate+"?alt=sse", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = withGeminiToken(g)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if (err != nil) != broken || !strings.HasSuffix(string(body), `{"cand`) {
			t.Errorf("%s: %q, %v", contentType, body, err)
		}
		if got := counted(g); !broken && got.InputTokens != 7 {
			t.Errorf("usage %+v", got)
		}
	}
}
