package replay

import (
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
)

func TestPartsOfATape(t *testing.T) {
	packed := tapeOf(t, asIs, func(r *Recorder) {
		keep(t, r, Name("get", "v1", "Pod", "shop", "cart-1"), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart-1"}}`)
		keep(t, r, Name("list", "Service", "shop", "a=b", "c=d", 500), `{"apiVersion":"v1","kind":"ServiceList","metadata":{},"items":[]}`)
		keep(t, r, Name("list", "Event", "shop", "", "", 500), `{"apiVersion":"v1","kind":"EventList","metadata":{"continue":"x"},"items":[]}`) // cut
		keep(t, r, Name("list", "Secret", "shop", "", "", 500), `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{},"items":[{"kind":"PartialObjectMetadata","metadata":{"name":"key"}}]}`)
		keep(t, r, Name("list", "Pod", "shop", "", "", 500), `{"kind":"Table"}`)
		keep(t, r, Name("logs", "shop", `odd "name" x`, "app", true, 200, 0), "last words\n")
		_ = r.Take(Name("get", "v1", "Pod", "shop", "gone"), new([]byte), func() error { return nightcrier.Errorf(nightcrier.NotFound, "gone") })
		for _, odd := range []string{`"get`, `get v1`, `"logs" "a"`, `"list" "Pod" "\x"`, ``, `"now"`} {
			keep(t, r, odd, `{"apiVersion":"v1","kind":"PodList"}`)
		}
	})
	_, r, err := newWorkspace(t, map[string]string{File(Prepare): string(packed)})
	if err != nil {
		t.Fatal(err)
	}
	got := r.Parts()
	want := []snapshot.Listed{{APIVersion: "v1", Kind: "Secret", Namespace: "shop"}, {APIVersion: "v1", Kind: "Service", Namespace: "shop", Labels: "a=b", Selection: "c=d"}}
	if !slices.Equal(got.Lists, want) {
		t.Errorf("lists %+v, want %+v", got.Lists, want)
	}
	if len(got.Objects) != 4 || !slices.ContainsFunc(got.Objects, func(b []byte) bool { return strings.Contains(string(b), `"kind":"Secret"`) }) {
		t.Errorf("objects %s", got.Objects)
	}
	if len(got.Logs) != 1 || got.Logs[0].Pod != `odd "name" x` || !got.Logs[0].Previous || string(got.Logs[0].Text) != "last words\n" {
		t.Errorf("logs %+v", got.Logs)
	}
}
