package model

import (
	"encoding/json"
	"net/http"
	"net/url"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/price"
)

// protocol is one provider's API: what of it is forwarded, where the key stands,
// what a request may not hold, and what an answer says it cost.
type protocol interface {
	// upstream is the vendor's own base URL.
	upstream() string
	// given is the token that a call carries, "" for none.
	given(http.Header, url.Values) string
	// authorize puts the real key into a call to the upstream.
	authorize(http.Header, string)
	// forwards reports whether a call may pass, by its method and path.
	forwards(method, path string) bool
	// billed reports whether a call of that path, one that is forwarded, has the model
	// say something.
	billed(path string) bool
	// headers are the request headers that the API reads, beside the body's type; all
	// others stay here.
	headers() []string
	// query keeps of a query what the API reads.
	query(url.Values) url.Values
	// inspect returns why a request may not be forwarded, nil when it may. path is the
	// call's, request what the body holds.
	inspect(path string, request map[string]any) error
	// usage reads what one JSON document cost, a whole answer or one event of a
	// stream. Later values of a stream are totals so far, not additions.
	usage(document json.RawMessage) usage
	// lengths are the fields that bound an answer's tokens, each as a path with dots.
	// Where a request has none, the first is set.
	lengths(path string) []string
	// thinking is the field, as a path with dots, that says how many of those tokens
	// may be thoughts; "" for none.
	thinking() string
	// refusal is an error in the API's own shape, so that clients show the text.
	refusal(status int, kind, message string) any
}

// amender is a protocol of which some requests have to be completed.
type amender interface {
	// amend completes a request that passed inspect.
	amend(path string, d *document)
}

// orderly is a protocol whose clients give up when a connection breaks in the middle
// of a stream, and ask again when one ends early in good order.
type orderly interface{ endsBrokenStreams() }

// protocols are the APIs that a Guard speaks.
var protocols = map[nightcrier.Provider]protocol{
	nightcrier.Anthropic: anthropic{},
	nightcrier.Google:    gemini{},
	nightcrier.OpenAI:    openAI{},
}

// usage is what a document says of a call's cost.
type usage struct {
	tokens price.Tokens
	said   bool // it says something
	final  bool // nothing more will be added
}
