package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/retry"
)

// PublicAPI is the API of github.com. That of GitHub Enterprise is at /api/v3 of its host.
const PublicAPI = "https://api.github.com"

const (
	requestTime = 30 * time.Second
	// maxAnswer bounds an answer, maxMessage what is kept of a refusal.
	maxAnswer  = 24 << 20
	maxMessage = 2048
	// maxTries is how often one request is made, maxWait how long it waits in all for a limit to
	// end.
	maxTries = 5
	maxWait  = 15 * time.Minute
	// maxKept is how many answers are kept to be asked for only whether they have changed, and
	// maxKeptSize how large one may be.
	maxKept     = 256
	maxKeptSize = 64 << 10
)

// Options are what a Client needs.
type Options struct {
	// BaseURL is that of the API; PublicAPI when empty.
	BaseURL string
	// Token is a personal access token. Without it AppID and PrivateKey, in PEM, are those of an App.
	Token      string
	AppID      int64
	PrivateKey []byte
	// Sent is where the intent to write is recorded, nil for nowhere.
	Sent Outbox
	// Now and Sleep are the clock.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) bool
}

// Client speaks with one GitHub. It is safe for concurrent use.
type Client struct {
	*shared
	tell func(string)
}

type shared struct {
	base, graph string
	http        *http.Client
	access      access
	sent        Outbox
	now         func() time.Time
	sleep       func(context.Context, time.Duration) bool

	mu    sync.Mutex
	until time.Time // nobody asks before
	kept  map[string]kept
	order []string

	writing sync.Mutex // one change at a time, as GitHub asks for
}

type kept struct {
	tag  string
	body []byte
}

// New checks what it is given, and returns a Client. It asks for nothing yet.
func New(o Options) (*Client, error) {
	if o.BaseURL == "" {
		o.BaseURL = PublicAPI
	}
	if err := CheckBaseURL(o.BaseURL); err != nil {
		return nil, err
	}
	s := &shared{base: strings.TrimRight(o.BaseURL, "/"), sent: o.Sent, now: o.Now, sleep: o.Sleep, kept: map[string]kept{}}
	s.graph = strings.TrimSuffix(s.base, "/v3") + "/graphql"
	if s.now == nil {
		s.now = time.Now
	}
	if s.sleep == nil {
		s.sleep = retry.Sleep
	}
	if s.sent == nil {
		s.sent = noOutbox{}
	}
	s.http = &http.Client{Timeout: requestTime,
		// A redirect would hand the credential to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c := &Client{shared: s, tell: func(string) {}}
	switch {
	case o.Token != "" && o.AppID == 0:
		s.access = &tokenAccess{client: c, token: o.Token}
	case o.Token == "" && o.AppID != 0:
		key, err := ParseKey(o.PrivateKey)
		if err != nil {
			return nil, err
		}
		s.access = &appAccess{client: c, id: o.AppID, key: key, issued: map[string]issued{}}
	default:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "GitHub needs either github.token or github.app_id with github.private_key_file")
	}
	return c, nil
}

// CheckBaseURL takes https anywhere, and http on this machine.
func CheckBaseURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nightcrier.Errorf(nightcrier.Invalid, "is no address of an API: write %s, or https://HOST/api/v3 for GitHub Enterprise", PublicAPI)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())) {
		return nightcrier.Errorf(nightcrier.Invalid, "must begin with https://, the credential goes there")
	}
	return nil
}

// Telling returns the same client, which tells of each time that it waits.
func (c *Client) Telling(tell func(string)) *Client { return &Client{shared: c.shared, tell: tell} }

// String keeps the credential out of logs.
func (c *Client) String() string { return "GitHub at " + c.base }

// GoString keeps it out of %#v as well.
func (c *Client) GoString() string { return c.String() }

// call is one request.
type call struct {
	method, path string
	query        url.Values
	accept       string
	in           any
	// repository is whose token is shown; signed shows that of the App itself.
	repository string
	signed     bool
	// limit is how much of an answer is read; more is an error unless cut is set.
	limit int
	cut   bool
}

// result is an answer of success.
type result struct {
	header http.Header
	body   []byte
}

// errLost is a change of which nobody knows whether it was made.
var errLost = errors.New("no answer came after it was sent")

// get reads JSON.
func (c *Client) get(ctx context.Context, repository, path string, query url.Values, out any) (http.Header, error) {
	r, err := c.do(ctx, call{method: http.MethodGet, repository: repository, path: path, query: query})
	if err != nil {
		return nil, err
	}
	return r.header, decode(r.body, path, out)
}

