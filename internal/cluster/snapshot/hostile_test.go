package snapshot_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
)

const onePod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop"},"spec":{"containers":[{"name":"app"}]}}` + "\n"

// A few lines of YAML that stand for gigabytes are left out before they are taken
// apart, and the rest of the snapshot is read.
func TestYAMLThatGrowsIsLeftOut(t *testing.T) {
	bomb := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb, namespace: shop}\ndata:\n  a: &a " + strings.Repeat("x", 100<<10) + "\n" + strings.Repeat("  b: [*a]\n", 10_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := snapshot.Read(fstest.MapFS{"bomb.yaml": {Data: []byte(bomb)}, "pods.json": {Data: []byte(onePod)}})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
		t.Errorf("%d MiB were used", took)
	}
	if objects, _ := s.Count(); objects != 2 || len(s.NotCaptured) != 1 || !strings.Contains(s.NotCaptured[0].Why, "aliases") { // the Pod and its namespace
		t.Errorf("%d objects, %v", objects, s.NotCaptured)
	}
	plain := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {crontab: '* * * * * a && b', q: \"a&b*c\"}\n"
	if s, err = snapshot.Read(fstest.MapFS{"c.yaml": {Data: []byte(plain)}}); err != nil || len(s.NotCaptured) > 0 {
		t.Errorf("text with & and *: %v %v", err, s)
	}
}

// Each of these is read in steps that grow with what it holds. One whose square
// counts would end the tests here.
func TestManyOfEverything(t *testing.T) {
	var kinds, namesakes strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&kinds, `{"apiVersion":"g%d.x/v1","kind":"K","metadata":{"name":"a"}}`+"\n", i)
	}
	for i := range 30_000 {
		fmt.Fprintf(&namesakes, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n%d"},"spec":{"containers":[{"name":"app"}]}}`+"\n", i)
	}
	fsys := fstest.MapFS{"kinds.json": {Data: []byte(onePod + kinds.String())}, "pods.json": {Data: []byte(namesakes.String())}}
	for i := range 10_000 {
		fsys[fmt.Sprintf("p_x%d.log", i)] = &fstest.MapFile{Data: []byte("x\n")}
	}
	fsys["n29999_p_app.log"] = &fstest.MapFile{Data: []byte("found\n")}
	s, err := snapshot.Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if objects, logs := s.Count(); objects < 30_000 || objects > 65_000 || logs != 1 || len(s.NotCaptured) > 200 {
		t.Errorf("%d objects, %d logs, %d notes", objects, logs, len(s.NotCaptured))
	}
}
