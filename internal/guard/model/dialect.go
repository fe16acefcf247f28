package model

import (
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// dialect is one provider's API. Most of it are facts, a table; behaviour is the rest.
//
// To add one, write a file with its facts, its forms (what a request may hold, each place a
// list) and these methods, name it in dialects, and add its calls to fuzzedCalls in
// fuzz_test.go. Nothing else in this package knows an API by its name.
type dialect interface {
	// factsAt are the facts of the API as that host speaks it, which need not be the vendor's.
	factsAt(host string) facts
	// inspectRequest returns why a request may not be forwarded, nil when it may. path is
	// the call's, request an object.
	inspectRequest(path string, request value) error
	// leavesOut reports whether the provider is asked to leave out of the history what it
	// likes, so that what it counts is not all that was sent.
	leavesOut(request value) bool
	// readUsage reads what one JSON document cost, a whole answer or one event of a
	// stream. Later values of a stream are totals so far, not additions.
	readUsage(document value) usage
	// refusalBody is an error in the API's own shape, so that clients show the text.
	refusalBody(status int, kind, message string) any
}

// dialects are the APIs that a Guard speaks.
var dialects = map[nightcrier.Provider]dialect{
	nightcrier.Anthropic:  anthropic{},
	nightcrier.Google:     gemini{},
	nightcrier.OpenAI:     openAI{},
	nightcrier.OpenRouter: openRouter{},
}

// facts are what is so of an API. Names of members that are looked for in what a form let
// pass are compared as a looseForm compares them.
type facts struct {
	// vendorURL is the vendor's own base URL.
	vendorURL string
	// calls are what is forwarded, all of them by POST.
	calls []apiCall
	// listing is the path, with a query, of the call that names the models, with the headers
	// that it has to have: it costs nothing, and needs a key that is accepted. keyDenied are
	// the statuses that say that the key is not, beside 401 and 403.
	listing       string
	listingHeader http.Header
	keyDenied     []int
	// tokenHeaders are where a call carries the run's token, the first that is there counts;
	// tokenQuery is where else. The real key goes into keyHeader, behind keyPrefix.
	tokenHeaders         []string
	tokenQuery           string
	keyHeader, keyPrefix string
	// headers are those of a call that are forwarded, and query the parameters, each with its
	// only value. betas are what may be asked for in betaHeader, without the date behind it.
	headers    []string
	query      map[string]string
	betaHeader string
	betas      []string
	// usageName stands in every document that readUsage says something of.
	usageName string
	// endsBrokenStreams says that a stream that breaks off is handed on as one that ended
	// early: clients then ask again, and give up when a connection breaks.
	endsBrokenStreams bool
	// sealed are the members of a request that the API checks or decodes: a byte more or
	// less, and it refuses the request. arguments are those that are in no words of the API,
	// what a tool was called with, and results those that are where they hold an object.
	// Nothing in these is sealed, whatever it is called.
	sealed             []seal
	arguments, results []string
	// explained are the types of tools that the provider explains to the model by itself; one
	// that ends with _ is the beginning of many. references are the types of what may stand
	// for a tool as if all of it stood there.
	explained, references []string
}

// apiCall is one of an API's calls.
type apiCall struct {
	pattern *regexp.Regexp // all of it
	// billed says that the call has the model say something.
	billed bool
	// historyField holds what was said so far, and apartFields are what else may differ in
	// requests of one conversation, as the prompt does; all in plain names.
	historyField string
	apartFields  []string
	// lengthFields bound an answer's tokens, each as a path with dots. Where a request has
	// none, the first is set. thinkingField says how many of those tokens may be thoughts, ""
	// for none.
	lengthFields  []string
	thinkingField string
	// whenStreamed is a member that a streamed request gets where it has none of that name.
	whenStreamed struct{ name, json string }
}

// seal is a member that is left as it is. Where beside has a name, it is only if the member of
// that name says something, and just this where says is not empty. An object is somebody's own,
// who calls it by that name, as an argument of a tool; but where whole is set.
type seal struct {
	member, beside, says string
	whole                bool
}

// sealNames are seals of members wherever they stand.
func sealNames(names ...string) (all []seal) {
	for _, name := range names {
		all = append(all, seal{member: name})
	}
	return all
}

// callOf is the call that a request makes, nil for none that is forwarded.
func (f *facts) callOf(method, path string) *apiCall {
	for i := range f.calls {
		if c := &f.calls[i]; method == http.MethodPost && c.pattern.MatchString(path) {
			return c
		}
	}
	return nil
}

// matchExactly is a pattern of one path.
func matchExactly(path string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(path) + "$")
}

