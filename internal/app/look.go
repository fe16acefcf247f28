package app

import (
	"nightcrier.dev/nightcrier/internal/guard/kept"
	"nightcrier.dev/nightcrier/internal/run"
)

// Look opens a cluster for a step of a run, and keeps what the step asks and is answered in
// the run's workspace.
func (c *clusters) Look(l run.Look) (run.View, error) {
	step, err := kept.BeginStep(l.Workspace, l.RunID, l.Step, c.version, l.Mask)
	if err != nil {
		return run.View{}, err
	}
	audit := step.Audit(l.Audit)
	view, err := step.Keep(kept.Cluster{
		Reader: c.reader(l.Cluster, l.Mask, audit), Sources: c.newSources(l.Cluster, l.Mask, audit), Now: c.reachOf(l.Cluster).Now(),
	})
	return run.View{Cluster: view, Close: step.Close}, err
}
