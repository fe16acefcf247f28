package changes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func decoded(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func whole(s string, limit int) string { return s[:min(len(s), limit)] }

func TestBetween(t *testing.T) {
	const before = `{"metadata":{"labels":{"app":"cart","pod-template-hash":"a"}},"spec":{"containers":[{"name":"app","image":"cart:1","env":[{"name":"PORT","value":"80"}],"resources":{"limits":{"memory":"64Mi"}}}]}}`
	cases := []struct {
		name, after string
		want        []string
	}{
		{"nothing but the hash", strings.Replace(before, `"a"`, `"b"`, 1), nil},
		{"an image", strings.Replace(before, "cart:1", "cart:2", 1), []string{`container app image changed from "cart:1" to "cart:2"`}},
		{"a variable", strings.Replace(before, `"80"`, `"8080"`, 1), []string{`container app variable PORT changed from "80" to "8080"`}},
		{"a limit goes", strings.Replace(before, `"memory":"64Mi"`, ``, 1), []string{`container app resources.limits.memory removed (was "64Mi")`}},
		{
			"a sidecar before it shifts nothing",
			strings.Replace(before, `[{"name":"app"`, `[{"name":"proxy","image":"proxy:1"},{"name":"app"`, 1),
			[]string{`container proxy image added: "proxy:1"`, `container proxy name added: "proxy"`},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := Between(decoded(t, before), decoded(t, c.after), whole); !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

// What stands in an object is cut and cleaned before it is shown.
func TestBetweenCleansBothNamesAndValues(t *testing.T) {
	var limits []int
	clean := func(s string, limit int) string {
		limits = append(limits, limit)
		return strings.ToUpper(whole(s, limit))
	}
	key := strings.Repeat("k", 5000)
	got := Between(nil, decoded(t, `{"metadata":{"annotations":{"`+key+`":"v"}}}`), clean)
	if len(got) != 1 || len(got[0]) > 600 || !strings.HasSuffix(got[0], `added: "V"`) || len(limits) != 2 {
		t.Errorf("got %q, limits %v", got, limits)
	}
}

func BenchmarkBetween(b *testing.B) {
	template := func(image string) any {
		var containers []string
		for i := range 5 {
			containers = append(containers, fmt.Sprintf(`{"name":"c%d","image":%q,"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]}`, i, image))
		}
		return decoded(b, `{"spec":{"containers":[`+strings.Join(containers, ",")+`]}}`)
	}
	from, to := template("a:1"), template("a:2")
	for b.Loop() {
		if len(Between(from, to, whole)) != 5 {
			b.Fatal("wrong")
		}
	}
}
