package kube

import (
	"cmp"
	"context"
	"net/url"

	"nightcrier.dev/nightcrier"
)

// Read returns the answer to a GET of path, which is absolute below the API
// server's base with its segments already escaped, for readers that build
// their paths themselves. It is the caller who keeps a Secret's data out: by
// asking for its metadata in accept.
//
// At most maxBytes are read; a larger answer is an Exhausted error. Zero, or
// more than 16 MiB, means 16 MiB.
func (c *Client) Read(ctx context.Context, path string, query url.Values, accept string, maxBytes int64) ([]byte, error) {
	if path == "" || path[0] != '/' {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "read %q: the path is not absolute", path)
	}
	if maxBytes <= 0 || maxBytes > maxBody {
		maxBytes = maxBody
	}
	accept = cmp.Or(accept, acceptJSON)
	return c.fetchBody(ctx, request{what: "read " + path, path: path, query: query, accept: accept, limit: maxBytes})
}
