package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/kube/internal/strip"
	"nightcrier.dev/nightcrier/internal/retry"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// inbound is a request as far as the guard looks at it.
type inbound struct {
	method, target, accept string
	header                 http.Header
	body                   io.Reader
	// length is that of the body, -1 when it is not known.
	length int64
}

// answer is what the caller gets: a body, or a stream that must be closed.
type answer struct {
	status      int
	contentType string
	warnings    []string
	retryAfter  string
	body        []byte
	stream      io.ReadCloser
}

// call is a request that is being answered.
type call struct {
	ctx     context.Context // of the request, for the record
	g       *Guard
	parts   parts
	form    form
	audit   AuditRecord
	columns []string // of the tables that a watch sends
	// cut is set when a list may end before all of it was told, and wants is where the
	// caller wants a log to end, in bytes, if anywhere.
	cut   bool
	wants int64
}

// answerRequest decides on a request and answers it.
func (g *Guard) answerRequest(ctx context.Context, in inbound) answer {
	c := &call{ctx: ctx, g: g, audit: AuditRecord{ID: g.ids.Add(1), Decision: Allow}}
	kind, isReview := reviewKindOf(in.method, in.target)
	var err error
	if isReview {
		c.fillReviewRecord(kind)
		err = checkHeaders(in.header)
	} else {
		err = c.decideRequest(in)
	}
	if err != nil {
		return c.recordDenial(in, err)
	}
	if err := c.recordCall(); err != nil {
		return refusalAnswer(err)
	}
	if isReview {
		return c.finishAnswer(g.answerReview(ctx, kind, in))
	}
	return c.fetchAnswer(ctx)
}

// decideRequest takes the request to pieces and asks policy.
func (c *call) decideRequest(in inbound) error {
	if in.method != http.MethodGet {
		return denyChange(in)
	}
	if err := checkHeaders(in.header); err != nil {
		return err
	}
	if in.length != 0 {
		return newDenialf("body", "a read has no body")
	}
	p, err := parseTarget(in.target)
	if err != nil {
		return err
	}
	c.parts = p
	if err := p.checkPolicy(c.g.cfg.Namespaces); err != nil {
		return err
	}
	if c.form, err = p.negotiateForm(in.accept); err != nil {
		return err
	}
	c.cut, c.wants = c.parts.applyLimits(c.g.cfg.Limits, c.form)
	return nil
}

// denyChange is the denial of what is no read. Clients ask in more than one way for
// what the same subresource does.
func denyChange(in inbound) error {
	path, _, _ := strings.Cut(in.target, "?")
	if p, err := parseTarget(path); err == nil {
		if why, ok := subresources[p.subresource]; ok {
			return newDenialf("subresource", "%s", why)
		}
	}
	return newDenialf("method", "%s changes something: the guard passes reads only", texts.CutBytes(in.method, maxEchoed))
}

// checkHeaders refuses headers that ask for more than an answer.
func checkHeaders(h http.Header) error {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			return newDenialf("impersonation", "the guard does not act as somebody else")
		}
	}
	if h.Get("Upgrade") != "" || strings.Contains(strings.ToLower(strings.Join(h["Connection"], ",")), "upgrade") {
		return newDenialf("upgrade", "exec, attach and port-forward are not passed: read logs and objects instead")
	}
	return nil
}

// recordDenial puts a denial on record and returns its answer.
func (c *call) recordDenial(in inbound, err error) answer {
	a := refusalAnswer(err)
	c.fillRefusedRecord(in)
	c.audit.Decision, c.audit.Reason = Deny, err.Error()
	c.audit.Done, c.audit.Status, c.audit.Bytes = true, a.status, int64(len(a.body))
	c.g.cfg.Logger.Info("kube guard refused a request", "method", texts.CutBytes(in.method, maxEchoed), "reason", err.Error())
	if err := c.recordCall(); err != nil {
		return refusalAnswer(err)
	}
	return a
}

