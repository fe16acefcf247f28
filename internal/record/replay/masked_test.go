package replay

import (
	"runtime"
	"strings"
	"testing"
)

// What a stream spreads over its events is masked as if it stood in one, in the form of each
// of the APIs; what has nothing to hide stays as it is, to the byte.
func TestWhatAStreamSpreadsIsMasked(t *testing.T) {
	mask := strings.NewReplacer("hunter2-secret", "‹secret:0001›").Replace
	for name, tt := range map[string]struct{ stream, want string }{
		"anthropic": {
			"event: d\ndata: {\"type\":\"d\",\"index\":0,\"delta\":{\"type\":\"t\",\"text\":\"it is hun\"}}\n\ndata: {\"type\":\"d\",\"index\":1,\"delta\":{\"text\":\"ter2\"}}\n\ndata: {\"type\":\"d\",\"index\":0,\"delta\":{\"text\":\"ter2-sec\"}}\n\ndata: {\"type\":\"d\",\"index\":0,\"delta\":{\"text\":\"ret now\"}}\n\n",
			"event: d\ndata: {\"delta\":{\"text\":\"it is ‹secret:0001› now\",\"type\":\"t\"},\"index\":0,\"type\":\"d\"}\n\ndata: {\"type\":\"d\",\"index\":1,\"delta\":{\"text\":\"ter2\"}}\n\ndata: {\"delta\":{\"text\":\"\"},\"index\":0,\"type\":\"d\"}\n\ndata: {\"delta\":{\"text\":\"\"},\"index\":0,\"type\":\"d\"}\n\n",
		},
		"a tool's arguments": {
			"data: {\"index\":1,\"delta\":{\"partial_json\":\"{\\\"a\\\":\\\"hunter2\"}}\ndata: {\"index\":1,\"delta\":{\"partial_json\":\"-secret\\\"}\"}}\n",
			"data: {\"delta\":{\"partial_json\":\"{\\\"a\\\":\\\"‹secret:0001›\\\"}\"},\"index\":1}\ndata: {\"delta\":{\"partial_json\":\"\"},\"index\":1}\n",
		},
		"responses": {
			"data: {\"type\":\"r.delta\",\"item_id\":\"i\",\"delta\":\"hunter2\"}\r\n\r\ndata: {\"type\":\"r.delta\",\"item_id\":\"i\",\"delta\":\"-secret\"}\r\n\r\n",
			"data: {\"delta\":\"‹secret:0001›\",\"item_id\":\"i\",\"type\":\"r.delta\"}\r\n\r\ndata: {\"delta\":\"\",\"item_id\":\"i\",\"type\":\"r.delta\"}\r\n\r\n",
		},
		"chat":      {"data: {\"choices\":[{\"delta\":{\"content\":\"hunter2-\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"secret\"}}]}\n\ndata: [DONE]\n\n", "data: {\"choices\":[{\"delta\":{\"content\":\"‹secret:0001›\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\ndata: [DONE]\n\n"},
		"gemini":    {"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hunter2-\"}]}}]}\n\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"secret\"}]}}]}\n", "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"‹secret:0001›\"}]}}]}\n\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}]}}]}\n"},
		"nothing":   {"data: { \"delta\" : \"hunter2\" }\n\ndata: {broken\n", "data: { \"delta\" : \"hunter2\" }\n\ndata: {broken\n"},
		"whole":     {"data: {\"delta\":\"hunter2-secret\"}\n", "data: {\"delta\":\"‹secret:0001›\"}\n"},
		"escaped":   {"data: {\"delta\":\"hunter2\\u002dsecret\"}\ndata: {\"delta\":\"!\"}\n", "data: {\"delta\":\"‹secret:0001›\"}\ndata: {\"delta\":\"!\"}\n"},
		"elsewhere": {"data: {\"id\":\"hunter2-secret\"}\n", "data: {\"id\":\"hunter2-secret\"}\n"}, // the caller's
		"none":      {`{"text":"hunter2"}`, `{"text":"hunter2"}`},
	} {
		if got := string(Masked([]byte(tt.stream), mask)); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

// A stream whose documents are nested below long names takes no more memory than its size
// says: once its places were written out, this one took gigabytes.
func TestLongNamesCostNothing(t *testing.T) {
	name := strings.Repeat("n", 200<<10)
	answer := []byte(`data: {"` + name + `":[` + strings.TrimSuffix(strings.Repeat(`{"text":"a"},`, 4000), ",") + "]}\n")
	var before, after runtime.MemStats
	for what, do := range map[string]func(){
		"masked": func() { Masked(answer, strings.ToUpper) },
		"moved":  func() { movePath(answer, "/from", "/to") },
	} {
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 100<<20 {
			t.Errorf("%s: %d MiB for an answer of %d KiB", what, taken>>20, len(answer)>>10)
		}
	}
}

func FuzzMasked(f *testing.F) {
	f.Add("data: {\"index\":0,\"text\":\"hun\"}\n\ndata: {\"index\":0,\"text\":\"ter2\"}\n")
	f.Fuzz(func(_ *testing.T, answer string) {
		Masked([]byte(answer), strings.NewReplacer("hunter2", "x").Replace)
	})
}