func decode(body []byte, path string, out any) error {
	if err := json.Unmarshal(body, out); err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "GitHub answers %s with what cannot be read: %w", path, err)
	}
	return nil
}

// send changes something, once: one whose answer is lost is not repeated, and its error is errLost.
func (c *Client) send(ctx context.Context, method, repository, path string, in, out any) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	r, err := c.do(ctx, call{method: method, repository: repository, path: path, in: in})
	if err != nil || out == nil {
		return err
	}
	return decode(r.body, path, out)
}

// do makes a request, again where GitHub surely did not do it and it may help.
func (c *Client) do(ctx context.Context, k call) (result, error) {
	var waited time.Duration
	for try := 1; ; try++ {
		if err := c.awaitLimit(ctx, &waited); err != nil {
			return result{}, err
		}
		resp, err := c.ask(ctx, k)
		again, wait := c.judge(k, resp, err, try)
		if !again {
			return c.conclude(k, resp, err)
		}
		if waited += wait; waited > maxWait {
			return result{}, nightcrier.Errorf(nightcrier.Exhausted, "GitHub asks to be left alone for %s; a request waits %s at most", wait.Round(time.Second), maxWait)
		}
		if resp != nil && wait > 0 {
			c.tell("GitHub limits how often it may be asked; waiting " + wait.Round(time.Second).String())
			c.holdOff(wait)
		}
		if !c.sleep(ctx, wait) {
			return result{}, nightcrier.Errorf(nightcrier.Interrupted, "stopped while waiting for GitHub")
		}
	}
}

// answered is an answer that was read.
type answered struct {
	status int
	result
}

// ask makes a request once. The error wraps errLost where it was a change that may have been made.
func (c *Client) ask(ctx context.Context, k call) (*answered, error) {
	var body io.Reader
	if k.in != nil {
		raw, err := json.Marshal(k.in)
		if err != nil {
			return nil, nightcrier.Errorf(nightcrier.Internal, "what goes to GitHub is no JSON: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	address := c.base + k.path
	if k.path == graphPath {
		address = c.graph
	}
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, address, body)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "GitHub cannot be asked for %s: %w", k.path, err)
	}
	token, err := c.access.tokenFor(ctx, k.repository, k.signed)
	if err != nil {
		return nil, &final{err} // it was tried often enough
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", orDefault(k.accept, "application/vnd.github+json"))
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("User-Agent", "nightcrier")
	if k.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	before, known := c.recall(k, address)
	if known {
		req.Header.Set("If-None-Match", before.tag)
	}
	a, err := c.exchange(req, k)
	switch {
	case err != nil:
		return nil, err
	case a.status == http.StatusNotModified && known:
		a.status, a.body = http.StatusOK, before.body
	case a.status == http.StatusUnauthorized && !k.signed:
		c.access.forget(k.repository, token)
	case a.status == http.StatusOK:
		c.keep(k, address, kept{tag: a.header.Get("ETag"), body: a.body})
	}
	return a, nil
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// exchange sends a request and reads the answer, both bounded.
func (c *Client) exchange(req *http.Request, k call) (*answered, error) {
	var left sentMark
	resp, err := c.http.Do(left.watch(req))
	if err != nil {
		return nil, left.failure(req, err)
	}
	defer resp.Body.Close()
	limit := k.limit
	if limit == 0 {
		limit = maxAnswer
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil && resp.StatusCode < 300:
		return nil, left.failure(req, err)
	case len(body) > limit && !k.cut:
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "GitHub's answer to %s is larger than %d bytes", k.path, limit)
	}
	return &answered{status: resp.StatusCode, result: result{header: resp.Header, body: body[:min(len(body), limit)]}}, nil
}

// conclude is what a request came to.
func (c *Client) conclude(k call, resp *answered, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	if resp.status >= 200 && resp.status < 300 {
		return resp.result, nil
	}
	return result{}, refusalOf(k, resp)
}

// recall is what is known of an answer from before.
func (c *Client) recall(k call, address string) (kept, bool) {
	if k.method != http.MethodGet {
		return kept{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.kept[k.accept+" "+address]
	return known, ok
}

// keep keeps an answer that says how to ask whether it has changed.
func (c *Client) keep(k call, address string, a kept) {
	if k.method != http.MethodGet || a.tag == "" || len(a.body) > maxKeptSize {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := k.accept + " " + address
	if _, known := c.kept[key]; !known {
		c.order = append(c.order, key)
	}
	c.kept[key] = a
	if len(c.order) > maxKept {
		delete(c.kept, c.order[0])
		c.order = c.order[1:]
	}
}
