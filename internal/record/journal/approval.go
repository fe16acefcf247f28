package journal

import (
	"encoding/json"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Approval is that people are asked, or have decided.
type Approval struct {
	ID      string                    `json:"approvalId"`
	Kind    nightcrier.ApprovalKind   `json:"kind"`
	Status  nightcrier.ApprovalStatus `json:"status"`
	Prompt  string                    `json:"prompt"`
	Server  string                    `json:"server,omitempty"`
	Tool    string                    `json:"tool,omitempty"`
	Digest  string                    `json:"digest"`
	Outcome string                    `json:"outcome"`
	// Arguments are those that count.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Approvers may decide, while nobody has.
	Approvers []string `json:"approvers,omitempty"`
}

// OfApproval makes the item of an approval as it stands.
func OfApproval(a nightcrier.Approval) Item {
	e := Approval{ID: a.ID, Kind: a.Kind, Status: a.Status, Prompt: a.Prompt, Server: a.Server, Tool: a.Tool, Digest: a.Digest, Outcome: a.Outcome(), Arguments: a.CallArguments()}
	if a.Status == nightcrier.ApprovalPending {
		e.Approvers = a.Entitled()
	}
	return Item{nightcrier.EntryApproval, e}
}

func approvalText(a Approval) string {
	said := text.FoldLine(a.Prompt)
	if a.Status != nightcrier.ApprovalPending {
		return said + ": " + a.Outcome
	}
	return said + ": waits for " + strings.Join(a.Approvers, ", ") + " (nightcrier approvals show " + a.ID + ")"
}
