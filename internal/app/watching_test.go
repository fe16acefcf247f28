package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/test/apitest"
)

// A kubeconfig may come late; one that was written anew is used from then on.
func TestWatchTakesTheCredentialThatIs(t *testing.T) {
	first, second := apitest.New(t), apitest.New(t)
	second.Put("pods", "shop", "a", []byte(`{"metadata":{"name":"a"}}`))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	all := newClusters([]config.Cluster{{Name: "c1", Watch: true, Kubeconfig: file}}, quietOptions(), mask.New(nil), false)
	api := &current{of: all, cluster: "c1"}
	pods := func() (n int, err error) {
		_, err = api.ListEach(t.Context(), kube.Selection{Kind: "Pod"}, func([]byte) error { n++; return nil })
		return n, err
	}
	if _, err := pods(); nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), file) || api.hostOf() != "" {
		t.Errorf("without a file: %v, %s", err, api.hostOf())
	}
	write := func(from string, at time.Time) {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err == nil {
			err = os.Chtimes(file, at, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(first.Kubeconfig(t), time.Now().Add(-time.Hour))
	if _, err := pods(); err == nil {
		t.Error("a file that could not be used is not left alone")
	}
	api.retryAt = time.Time{}
	if n, err := pods(); n != 0 || err != nil || api.hostOf() == "" {
		t.Errorf("%d pods of the first, %v", n, err)
	}
	write(second.Kubeconfig(t), time.Now())
	if n, err := pods(); n != 1 || err != nil {
		t.Errorf("%d pods of the second, %v", n, err)
	}
}
