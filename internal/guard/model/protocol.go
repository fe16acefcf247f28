package model

import (
	"encoding/json"
	"net/http"
	"net/url"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// protocol is one provider's API: what of it is forwarded, where the key stands,
// what a request may not hold, and what an answer says it cost.
type protocol interface {
	// vendorURL is the vendor's own base URL.
	vendorURL() string
	// protocolAt is the API as that host speaks it, which need not be the vendor's.
	protocolAt(host string) protocol
	// modelListing is the path, with a query, of the call that names the models, and the
	// headers that it has to have: it costs nothing, and needs a key that is accepted.
	modelListing() (path string, header http.Header)
	// keyRefused reports whether an answer to modelListing, by its status, says that the
	// key is not accepted.
	keyRefused(status int) bool
	// givenToken is the token that a call carries, "" for none.
	givenToken(http.Header, url.Values) string
	// setKeyHeader puts the real key into a call to the upstream.
	setKeyHeader(http.Header, string)
	// mayForward reports whether a call may pass, by its method and path.
	mayForward(method, path string) bool
	// isBilled reports whether a call of that path, one that is forwarded, has the model
	// say something.
	isBilled(path string) bool
	// forwardedHeaders returns those of a call's headers that are forwarded, which are those
	// that the API reads beside the type of the body, and the betas that were taken out of
	// them because nobody knows them.
	forwardedHeaders(all http.Header) (forwarded http.Header, unknown []string)
	// forwardedQuery keeps of a query what the API reads.
	forwardedQuery(url.Values) url.Values
	// inspectRequest returns why a request may not be forwarded, nil when it may. path is
	// the call's, request what the body holds.
	inspectRequest(path string, request map[string]any) error
	// amendRequest completes a request that passed inspectRequest.
	amendRequest(path string, d *document)
	// readUsage reads what one JSON document cost, a whole answer or one event of a
	// stream. Later values of a stream are totals so far, not additions.
	readUsage(document json.RawMessage) usage
	// lengthFields are the fields that bound an answer's tokens, each as a path with dots.
	// Where a request has none, the first is set.
	lengthFields(path string) []string
	// thinkingField is the field, as a path with dots, that says how many of those tokens
	// may be thoughts; "" for none.
	thinkingField() string
	// endsBrokenStreams says whether a stream that breaks off is handed on as one that
	// ended early: clients then ask again, and give up when a connection breaks.
	endsBrokenStreams() bool
	// refusalBody is an error in the API's own shape, so that clients show the text.
	refusalBody(status int, kind, message string) any
}

// protocols are the APIs that a Guard speaks.
var protocols = map[nightcrier.Provider]protocol{
	nightcrier.Anthropic: anthropic{},
	nightcrier.Google:    gemini{},
	nightcrier.OpenAI:    openAI{},
}

// pickHeaders keeps of a call's headers those of these names.
func pickHeaders(all http.Header, names ...string) http.Header {
	kept := http.Header{}
	for _, name := range names {
		if v := all.Values(name); len(v) > 0 {
			kept[name] = v
		}
	}
	return kept
}

// isKeyDenied reports whether a status is the usual one for a key that is not accepted.
func isKeyDenied(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// usage is what a document says of a call's cost.
type usage struct {
	tokens price.Tokens
	said   bool // it says something
	final  bool // nothing more will be added
}
