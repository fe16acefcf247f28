package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
)

// Step is a call of a tool on the way to an answer.
type Step struct {
	Tool string `json:"tool_name"`
}

// AskIncident asks about an incident and returns the question with its answer; step is told what is
// done meanwhile. Where the stream breaks off, the question is kept and goes on being answered.
func (c *Client) AskIncident(ctx context.Context, id string, ask api.NewQuestion, step func(Step)) (q nightcrier.Question, err error) {
	header, content, err := jsonBody(ask)
	if err != nil {
		return q, err
	}
	header.Set("Accept", "text/event-stream")
	resp, err := c.sendRequest(ctx, http.MethodPost, "/incidents/"+url.PathEscape(id)+"/ask", nil, header, content)
	if err != nil {
		return q, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	event := ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "event":
			event = value
		case field != "data":
		case event == "iteration":
			var s Step
			if json.Unmarshal([]byte(value), &s) == nil {
				step(s)
			}
		default:
			if err := json.Unmarshal([]byte(value), &q); err != nil {
				return q, nightcrier.Errorf(nightcrier.Internal, "the server's answer is not understood (is it of another version?): %w", err)
			}
			if event == "answer" {
				return q, nil
			}
		}
	}
	if ctx.Err() != nil {
		return q, nightcrier.Errorf(nightcrier.Interrupted, "interrupted; the question is kept, and its answer will be")
	}
	return q, unreachableError(ctx, c.base, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// Questions returns what was asked about an incident, and answered.
func (c *Client) Questions(ctx context.Context, id string) (nightcrier.Conversation, error) {
	return getJSON[nightcrier.Conversation](ctx, c, "/incidents/"+url.PathEscape(id)+"/questions", nil)
}
