package scenetest

import (
	"encoding/json"
	"fmt"
	"time"
)

// MetricAnswer is what Prometheus answers for one series.
func MetricAnswer(values ...string) []byte {
	points := make([][]any, len(values))
	for i, v := range values {
		points[i] = []any{Now.Add(time.Duration(i-len(values)) * 15 * time.Second).Unix(), v}
	}
	body, err := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": []any{map[string]any{"metric": map[string]any{}, "values": points}}}})
	if err != nil {
		panic(err)
	}
	return body
}

// LogAnswer is what Loki answers, the newest first, as it does.
func LogAnswer(texts ...string) []byte {
	values := [][]string{}
	for i, text := range texts {
		values = append([][]string{{fmt.Sprint(Now.UnixNano() + int64(i)), text}}, values...)
	}
	body, err := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "streams", "result": []any{map[string]any{"stream": map[string]any{}, "values": values}}}})
	if err != nil {
		panic(err)
	}
	return body
}
