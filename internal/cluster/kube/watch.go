package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Change is one event of a watch.
type Change struct {
	// Type is Opened, Added, Modified, Deleted or Bookmark.
	Type string
	// Object is the object as JSON, of a deleted one its last state. Opened and
	// Bookmark have none.
	Object []byte
	// ResourceVersion is where a watch goes on after this change.
	ResourceVersion string
}

// The types of changes. Opened comes first and says that the watch stands.
const (
	Opened   = "OPENED"
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
)

// watchSlack is how much longer than asked for a watch may stand.
const watchSlack = 30 * time.Second

// Watch calls each with every change after the resourceVersion, in order, until
// the server ends the watch after about the given time (nil), it breaks, or each
// fails (with its error). The objects are valid during the call only.
//
// ErrGone, told by errors.Is, means that changes were missed and a fresh list is
// needed; after any other end the watch may be resumed from the last change.
func (c *Client) Watch(ctx context.Context, sel Selection, resourceVersion string, lasting time.Duration, each func(Change) error) error {
	k, q, err := c.collectionOf(ctx, sel)
	if err != nil {
		return err
	}
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	q.Set("resourceVersion", resourceVersion)
	q.Set("timeoutSeconds", strconv.Itoa(max(1, int(lasting.Seconds()))))
	ctx, cancel := context.WithTimeout(ctx, lasting+watchSlack)
	defer cancel()
	s, err := c.openStream(ctx, request{what: "watch " + sel.String(), path: k.Path(sel.Namespace), query: q, accept: acceptJSON})
	if err != nil {
		return err
	}
	defer s.close()
	if err := each(Change{Type: Opened, ResourceVersion: resourceVersion}); err != nil {
		return err
	}
	return s.readChanges(each)
}

// readChanges reads watch events to the end.
func (s *stream) readChanges(each func(Change) error) error {
	in := json.NewDecoder(s)
	var event struct {
		Type   string
		Object json.RawMessage
	}
	for {
		s.allowNextValue()
		event.Type, event.Object = "", event.Object[:0]
		err := in.Decode(&event)
		if errors.Is(err, io.EOF) { // a whole number of events came
			return nil
		}
		if err != nil {
			return s.brokenError(err)
		}
		change, err := s.parseChange(event.Type, event.Object)
		if err != nil {
			return err
		}
		if err := each(change); err != nil {
			return err
		}
	}
}

func (s *stream) parseChange(kind string, object []byte) (Change, error) {
	switch kind {
	case Added, Modified, Deleted, Bookmark:
	case "ERROR":
		return Change{}, s.statusError(object)
	default:
		return Change{}, nightcrier.Errorf(nightcrier.Unreachable, "%s: %s sent a change of type %q", s.what, s.client.base.Host, text.CutBytes(kind, 32))
	}
	var meta struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &meta); err != nil {
		return Change{}, s.brokenError(err)
	}
	rv := meta.Metadata.ResourceVersion
	if rv == "" {
		return Change{}, nightcrier.Errorf(nightcrier.Unreachable, "%s: %s sent an object without a resourceVersion", s.what, s.client.base.Host)
	}
	c := Change{Type: kind, ResourceVersion: rv}
	if kind != Bookmark {
		c.Object = object
	}
	return c, nil
}

// statusError reads the Status with which a watch ends.
func (s *stream) statusError(status []byte) error {
	var st struct {
		Code   int
		Reason string
	}
	if err := json.Unmarshal(status, &st); err != nil {
		return s.brokenError(err)
	}
	err := s.client.refusalError(s.what, st.Code, status)
	if st.Code == http.StatusGone || st.Reason == "Expired" || st.Reason == "Gone" {
		return nightcrier.Errorf(nightcrier.NotFound, "%w: %w", ErrGone, err)
	}
	return err
}
