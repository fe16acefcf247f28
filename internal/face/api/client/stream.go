package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

const (
	// maxLine bounds one line of a stream.
	maxLine = 16 << 20
	// maxSilent is how many times in a row a stream may break without having
	// brought anything, before that is an error.
	maxSilent = 30
)

// JournalQuery chooses what is read of an incident's journal.
type JournalQuery struct {
	// Run is a run of the incident, its newest when empty.
	Run string
	// From is the first sequence number; 0 and 1 are the beginning.
	From int64
	// Follow goes on until the run has ended, also across a restart of the server;
	// without it, reading ends behind what is there now.
	Follow bool
}

// Journal calls each for every entry that the query chooses, oldest first.
func (c *Client) Journal(ctx context.Context, id string, q JournalQuery, each func(nightcrier.JournalEntry) error) error {
	return c.follow(ctx, &journal{client: c, path: "/incidents/" + url.PathEscape(id) + "/journal", choose: true, run: q.Run, last: max(0, q.From-1), follow: q.Follow, each: each})
}

// RunJournal is Journal for a run about anything; the query's run is not looked at.
func (c *Client) RunJournal(ctx context.Context, id string, q JournalQuery, each func(nightcrier.JournalEntry) error) error {
	return c.follow(ctx, &journal{client: c, path: "/runs/" + url.PathEscape(id) + "/journal", last: max(0, q.From-1), follow: q.Follow, each: each})
}

func (c *Client) follow(ctx context.Context, s *journal) error {
	for silent := 0; ; silent++ {
		before := s.last
		done, err := s.connectStream(ctx)
		switch {
		case done || ctx.Err() != nil && err != nil:
			return err
		case s.last > before:
			silent = 0
		case silent == maxSilent:
			return errors.Join(err, nightcrier.Errorf(nightcrier.Unreachable, "%s broke off and could not be resumed", s.path))
		}
		select {
		case <-ctx.Done():
			return nightcrier.Errorf(nightcrier.Interrupted, "interrupted")
		case <-time.After(c.retry):
		}
	}
}

type journal struct {
	client *Client
	path   string
	choose bool   // the path leads to several runs
	run    string // set by the first entry when not asked for; a retry must not switch runs
	last   int64
	follow bool
	met    bool // the server was there at least once
	each   func(nightcrier.JournalEntry) error
}

// connectStream reads one stream; done when nothing more is to come, or trying again
// cannot help.
func (s *journal) connectStream(ctx context.Context) (done bool, err error) {
	q := queryValues("follow", strconv.FormatBool(s.follow))
	if s.choose && s.run != "" {
		q.Set("run", s.run)
	}
	header := http.Header{"Accept": {"text/event-stream"}}
	if s.last > 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(s.last, 10))
	}
	resp, err := s.client.sendRequest(ctx, http.MethodGet, s.path, q, header, nil)
	if err != nil {
		return !s.met || nightcrier.CodeOf(err) != nightcrier.Unreachable, err
	}
	defer resp.Body.Close()
	s.met = true
	return s.readEvents(ctx, resp.Body)
}

func (s *journal) readEvents(ctx context.Context, body io.Reader) (done bool, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	event, data := "", ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "" && event == "end":
			return true, nil
		case lines.Text() == "" && data != "":
			if err := s.handleEntry(data); err != nil {
				return true, err
			}
			event, data = "", ""
		case field == "event":
			event = value
		case field == "data":
			data += value
		}
	}
	if ctx.Err() != nil {
		return true, nightcrier.Errorf(nightcrier.Interrupted, "interrupted")
	}
	if !s.follow && lines.Err() == nil {
		return true, nil
	}
	return false, unreachableError(ctx, s.client.base, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

func (s *journal) handleEntry(data string) error {
	var e nightcrier.JournalEntry
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "a journal entry is not understood: %w", err)
	}
	s.run, s.last = e.Run, e.Seq
	return s.each(e)
}
