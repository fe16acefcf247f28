package agent

import (
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// A result is a checkpoint and a row: an agent that prints megabytes where a
// word belongs does not get them there.
func TestResultIsBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for _, line := range []string{
		fmt.Sprintf(`{"type":"result","subtype":%q,"session_id":%q,"result":%q,"errors":[%q],"is_error":true}`, big, big, big, big),
		fmt.Sprintf(`{"type":"result","subtype":"success","terminal_reason":%q,"session_id":%q,"is_error":true}`, big, big),
		fmt.Sprintf(`{"type":"result","subtype":"success","session_id":%q,"result":%q}`, big, big),
	} {
		p := newClaudeParser()
		p.Stdout([]byte(line), false)
		r := Decide(Stop{}, p.Verdict(), process.Exit{}, "")
		if len(r.SessionID)+len(r.TerminalEvent)+len(r.FailureReason) > 4<<10 || len(r.FinalMessage) > maxFinal+8 {
			t.Errorf("session %d, terminal %d, reason %d, message %d bytes", len(r.SessionID), len(r.TerminalEvent), len(r.FailureReason), len(r.FinalMessage))
		}
	}
}
