package budget

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// What a record says.
const (
	opReserve = "reserve" // so much may be spent
	opSettle  = "settle"  // so much was, in place of what was reserved
	opRelease = "release" // the call was not made
	opSum     = "sum"     // settled calls of a run, in place of their records
	opRefuse  = "refuse"  // a limit is reached
	opWait    = "wait"    // a run waits until what is held for others is settled
)

// record is one line of a day's file. Records are numbered from 1, so that one that
// is lost is missed.
type record struct {
	N    int64     `json:"n"`
	At   time.Time `json:"at"`
	Op   string    `json:"op"`
	Call string    `json:"call,omitempty"` // reserve, settle, release; of wait the ticket
	// Ticket is what a call has waited with.
	Ticket string `json:"ticket,omitempty"` // reserve
	Who
	Model string `json:"model,omitempty"`
	// Amount is what is reserved, or was spent.
	Amount
	Price *price.Price  `json:"price,omitempty"` // reserve
	Used  *price.Tokens `json:"used,omitempty"`  // settle
	Calls int64         `json:"calls,omitempty"` // sum
	// Scope and Reason are which limit is reached, and why; of wait, which is crowded.
	Scope  string `json:"scope,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// maxLine bounds a record, in bytes.
const maxLine = 16 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeLine returns the record with a checksum before it and a newline behind.
func (r record) encodeLine() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	line := fmt.Appendf(make([]byte, 0, len(text)+10), "%08x %s\n", crc32.Checksum(text, castagnoli), text)
	if len(line) > maxLine {
		return nil, fmt.Errorf("a record of %d bytes is over the bound of %d", len(line), maxLine)
	}
	return line, nil
}

// parseRecord reads a line without its newline. One that was not written whole is not ok.
func parseRecord(line []byte) (r record, ok bool) {
	sum, text, found := bytes.Cut(line, []byte(" "))
	if !found || len(line) > maxLine || string(sum) != fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli)) {
		return r, false
	}
	return r, json.Unmarshal(text, &r) == nil
}
