package run

import (
	"context"
	"errors"
	"os"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// The files that show a run's journal to people.
const (
	AgentLogFile = "output/agent.log"
	commandsFile = "logs/agent-commands-executed.log"
)

// maxAgentLog is where agent.log ends, in bytes; the journal goes on.
const maxAgentLog = 16 << 20

// agentLog renders the journal into the two files. They are views: whoever opens
// them again writes them anew from the journal, so that a restart neither loses
// nor doubles a line.
type agentLog struct {
	log, commands *os.File
	written       int
	seen          map[string]bool // keys rendered already
}

// openAgentLog renders what the journal holds so far and stays open for more.
func (s *Session) openAgentLog(ctx context.Context) (*agentLog, error) {
	l := &agentLog{seen: map[string]bool{}}
	var err error
	if l.log, err = createFile(s.Workspace, AgentLogFile); err != nil {
		return nil, err
	}
	if l.commands, err = createFile(s.Workspace, commandsFile); err != nil {
		return nil, errors.Join(err, l.log.Close())
	}
	if err := s.EachEntry(ctx, func(e nightcrier.JournalEntry) error {
		if s.place.own && e.Step != s.place.step {
			return nil // it is nothing to who is beside it
		}
		return l.addEntry(e)
	}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// makeAgentLog makes the files before there is an agent: a server that dies while it
// starts one leaves them beside it.
func (s *Session) makeAgentLog(ctx context.Context) error {
	l, err := s.openAgentLog(ctx)
	if err != nil {
		return err
	}
	return l.Close()
}

// renderLog writes the files once more, now with how the run ended. The journal is
// the record: where the files cannot be written the run ends all the same.
func (s *Session) renderLog(ctx context.Context) {
	l, err := s.openAgentLog(ctx)
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		s.Log.Warn("agent.log is not complete", "event", "agent_log", "error", err)
	}
}

func createFile(ws *workspace.Workspace, rel string) (*os.File, error) {
	if err := ws.WriteFile(rel, nil, 0o600); err != nil {
		return nil, err
	}
	path, err := ws.Path(rel)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
}

// addEntry renders one entry, unless it was rendered before. The entries are masked
// already.
func (l *agentLog) addEntry(e nightcrier.JournalEntry) error {
	if l.seen[e.Key] {
		return nil
	}
	l.seen[e.Key] = true
	if _, err := l.commands.WriteString(journal.Command(e, nil)); err != nil {
		return err
	}
	line := journal.AgentLog(e, nil)
	if l.written >= maxAgentLog || len(line) == 0 {
		return nil
	}
	if l.written += len(line); l.written >= maxAgentLog {
		line = append(line, "… agent.log ends here: it reached its limit; the journal goes on\n"...)
	}
	_, err := l.log.Write(line)
	return err
}

// Close closes both files.
func (l *agentLog) Close() error { return errors.Join(l.log.Close(), l.commands.Close()) }
