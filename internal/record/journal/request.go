package journal

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// The decisions on a request.
const (
	Allow = "allow"
	Deny  = "deny"
)

// Request is one request to a cluster as its guard saw it: first what was decided,
// and, once Done, what came of it.
type Request struct {
	// ID pairs the two entries of one request within an attempt.
	ID          int64     `json:"id"`
	Time        time.Time `json:"time"`
	Verb        string    `json:"verb"`
	Group       string    `json:"group,omitempty"`
	Version     string    `json:"version,omitempty"`
	Resource    string    `json:"resource,omitempty"`
	Subresource string    `json:"subresource,omitempty"`
	Namespace   string    `json:"namespace,omitempty"`
	Name        string    `json:"name,omitempty"`
	Query       string    `json:"query,omitempty"`
	Decision    string    `json:"decision"`
	Reason      string    `json:"reason,omitempty"`
	Done        bool      `json:"done,omitempty"`
	// Status and Bytes are those of the answer as it was handed on, Masked counts the
	// values that were hidden in it. SHA256 is that of the evidence it was kept as,
	// else of the answer.
	Status   int    `json:"status,omitempty"`
	Bytes    int64  `json:"bytes,omitempty"`
	Masked   int    `json:"masked,omitempty"`
	SHA256   string `json:"sha256,omitempty"`
	Evidence string `json:"evidence,omitempty"`
}

// guardTool names the guard where an agent's tools are named.
const guardTool = "cluster"

// OfRequest makes the entry of a request: a denial when it was refused, else
// evidence.
func OfRequest(r Request) Item {
	if r.Decision == Deny {
		return OfDenial(Denial{Tool: guardTool, Command: r.String(), Message: r.Reason, Request: &r})
	}
	return OfEvidence(Evidence{ID: r.Evidence, Kind: "request", Source: r.String(), Bytes: int(r.Bytes), SHA256: r.SHA256, Request: &r})
}

// RequestOf returns the request that an entry tells of, nil for every other entry.
func RequestOf(e nightcrier.JournalEntry) (*Request, error) {
	switch e.Type {
	case nightcrier.EntryEvidence:
		v, err := Decode[Evidence](e)
		return v.Request, err
	case nightcrier.EntryDenial:
		v, err := Decode[Denial](e)
		return v.Request, err
	}
	return nil, nil
}

// String says in kubectl's words what was asked: "get pods/log cart-1 -n shop".
func (r Request) String() string {
	what, query := r.Resource, r.Query
	if what == "" {
		what, query = r.Query, "" // such as /version
	}
	if r.Group != "" {
		what += "." + r.Group
	}
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	words := []string{r.Verb, what, r.Name}
	if r.Namespace != "" {
		words = append(words, "-n", r.Namespace)
	}
	if plain, err := url.QueryUnescape(query); err == nil && query != "" {
		words = append(words, "?"+plain)
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// evidenceText is the line of an evidence entry; "" where the answer will have one,
// and for what a client asks to find its way, which is in the audit.
func evidenceText(v Evidence) string {
	if v.Request == nil {
		return v.ID + " " + v.Source
	}
	if wayfinding := v.Request.Resource == "" && v.Request.Status < 400; wayfinding || !v.Request.Done {
		return ""
	}
	id := v.ID
	switch {
	case id == "" && v.Request.Status < 400 && v.Request.Bytes == 0:
		id = "none, the answer is empty:"
	case id == "":
		id = "not kept:"
	}
	return fmt.Sprintf("%s %s (%d, %d bytes)", id, v.Source, v.Request.Status, v.Request.Bytes)
}
