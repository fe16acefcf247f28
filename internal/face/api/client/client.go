// Package client asks a nightcrier server: over its Unix socket, over HTTP, or
// in this very process where a store is read without a server. Errors carry the
// server's code.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/inprocess"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/sock"
)

const (
	// answerTime bounds every call but streams.
	answerTime = 60 * time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 64 << 20
)

// Client is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
	// retry is how long a broken stream waits before it goes on.
	retry time.Duration
}

// Unix returns a client for the server whose socket is at path.
func Unix(path string) *Client {
	return newClient("http://localhost", &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return sock.Dial(ctx, path) },
	})
}

// HTTP returns a client for the server at address, http(s)://host:port.
func HTTP(address string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "--server %q is not an address such as http://127.0.0.1:8080", address)
	}
	return newClient(strings.TrimSuffix(address, "/"), http.DefaultTransport.(*http.Transport).Clone()), nil
}

// InProcess returns a client that calls h directly.
func InProcess(h http.Handler) *Client {
	return newClient("http://localhost", inprocess.Transport{Handler: h})
}

func newClient(base string, rt http.RoundTripper) *Client {
	return &Client{base: base, http: &http.Client{Transport: rt}, retry: time.Second}
}

// IncidentQuery selects incidents; zero fields select all.
type IncidentQuery struct {
	Status, Cluster, CausedBy string
	Since                     time.Time
	Limit                     int
	Cursor                    string
}

// Incidents returns a page of incidents, newest first.
func (c *Client) Incidents(ctx context.Context, q IncidentQuery) (api.IncidentList, error) {
	v := queryValues("status", q.Status, "cluster", q.Cluster, "causedBy", q.CausedBy, "since", formatTime(q.Since), "cursor", q.Cursor, "limit", formatNumber(q.Limit))
	return getJSON[api.IncidentList](ctx, c, "/incidents", v)
}

// Incident returns one incident.
func (c *Client) Incident(ctx context.Context, id string) (nightcrier.Incident, error) {
	return getJSON[nightcrier.Incident](ctx, c, "/incidents/"+url.PathEscape(id), nil)
}

// Notifications returns what people were told of an incident.
func (c *Client) Notifications(ctx context.Context, id string) (api.NotificationList, error) {
	return getJSON[api.NotificationList](ctx, c, "/incidents/"+url.PathEscape(id)+"/notifications", nil)
}

// TellAgain sends again what may not have reached people, and returns what that is.
func (c *Client) TellAgain(ctx context.Context, id string) (api.NotificationList, error) {
	return callJSON[api.NotificationList](ctx, c, http.MethodPost, "/incidents/"+url.PathEscape(id)+"/notifications/again", nil, nil)
}

// RunNotifications returns what people were told of a run.
func (c *Client) RunNotifications(ctx context.Context, id string) (api.NotificationList, error) {
	return getJSON[api.NotificationList](ctx, c, "/runs/"+url.PathEscape(id)+"/notifications", nil)
}

// TellRunAgain sends again what may not have reached people of a run, and returns what that is.
func (c *Client) TellRunAgain(ctx context.Context, id string) (api.NotificationList, error) {
	return callJSON[api.NotificationList](ctx, c, http.MethodPost, "/runs/"+url.PathEscape(id)+"/notifications/again", nil, nil)
}

// Notes returns what people noted about an incident.
func (c *Client) Notes(ctx context.Context, id string) (api.NoteList, error) {
	return getJSON[api.NoteList](ctx, c, "/incidents/"+url.PathEscape(id)+"/notes", nil)
}

// Note adds a note to an incident and returns it as it is kept.
func (c *Client) Note(ctx context.Context, id string, n api.NewNote) (nightcrier.Note, error) {
	return callJSON[nightcrier.Note](ctx, c, http.MethodPost, "/incidents/"+url.PathEscape(id)+"/notes", nil, n)
}

// Report returns an incident's report as json, markdown or html.
func (c *Client) Report(ctx context.Context, id, format string) ([]byte, error) {
	return c.fetchAnswer(ctx, http.MethodGet, "/incidents/"+url.PathEscape(id)+"/report", queryValues("format", format), nil)
}

// Cancel stops an incident's investigation and returns the run it concerns.
func (c *Client) Cancel(ctx context.Context, id string) (nightcrier.Run, error) {
	return callJSON[nightcrier.Run](ctx, c, http.MethodPost, "/incidents/"+url.PathEscape(id)+"/cancel", nil, nil)
}

// Retry investigates a closed incident again, with another executor unless
// that is "", and returns the new run.
func (c *Client) Retry(ctx context.Context, id, executor string) (nightcrier.Run, error) {
	return callJSON[nightcrier.Run](ctx, c, http.MethodPost, "/incidents/"+url.PathEscape(id)+"/retry", queryValues("executor", executor), nil)
}

// RunQuery selects runs; zero fields select all.
type RunQuery struct {
	Pipeline, SubjectKind, Subject, Status, Key string
	Since, Until                                time.Time
	Limit                                       int
	Cursor                                      string
}

// Runs returns a page of runs, newest first.
func (c *Client) Runs(ctx context.Context, q RunQuery) (api.RunList, error) {
	v := queryValues("pipeline", q.Pipeline, "subjectKind", q.SubjectKind, "subject", q.Subject, "status", q.Status, "key", q.Key,
		"since", formatTime(q.Since), "until", formatTime(q.Until), "cursor", q.Cursor, "limit", formatNumber(q.Limit))
	return getJSON[api.RunList](ctx, c, "/runs", v)
}

