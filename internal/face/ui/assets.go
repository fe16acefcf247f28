package ui

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

//go:embed static
var staticFiles embed.FS

// staticPath is below what the files of the page are, behind a digest of all of them: a
// browser keeps them for ever, and a new version has other addresses.
const staticPath = "/static/"

// assets are the files of the page, by their address.
type assets struct {
	base  string
	files map[string]asset
}

type asset struct {
	kind         string
	plain, small []byte
}

var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// loadAssets reads what is embedded in the program.
func loadAssets() assets {
	a := assets{files: map[string]asset{}}
	var all []byte
	names, _ := fs.Glob(staticFiles, "static/*") // the pattern is right
	for _, name := range names {
		plain, _ := staticFiles.ReadFile(name) // it was just listed
		var small bytes.Buffer
		z, _ := gzip.NewWriterLevel(&small, gzip.BestCompression) // a level that there is
		_, _ = z.Write(plain)                                     // into memory
		_ = z.Close()
		a.files[path.Base(name)] = asset{kinds[path.Ext(name)], plain, small.Bytes()}
		all = append(append(all, name...), plain...)
	}
	a.base = staticPath + text.DigestOf(all)[:12] + "/"
	return a
}

// ServeHTTP serves a file, whoever asks: there is nothing secret in them.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a.files[strings.TrimPrefix(r.URL.Path, a.base)]
	if !ok || !strings.HasPrefix(r.URL.Path, a.base) {
		http.NotFound(w, r)
		return
	}
	head := w.Header()
	head.Set("Content-Type", f.kind)
	head.Set("Cache-Control", "public, max-age=31536000, immutable")
	head.Set("Vary", "Accept-Encoding")
	body := f.plain
	if takesGzip(r) {
		head.Set("Content-Encoding", "gzip")
		body = f.small
	}
	_, _ = w.Write(body) // a client that is gone cannot be told
}

func takesGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// compress makes pages small on their way; streams stay as they are.
func (u *UI) compress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !takesGzip(r) || strings.HasPrefix(r.URL.Path, "/live/") {
			h.ServeHTTP(w, r)
			return
		}
		z := &zipped{ResponseWriter: w}
		defer z.end()
		h.ServeHTTP(z, r)
	})
}

// zipped compresses an answer that has a body.
type zipped struct {
	http.ResponseWriter
	out io.WriteCloser
}

// WriteHeader says that what follows is compressed.
func (z *zipped) WriteHeader(status int) {
	if z.out == nil {
		z.Header().Set("Vary", "Accept-Encoding")
		z.Header().Set("Content-Encoding", "gzip")
		z.out, _ = gzip.NewWriterLevel(z.ResponseWriter, gzip.BestSpeed) // a level that there is
	}
	z.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (z *zipped) Write(b []byte) (int, error) {
	if z.out == nil {
		z.WriteHeader(http.StatusOK)
	}
	return z.out.Write(b)
}

func (z *zipped) end() {
	if z.out != nil {
		_ = z.out.Close() // a client that is gone cannot be told
	}
}

type sessionKey struct{}

func withSession(ctx context.Context, s *session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// sessionIn is the session of a request that was let in, nil on the page that logs in.
func sessionIn(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}
