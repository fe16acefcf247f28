// Package audit renders the requests of a run's journal as audit.jsonl, one line
// a request, and verifies such files.
//
// Each line carries the hash of the line before it, so that a copied file can be
// verified alone: a line that was changed, added or taken out breaks the chain.
// That the end is missing only shows against the head, the last line's hash, which
// is therefore kept elsewhere too: in the report, the log and the message to people.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"nightcrier.dev/nightcrier/internal/record/journal"
)

// Record is one line of audit.jsonl. Its hash is the SHA-256, in hex, of the line
// as it is written, with an empty hash and without its newline.
type Record struct {
	// Seq counts the lines from 1.
	Seq int64 `json:"seq"`
	// Time is when the request was decided.
	Time time.Time `json:"time"`
	// Evidence is the id under which the answer was kept, "" when it was not.
	Evidence    string `json:"evidence"`
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Version     string `json:"version"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	Query       string `json:"query"`
	// Decision is allow or deny, Reason the rule that denied or what went wrong.
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
	// Status, Bytes, Masked and SHA256 tell of the answer; they are zero where there
	// was none.
	Status int    `json:"status"`
	Bytes  int64  `json:"bytes"`
	Masked int    `json:"masked"`
	SHA256 string `json:"sha256"`
	Prev   string `json:"prev"`
	Hash   string `json:"hash"`
}

// newRecord makes the record of a request, without its place in the chain.
func newRecord(r journal.Request) Record {
	return Record{
		Time: r.Time.UTC().Truncate(time.Microsecond), Evidence: r.Evidence, Verb: r.Verb, Group: r.Group, Version: r.Version,
		Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name, Query: r.Query,
		Decision: r.Decision, Reason: r.Reason, Status: r.Status, Bytes: r.Bytes, Masked: r.Masked, SHA256: r.SHA256,
	}
}

// encodeLine returns the record as it is written, without a newline.
func (r Record) encodeLine() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as every other tool writes it
	if err := enc.Encode(r); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// computeHash returns the hash that the record must carry.
func (r Record) computeHash() (string, error) {
	r.Hash = ""
	line, err := r.encodeLine()
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(line)
	return hex.EncodeToString(digest[:]), nil
}