// writeVerbs are the verbs of what is never passed.
var writeVerbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// fillRefusedRecord takes from a refused request what the record should say of it, as far
// as its path tells.
func (c *call) fillRefusedRecord(in inbound) {
	path, _, _ := strings.Cut(in.target, "?")
	if segments, err := splitPath(path); err == nil && len(path) <= maxTarget && c.parts.verb == "" {
		c.parts, _ = classifyPath(segments)
	}
	if c.parts.verb == "" {
		c.audit.Verb = strings.ToLower(texts.CutBytes(in.method, maxEchoed))
		c.audit.Query = string(c.g.cfg.Mask([]byte(strconv.QuoteToASCII(in.target[:min(len(in.target), maxShown)]))))
		return
	}
	if verb, ok := writeVerbs[in.method]; ok {
		c.parts.verb = verb
	}
}

// maxShown is how much of a target that cannot be taken to pieces is put on
// record, in bytes.
const maxShown = 512

// recordCall puts the call, as far as it is known, on record.
func (c *call) recordCall() error {
	p := &c.parts
	c.audit.Time = c.g.cfg.Now().UTC()
	if p.verb != "" {
		c.audit.Verb, c.audit.Group, c.audit.Version = p.verb, p.group, p.version
		c.audit.Resource, c.audit.Subresource = p.resource, p.subresource
		c.audit.Namespace, c.audit.Name = p.namespace, p.name
		_, c.audit.Query, _ = strings.Cut(p.encodeTarget(), "?")
		if p.class != classResource {
			c.audit.Query = p.encodeTarget()
		}
	}
	if err := c.g.cfg.Audit(c.ctx, c.audit); err != nil {
		c.g.cfg.Logger.Error("kube guard cannot keep its record", "error", err)
		return newFailuref(http.StatusServiceUnavailable, "audit", "the guard cannot keep its record and answers nothing")
	}
	return nil
}

// fetchAnswer asks the cluster.
func (c *call) fetchAnswer(ctx context.Context) answer {
	if c.parts.subresource == "log" {
		return c.readLog(ctx)
	}
	limit := c.g.cfg.Limits.CallTime
	if c.parts.verb == verbWatch {
		limit = c.g.cfg.Limits.StreamTime + 5*time.Second // the cluster ends it first
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	resp, err := c.sendRequest(ctx, &c.parts)
	if err != nil {
		cancel()
		return c.finishAnswer(refusalAnswer(c.unreachableError(err)))
	}
	if c.parts.verb == verbWatch && resp.StatusCode == http.StatusOK {
		return c.answerWatch(resp, cancel)
	}
	defer cancel()
	defer resp.Body.Close()
	return c.answerPlain(resp)
}

// answerPlain answers with what is no stream.
func (c *call) answerPlain(resp *http.Response) answer {
	body, err := readBounded(resp.Body, c.bodyLimit())
	if err != nil {
		return c.finishAnswer(refusalAnswer(c.unreachableError(err)))
	}
	a, err := c.cleanAnswer(resp, body)
	if err != nil {
		a = refusalAnswer(err)
	}
	if c.cut && err == nil && a.status == http.StatusOK {
		a.warnings = append(a.warnings, c.missingWarnings(a.body)...)
	}
	return c.finishAnswer(a)
}

// missingWarnings says what an answer that the guard bounded does not tell.
func (c *call) missingWarnings(body []byte) []string {
	head, _, _ := bytes.Cut(body[:min(len(body), maxTarget)], []byte(`"items":`))
	if bytes.Contains(head, []byte(`"continue":"`)) {
		return []string{fmt.Sprintf("the list goes on behind these %d: use a selector, or its continue token", c.g.cfg.Limits.Items)}
	}
	return nil
}

// bodyLimit is how many bytes of an answer are read.
func (c *call) bodyLimit() int64 {
	if c.parts.subresource == "log" {
		return c.g.cfg.Limits.LogBytes
	}
	return c.g.cfg.Limits.Body
}

// sendRequest builds a request to the cluster from its parts.
func (c *call) sendRequest(ctx context.Context, p *parts) (*http.Response, error) {
	base := c.g.cfg.Upstream.Base
	target := base.Scheme + "://" + base.Host + strings.TrimRight(base.EscapedPath(), "/") + p.encodeTarget()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"Accept": {c.form.accept}, "User-Agent": {UserAgent}}
	return c.g.cfg.Upstream.Transport.RoundTrip(req)
}

