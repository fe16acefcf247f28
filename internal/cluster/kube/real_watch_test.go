package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// A real server pages a list, goes on where it ended, tells what happens after
// it, and says what is not there and not for us.
func TestFollowingARealServer(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	for i := range kube.MaxItems + 7 { // more than one page
		s.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("c-%04d", i)}})
	}
	c := dial(t, s.ReadOnly(t))
	seen := map[string]bool{}
	name := func(object []byte) string {
		var o corev1.ConfigMap
		if err := json.Unmarshal(object, &o); err != nil {
			t.Fatal(err)
		}
		return o.Name
	}
	maps := kube.Selection{Kind: "ConfigMap", Namespace: ns}
	version, err := c.ListEach(t.Context(), maps, func(object []byte) error {
		seen[name(object)] = true
		return nil
	})
	if err != nil || len(seen) != kube.MaxItems+7 || version == "" {
		t.Fatalf("%d objects, version %q, %v", len(seen), version, err)
	}

	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "made"}}
	s.Create(t, made)
	s.Delete(t, made)
	var got []string
	enough := errors.New("enough")
	err = c.Watch(t.Context(), maps, version, time.Minute, func(ch kube.Change) error {
		if len(ch.Object) > 0 {
			got = append(got, ch.Type+" "+name(ch.Object))
		}
		if ch.Type == kube.Deleted {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || !slices.Equal(got, []string{"ADDED made", "DELETED made"}) {
		t.Errorf("changes %v, %v", got, err)
	}
	if err := c.Watch(t.Context(), maps, version, time.Second, func(kube.Change) error { return nil }); err != nil {
		t.Errorf("a watch whose time is up: %v", err)
	}
	if err := c.Watch(t.Context(), maps, "999999999", time.Second, func(kube.Change) error { return nil }); err != nil && nightcrier.CodeOf(err) != nightcrier.Unreachable {
		t.Errorf("a place of another cluster: %v", err)
	}
	roles := kube.Selection{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}
	if _, err := c.ListEach(t.Context(), roles, func([]byte) error { return nil }); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Errorf("a kind that is not for us: %v", err)
	}
	widgets := kube.Selection{APIVersion: "widgets.example/v1", Kind: "Widget"}
	if _, err := c.ListEach(t.Context(), widgets, func([]byte) error { return nil }); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("a kind that is not there: %v", err)
	}
	if ready, why, err := c.Ready(t.Context()); !ready || err != nil {
		t.Errorf("ready %t, %q, %v", ready, why, err)
	}
}
