package nightcrier

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// EntryType is the kind of a journal entry.
type EntryType string

// The journal's vocabulary, the same for every executor.
const (
	EntryState      EntryType = "state"
	EntryMessage    EntryType = "message"
	EntryToolCall   EntryType = "tool_call"
	EntryToolResult EntryType = "tool_result"
	EntryEvidence   EntryType = "evidence"
	EntryDenial     EntryType = "denial"
	EntryUsage      EntryType = "usage"
	EntryLog        EntryType = "log"
	EntryError      EntryType = "error"
	EntryPhase      EntryType = "phase"    // the gate that ended one
	EntryApproval   EntryType = "approval" // people are asked, or have decided
)

// JournalEntry is one line of a run's journal: append-only, numbered from 1,
// chained by hash.
type JournalEntry struct {
	Run     string          `json:"run"`
	Seq     int64           `json:"seq"`
	Time    time.Time       `json:"time"`
	Step    string          `json:"step,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Type    EntryType       `json:"type"`
	Data    json.RawMessage `json:"data"`
	// Key makes an append idempotent: a second entry of the same run and key is
	// dropped. It names what happened ("launch#1", "worker#1/17").
	Key  string `json:"key"`
	Prev string `json:"prev,omitempty"`
	Hash string `json:"hash,omitempty"`
}

// ChainHash returns the hash that e must carry when its predecessor's is prev.
func (e JournalEntry) ChainHash(prev string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%d\n%s\n%s\n%d\n%s\n%s\n", prev, e.Run, e.Seq,
		e.Time.UTC().Format(time.RFC3339Nano), e.Step, e.Attempt, e.Type, e.Key)
	h.Write(e.Data)
	return hex.EncodeToString(h.Sum(nil))
}