const bearer = "Bearer "

// givenToken is the token that a call carries, "" for none.
func (f *facts) givenToken(h http.Header, q url.Values) string {
	for _, name := range f.tokenHeaders {
		if token := strings.TrimPrefix(h.Get(name), bearer); token != "" {
			return token
		}
	}
	return q.Get(f.tokenQuery)
}

// isKeyDenied reports whether an answer to the listing, by its status, says that the key is
// not accepted.
func (f *facts) isKeyDenied(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || slices.Contains(f.keyDenied, status)
}

func (f *facts) setKey(h http.Header, key string) {
	if key != "" {
		h.Set(f.keyHeader, f.keyPrefix+key)
	}
}

// forwardedQuery keeps of a query what the API reads.
func (f *facts) forwardedQuery(q url.Values) url.Values {
	kept := url.Values{}
	for name, only := range f.query {
		if q.Get(name) == only {
			kept.Set(name, only)
		}
	}
	return kept
}

// forwardedHeaders are those of a call's headers that are forwarded, and the betas that were
// taken out of them because nobody knows them.
func (f *facts) forwardedHeaders(all http.Header) (kept http.Header, unknown []string) {
	kept = http.Header{}
	for _, name := range append([]string{"Accept", "User-Agent"}, f.headers...) {
		if v := all.Values(name); len(v) > 0 {
			kept[name] = v
		}
	}
	// The body was read as JSON: by a type of the agent's, with a charset, it could be another.
	kept.Set("Content-Type", "application/json")
	var known []string
	for _, b := range strings.Split(strings.Join(all.Values(f.betaHeader), ","), ",") {
		b = strings.TrimSpace(b)
		name := betaDay.ReplaceAllString(b, "")
		switch {
		case name != b && slices.Contains(f.betas, name):
			known = append(known, b)
		case b != "":
			unknown = append(unknown, b)
		}
	}
	if known != nil {
		kept.Set(f.betaHeader, strings.Join(known, ","))
	}
	return kept, unknown
}

var betaDay = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`)

// maxDropped bounds the unknown betas that are logged: an agent can make up any number.
const maxDropped = 16

// dropped are the unknown betas that were logged.
type dropped struct {
	mu    sync.Mutex
	names []string
}

func (d *dropped) warnOfBetas(log *slog.Logger, betas []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range betas {
		if b = b[:min(len(b), 64)]; len(d.names) < maxDropped && !slices.Contains(d.names, b) {
			d.names = append(d.names, b)
			log.Warn("model guard does not ask for a beta that it does not know", "beta", b)
		}
	}
}

// usage is what a document says of a call's cost.
type usage struct {
	tokens price.Tokens
	said   bool // it says something
	final  bool // nothing more will be added
}

// counts reads the numbers of a usage object. One that is there and is no whole number
// makes all of it unreadable.
type counts struct {
	value
	unreadable bool
}

// readCount is the number at a path, 0 where there is none.
func (c *counts) readCount(path ...string) int64 {
	v := c.value
	for _, name := range path {
		v = v.findMember(name)
	}
	n, ok := v.wholeNumber()
	c.unreadable = c.unreadable || v.isSaid() && !ok
	return n
}

// usageOf is what was counted.
func (c *counts) usageOf(t price.Tokens, final bool) usage {
	if c.unreadable {
		return usage{}
	}
	return usage{tokens: t, said: true, final: final}
}