// Run returns one run with its steps.
func (c *Client) Run(ctx context.Context, id string) (nightcrier.Run, error) {
	return getJSON[nightcrier.Run](ctx, c, "/runs/"+url.PathEscape(id), nil)
}

// keyedCall is a call that has a name of the caller's, "" for none.
type keyedCall struct {
	api.CallBody
	key string
}

// StartRun starts a run of a pipeline and returns it; where key is not "", the run that the same call
// with it started before.
func (c *Client) StartRun(ctx context.Context, pipeline, key string, b api.CallBody) (nightcrier.Run, error) {
	return callJSON[nightcrier.Run](ctx, c, http.MethodPost, "/pipelines/"+url.PathEscape(pipeline)+"/runs", nil, keyedCall{b, key})
}

// StartSkill starts a run of one step, which executes a skill with its domain or without, and
// returns it; key is as that of StartRun.
func (c *Client) StartSkill(ctx context.Context, skill, key string, b api.CallBody) (nightcrier.Run, error) {
	domain, name, ok := strings.Cut(skill, "/")
	if !ok {
		domain, name = api.NoDomain, skill
	}
	return callJSON[nightcrier.Run](ctx, c, http.MethodPost, "/skills/"+url.PathEscape(domain)+"/"+url.PathEscape(name)+"/runs", nil, keyedCall{b, key})
}

// CancelRun stops a run and returns it.
func (c *Client) CancelRun(ctx context.Context, id string) (nightcrier.Run, error) {
	return callJSON[nightcrier.Run](ctx, c, http.MethodPost, "/runs/"+url.PathEscape(id)+"/cancel", nil, nil)
}

// RetryRun runs again what has ended, from a step on unless that is "", and returns the new
// run.
func (c *Client) RetryRun(ctx context.Context, id, fromStep string) (nightcrier.Run, error) {
	return callJSON[nightcrier.Run](ctx, c, http.MethodPost, "/runs/"+url.PathEscape(id)+"/retry", queryValues("fromStep", fromStep), nil)
}

// EventQuery selects events; zero fields select all.
type EventQuery struct {
	// Suppressed selects only events that started nothing.
	Suppressed               bool
	Incident, Cluster, Cause string
	Limit                    int
	Cursor                   string
}

// Events returns a page of events, newest first.
func (c *Client) Events(ctx context.Context, q EventQuery) (api.EventList, error) {
	v := queryValues("incident", q.Incident, "cluster", q.Cluster, "reason", q.Cause, "cursor", q.Cursor, "limit", formatNumber(q.Limit))
	if q.Suppressed {
		v.Set("suppressed", "true")
	}
	return getJSON[api.EventList](ctx, c, "/events", v)
}

// Clusters returns the state of all fault sources.
func (c *Client) Clusters(ctx context.Context) (api.ClusterList, error) {
	return getJSON[api.ClusterList](ctx, c, "/clusters", nil)
}

func getJSON[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	return callJSON[T](ctx, c, http.MethodGet, path, q, nil)
}

// callJSON asks for a T; what is not nil is sent as JSON.
func callJSON[T any](ctx context.Context, c *Client, method, path string, q url.Values, what any) (T, error) {
	var out T
	answer, err := c.fetchAnswer(ctx, method, path, q, what)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, nightcrier.Errorf(nightcrier.Internal, "the server's answer is not understood (is it of another version?): %w", err)
	}
	return out, nil
}

func (c *Client) fetchAnswer(ctx context.Context, method, path string, q url.Values, what any) ([]byte, error) {
	header, content, err := jsonBody(what)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	resp, err := c.sendRequest(ctx, method, path, q, header, content)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, unreachableError(ctx, c.base, err)
	}
	return answer, nil
}

// jsonBody returns what a request with a document carries; nothing for nil.
func jsonBody(what any) (http.Header, io.Reader, error) {
	if what == nil {
		return nil, nil, nil
	}
	doc, err := json.Marshal(what)
	if err != nil {
		return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if call, ok := what.(keyedCall); ok && call.key != "" {
		header.Set("Idempotency-Key", call.key)
	}
	return header, bytes.NewReader(doc), nil
}

// sendRequest returns the answer of a request that succeeded.
func (c *Client) sendRequest(ctx context.Context, method, path string, q url.Values, header http.Header, content io.Reader) (*http.Response, error) {
	target := c.base + "/api/v1" + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	maps.Copy(req.Header, header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachableError(ctx, c.base, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readProblem(resp)
}

func unreachableError(ctx context.Context, base string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nightcrier.Errorf(nightcrier.Interrupted, "interrupted")
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	if nightcrier.CodeOf(err) == nightcrier.Unreachable {
		return err // the socket's own error names its path
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "no answer from %s: %w", base, err)
}

// readProblem reads a problem. An answer that is none comes from something that is
// not nightcrier.
func readProblem(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var p api.Problem
	if kind != "application/problem+json" || json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&p) != nil || p.Code == "" {
		return nightcrier.Errorf(nightcrier.Unreachable, "%s answered %s; is a nightcrier server there?", resp.Request.URL.Host, resp.Status)
	}
	return nightcrier.Errorf(p.Code, "%s", p.Detail)
}

// queryValues pairs names with values and leaves out what is empty.
func queryValues(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func formatNumber(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
