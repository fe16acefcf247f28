package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"nightcrier.dev/nightcrier"
)

// Bounds of a list whose server never says that it is over.
const (
	maxPages   = 10_000
	maxObjects = 2_000_000
)

// ListEach calls each with every selected object as JSON while the answer comes
// in, page by page: never is more than one object held. It returns the
// resourceVersion from which a watch goes on without a gap. The objects are
// valid during the call only; those of a typed list do not name their kind.
//
// When the list's place expires between two pages the error is ErrGone: start
// again, with what was seen so far forgotten. An error of each ends the list.
func (c *Client) ListEach(ctx context.Context, sel Selection, each func(object []byte) error) (resourceVersion string, err error) {
	k, q, err := c.collectionOf(ctx, sel)
	if err != nil {
		return "", err
	}
	q.Set("limit", strconv.Itoa(MaxItems))
	each = atMost(maxObjects, sel, each)
	for range maxPages {
		p, err := c.readPage(ctx, request{what: "list " + sel.String(), path: k.Path(sel.Namespace), query: q, accept: acceptJSON}, each)
		if err != nil {
			return "", err
		}
		if p.Continue == "" {
			return p.ResourceVersion, nil
		}
		if p.Continue == q.Get("continue") {
			break
		}
		q.Set("continue", p.Continue)
	}
	return "", nightcrier.Errorf(nightcrier.Unreachable, "list %s: %s never ends the list", sel, c.base.Host)
}

// Newest returns the resourceVersion from which a watch of the selected objects begins,
// without reading more than one of them.
func (c *Client) Newest(ctx context.Context, sel Selection) (resourceVersion string, err error) {
	k, q, err := c.collectionOf(ctx, sel)
	if err != nil {
		return "", err
	}
	q.Set("limit", "1")
	p, err := c.readPage(ctx, request{what: "list " + sel.String(), path: k.Path(sel.Namespace), query: q, accept: acceptJSON}, func([]byte) error { return nil })
	return p.ResourceVersion, err
}

// atMost is each for the first n objects.
func atMost(n int, sel Selection, each func([]byte) error) func([]byte) error {
	return func(object []byte) error {
		if n--; n < 0 {
			return nightcrier.Errorf(nightcrier.Exhausted, "list %s: there are too many objects", sel)
		}
		return each(object)
	}
}

// listMeta is the metadata of one page.
type listMeta struct {
	ResourceVersion string `json:"resourceVersion"`
	Continue        string `json:"continue"`
}

func (c *Client) readPage(ctx context.Context, r request, each func([]byte) error) (listMeta, error) {
	s, err := c.openStream(ctx, r)
	if err != nil {
		return listMeta{}, err
	}
	defer s.close()
	s.idle = c.timeout
	return s.readList(each)
}

// readList reads a List: its metadata, and its items one by one.
func (s *stream) readList(each func([]byte) error) (meta listMeta, err error) {
	in := json.NewDecoder(s)
	if err := s.readDelimiter(in, '{'); err != nil {
		return meta, err
	}
	for in.More() {
		s.allowNextValue()
		field, err := in.Token()
		if err != nil {
			return meta, s.truncatedError(err)
		}
		switch field {
		case "metadata":
			err = in.Decode(&meta)
		case "items":
			if err := s.readItems(in, each); err != nil {
				return meta, err
			}
		default:
			var other json.RawMessage
			err = in.Decode(&other)
		}
		if err != nil {
			return meta, s.truncatedError(err)
		}
	}
	if err := s.readDelimiter(in, '}'); err != nil {
		return meta, err
	}
	if meta.ResourceVersion == "" {
		return meta, nightcrier.Errorf(nightcrier.Unreachable, "%s: %s sent a list without a resourceVersion", s.what, s.client.base.Host)
	}
	return meta, nil
}

// readItems reads the array.
func (s *stream) readItems(in *json.Decoder, each func([]byte) error) error {
	start, err := in.Token()
	if err != nil {
		return s.truncatedError(err)
	}
	if start == nil { // an empty list may have null
		return nil
	}
	if start != json.Delim('[') {
		return nightcrier.Errorf(nightcrier.Unreachable, "%s: items of %s's answer are no array", s.what, s.client.base.Host)
	}
	var object json.RawMessage
	for in.More() {
		s.allowNextValue()
		object = object[:0]
		if err := in.Decode(&object); err != nil {
			return s.truncatedError(err)
		}
		if err := each(object); err != nil {
			return err
		}
	}
	return s.readDelimiter(in, ']')
}

func (s *stream) readDelimiter(in *json.Decoder, want json.Delim) error {
	got, err := in.Token()
	if err != nil {
		return s.truncatedError(err)
	}
	if got != want {
		return nightcrier.Errorf(nightcrier.Unreachable, "%s: answer of %s is no list", s.what, s.client.base.Host)
	}
	return nil
}

// truncatedError is brokenError for an answer that has an end of its own.
func (s *stream) truncatedError(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return s.brokenError(err)
}
