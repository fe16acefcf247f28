package api

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocsMatch holds docs/api.md against the routes and the table of codes.
func TestDocsMatch(t *testing.T) {
	file, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(file)
	a := newFake().api(t)
	described := decode(t, ask(a, "GET", path("openapi.json")))["paths"].(map[string]any)
	for p, methods := range described {
		for method := range methods.(map[string]any) {
			if want := "`" + strings.ToUpper(method) + " " + p + "`"; !strings.Contains(doc, want) {
				t.Errorf("docs/api.md lacks %s", want)
			}
		}
	}
	for _, m := range regexp.MustCompile("`(GET|POST) (/api/[^`]+)`").FindAllStringSubmatch(doc, -1) {
		if described[m[2]] == nil {
			t.Errorf("docs/api.md has %s, which is not served", m[2])
		}
	}
	for code, status := range statusOf {
		if !regexp.MustCompile(fmt.Sprintf("`%s` \\| %d", code, status)).MatchString(doc) {
			t.Errorf("docs/api.md lacks %s → %d", code, status)
		}
	}
}
