package evidence

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkRecord measures what keeping an answer costs the one who waits for it.
func BenchmarkRecord(b *testing.B) {
	for _, size := range []int{4 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			body := []byte(strings.Repeat("x", size))
			r, n := (*Recorder)(nil), MaxItems
			for b.Loop() {
				if n == MaxItems || int64(n*size) > MaxTotal-int64(size) {
					b.StopTimer()
					var err error
					if r, err = Open(b.TempDir()); err != nil {
						b.Fatal(err)
					}
					n = 0
					b.StartTimer()
				}
				n++
				copy(body, fmt.Sprintf("%08d", n))
				if _, err := r.Record("object", "kubectl get pod", body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
