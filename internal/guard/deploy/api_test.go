package deploy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authz "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// What an API server answers that is no answer is an error with a code; it leads nowhere else, and
// fills no memory.
func TestAnswersThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		code   nightcrier.Code
		says   string
	}{
		"elsewhere": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, nightcrier.Unreachable, "it answers 307"},
		"too large": {func(w http.ResponseWriter) { _, _ = w.Write(bytes.Repeat([]byte(" "), maxAnswer+1)) }, nightcrier.Exhausted, "larger than"},
		"no JSON":   {func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, nightcrier.Unreachable, "no JSON"},
		"cut short": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "9"); _, _ = w.Write([]byte("{}")) }, nightcrier.Unreachable, "ends early"},
		"forbidden": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"message":"not you"}`))
		}, nightcrier.Refused, "not you"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Error("it was followed")
				}
				c.answer(w)
			}))
			defer server.Close()
			client, err := kube.New(&rest.Config{Host: server.URL}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			obj, err := newAPI(client).get(t.Context(), kinds.MustNamed("ConfigMap"), "apps", "c")
			if obj != nil || nightcrier.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v", obj, err)
			}
		})
	}
}

// A credential of which the cluster does not say what it may do is none for a server that writes.
func TestWhatIsNotAnsweredCountsAsMore(t *testing.T) {
	for silent, want := range map[string]nightcrier.Code{"": "", "namespaces": nightcrier.Refused} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var review authz.SelfSubjectAccessReview
			if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") && json.NewDecoder(r.Body).Decode(&review) == nil && review.Spec.ResourceAttributes.Resource == silent {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = w.Write([]byte(`{"status":{"allowed":false,"resourceRules":[],"nonResourceRules":[],"incomplete":false}}`))
		}))
		client, err := kube.New(&rest.Config{Host: server.URL}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), Config{Policy: Policy{Namespaces: []string{"apps"}}, Cluster: "c", Client: client, Mask: bytes.Clone, Record: func(Write) error { return nil }})
		if nightcrier.CodeOf(err) != want || want != "" && !strings.Contains(err.Error(), "possibly may patch namespaces") {
			t.Errorf("%q: %v", silent, err)
		}
		client.Close()
		server.Close()
	}
}