// UserAgent is the guard's name in the cluster's own audit log.
const UserAgent = "nightcrier-guard"

var errTooLarge = errors.New("too large")

func readBounded(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = errTooLarge
	}
	return body, err
}

// unreachableError says what kept an answer away, without a word of the transport's:
// it may hold an address or a credential.
func (c *call) unreachableError(err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		return newFailuref(http.StatusRequestEntityTooLarge, "size", "the answer is larger than %d bytes: ask for less with a name, a selector, --chunk-size, or --tail", c.bodyLimit())
	case errors.Is(err, context.DeadlineExceeded):
		return newFailuref(http.StatusGatewayTimeout, "timeout", "the cluster did not answer within %s", c.g.cfg.Limits.CallTime)
	}
	c.g.cfg.Logger.Warn("kube guard cannot reach the cluster", "host", c.g.cfg.Upstream.Base.Host, "error", err)
	return newFailuref(http.StatusServiceUnavailable, "unreachable", "the cluster cannot be reached")
}

// cleanAnswer turns what the cluster said into what the caller may see.
func (c *call) cleanAnswer(resp *http.Response, body []byte) (answer, error) {
	if len(body) > 1<<20 {
		c.g.large.Lock()
		defer c.g.large.Unlock()
	}
	media, contentType := mediaOf(resp.Header)
	a := answer{status: resp.StatusCode, contentType: contentType, retryAfter: retryAfter(resp.Header)}
	switch {
	case resp.Header.Get("Content-Encoding") != "":
		return a, newFailuref(http.StatusBadGateway, "format", "the cluster's answer is compressed in a way that was not asked for")
	case a.status < 200 || a.status >= 300 && a.status < 400:
		return a, newFailuref(http.StatusBadGateway, "format", "the cluster answered %d, which is not passed on", a.status)
	case a.status == http.StatusUnauthorized:
		return a, newFailuref(http.StatusBadGateway, "credential", "the cluster does not accept the guard's credential: nothing can be read until it is renewed")
	case isErrorStatus(a.status) && media != mediaJSON:
		return statusAnswer(a.status, texts.CutLine(string(c.cleanText(body[:min(len(body), maxTarget)])), maxSaid)), nil
	case isErrorStatus(a.status):
		var err error
		a.body, err = c.cleanError(body)
		return a, err
	case media == mediaJSON, media == mediaText && c.parts.class == classOpenAPI:
		// The index of OpenAPI documents is JSON without saying so.
		a.contentType = strings.Replace(contentType, typeText, mediaJSON, 1)
		var err error
		a.body, err = c.cleanJSON(body)
		return a, err
	case media == mediaText && c.parts.class == classHealth:
		a.body = c.maskText(body)
		return a, nil
	}
	return a, newFailuref(http.StatusBadGateway, "format", "the cluster's answer is not JSON and is not passed on")
}

// maskText masks text and counts what it masked.
func (c *call) maskText(body []byte) []byte {
	out, masked := strip.MaskText(c.g.cfg.Mask, body)
	c.audit.Masked += masked
	return out
}

// cleanJSON frees a JSON document of what is secret, or refuses to pass it on.
func (c *call) cleanJSON(body []byte) ([]byte, error) {
	log := c.g.cfg.MaskLog
	if c.g.cfg.Upstream.Recorded { // it was masked as a log then
		log = nil
	}
	objects := c.parts.class == classResource
	out, masked, err := strip.CleanJSON(body, strip.Options{
		Mask: c.g.cfg.Mask, MaskLog: log, Columns: c.columns, Restore: c.form.restore,
		Metadata: objects && c.parts.verb != "" && metadataOnly(c.parts.resource),
		Secrets:  objects && strings.HasSuffix(c.parts.resource, "secrets"),
	})
	c.audit.Masked += masked
	switch {
	case errors.Is(err, strip.ErrMoreThanMetadata):
		return nil, newFailuref(http.StatusBadGateway, "secret", "the cluster gave %v, which is not passed on", err)
	case errors.Is(err, strip.ErrNotFreed):
		return nil, newFailuref(http.StatusBadGateway, "format", "the answer cannot be freed of secrets: ask for less of it")
	case err != nil:
		return nil, newFailuref(http.StatusBadGateway, "format", "the cluster's answer is %v and is not passed on", err)
	}
	c.columns = out.Columns
	return out.Body, nil
}

