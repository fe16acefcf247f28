package api

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/agent"
)

// Who may investigate again is whoever can investigate.
func TestRetryTakesEveryExecutor(t *testing.T) {
	field, _ := reflect.TypeFor[retryQuery]().FieldByName("Executor")
	listed := strings.Split(field.Tag.Get("enum"), ",")
	want := []string{"builtin", "script"}
	for _, e := range agent.Executors() {
		if e.Command != "" || e.Loop && !e.SingleCall {
			want = append(want, e.Name)
		}
	}
	slices.Sort(want)
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		t.Errorf("the API takes %q, want %q", listed, want)
	}
}
