package worker

import (
	"nightcrier.dev/nightcrier/internal/guard/kept"
)

// keepAnswers begins the record of what others answer, where there is somebody to ask: tool
// servers, or sources of metrics and logs.
func (a *attempt) keepAnswers() error {
	asks := a.executor.UsesTools || a.executor.ToolPrefix != ""
	if !asks || len(a.spec.ToolServers) == 0 && a.secret.Sources == nil && a.spec.Record == "" {
		return nil
	}
	ws, err := a.openWorkspace()
	if err == nil {
		a.kept, err = kept.BeginAttempt(ws, kept.AttemptOptions{
			RunID: a.spec.RunID, Attempt: a.spec.Attempt, Mask: a.mask.Bytes, Sources: a.secret.Sources, From: a.spec.Record,
		})
	}
	switch {
	case err == nil:
		a.secret.Sources = a.kept.Sources
		if a.kept.Lacking != nil {
			a.appendNote("warn", a.kept.Lacking.Error())
		}
		return nil
	case a.spec.Record != "":
		return err // nobody is to be asked, and nothing answers
	}
	a.appendNote("warn", "what the tools of others, metrics and logs answer is not kept: "+err.Error())
	return nil
}

// endAnswers ends the record.
func (a *attempt) endAnswers() {
	if err := a.kept.Close(); err != nil {
		a.log.Warn("what others answered is not kept", "error", err)
		a.lacksRoom("the record of what others answered", err)
	}
}
