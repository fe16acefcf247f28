package kube_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
)

// gzipped writes a release the way Helm does.
func gzipped(secret string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(`{"name":"cart","config":{"password":"` + secret + `"},"manifest":"` + strings.Repeat("kind: Deployment ", 20) + `"}`))
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}