// maxSaid bounds what is told of a text that is no Status, in bytes.
const maxSaid = 300

// mediaOf returns an answer's media type, and its full type made of what the
// guard knows.
func mediaOf(h http.Header) (media, full string) {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return "", mediaJSON
	}
	if media == mediaText {
		return media, typeText
	}
	full = mediaJSON
	for _, key := range []string{"g", "v", "as", "stream"} {
		if v := params[key]; v != "" && hasOnlyBytes(v, pathByte) {
			full += ";" + key + "=" + v
		}
	}
	return media, full
}

func retryAfter(h http.Header) string {
	if wait := retry.ReadAfter(h, time.Now(), 10*time.Minute); wait > 0 {
		return strconv.Itoa(int(wait.Seconds()))
	}
	return ""
}

// finishAnswer keeps the answer as evidence, puts the outcome on record, and lets the
// answer go.
func (c *call) finishAnswer(a answer) answer {
	if err := c.recordEvidence(&a); err != nil {
		a = refusalAnswer(err)
	}
	c.audit.Done, c.audit.Status, c.audit.Bytes = true, a.status, int64(len(a.body))
	c.audit.SHA256 = texts.DigestOf(a.body)
	if err := c.recordCall(); err != nil {
		return refusalAnswer(err)
	}
	return a
}

// recordEvidence records the body as evidence; facts about the cluster are announced.
func (c *call) recordEvidence(a *answer) error {
	if c.g.cfg.Evidence == nil {
		return nil
	}
	id, err := c.g.cfg.Evidence.Record(c.evidenceKind(a.status), c.describeSource(), a.body)
	if err != nil {
		c.g.cfg.Logger.Error("kube guard cannot keep evidence", "error", err)
		return newFailuref(http.StatusServiceUnavailable, "evidence", "the guard cannot keep what it would answer, so it answers nothing more")
	}
	c.audit.Evidence = id
	if c.parts.class == classResource && c.parts.verb != "" && !c.g.cfg.Unannounced {
		a.warnings = append(a.warnings, "evidence "+id)
	}
	return nil
}

// evidenceKind is evidence's word for an answer.
func (c *call) evidenceKind(status int) string {
	switch {
	case status >= 400:
		return "error"
	case c.parts.verb == "":
		return "review"
	case c.parts.subresource == "log":
		return "log"
	case c.parts.class == classVersion:
		return "version"
	case c.parts.class != classResource:
		return "api"
	case c.parts.verb == verbGet:
		return "object"
	}
	return c.parts.verb
}

// describeSource says how the answer can be had again.
func (c *call) describeSource() string {
	p := &c.parts
	switch {
	case p.verb == "":
		return "kubectl auth can-i"
	case p.class != classResource || p.subresource != "" && p.subresource != "log":
		return "kubectl get --raw '" + p.encodeTarget() + "'"
	}
	words := []string{"kubectl", "get", p.qualifiedResource()}
	if p.subresource == "log" {
		words = []string{"kubectl", "logs"}
	}
	if p.name != "" {
		words = append(words, p.name)
	}
	switch {
	case p.namespace != "":
		words = append(words, "-n", p.namespace)
	case p.verb != verbGet:
		words = append(words, "-A")
	}
	if p.verb == verbWatch {
		words = append(words, "--watch")
	}
	for _, f := range flags {
		if v := p.optionValue(f.option); v != "" {
			words = append(words, f.flag+"="+v+f.unit)
		}
	}
	return strings.Join(words, " ")
}

// flags are kubectl's names of the options that decide what an answer holds.
var flags = []struct{ option, flag, unit string }{
	{"labelSelector", "--selector", ""}, {"fieldSelector", "--field-selector", ""},
	{"container", "--container", ""}, {"previous", "--previous", ""}, {"tailLines", "--tail", ""},
	{"sinceSeconds", "--since", "s"}, {"sinceTime", "--since-time", ""}, {"timestamps", "--timestamps", ""},
}
