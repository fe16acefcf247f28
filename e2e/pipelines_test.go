package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// writeLibrary writes what stands below skills/ and pipelines/, and has the server read it from there.
func (s *site) writeLibrary(files map[string]string) {
	s.Helper()
	dir := filepath.Dir(s.root)
	for name, text := range files {
		path := filepath.Join(dir, name)
		s.must(os.MkdirAll(filepath.Dir(path), 0o700))
		s.must(os.WriteFile(path, []byte(text), 0o600))
	}
	s.env["SKILLS_CACHE_DIR"], s.env["PIPELINES_DIR"] = filepath.Join(dir, "skills"), filepath.Join(dir, "pipelines")
}

// callPipeline has somebody call a pipeline, and awaits the end of the run.
func (s *site) callPipeline(a *app.App, pipeline, executor, input string) (run nightcrier.Run, steps []nightcrier.Step) {
	s.Helper()
	queued, err := a.Store().EnqueueRun(s.Context(), store.NewRun{
		Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}, Pipeline: pipeline, Key: pipeline, Executor: executor, Input: json.RawMessage(input),
	})
	s.must(err)
	s.eventually(func() string {
		run, err = a.Store().Run(s.Context(), queued.Run.ID)
		s.must(err)
		if run.Status != nightcrier.Finished {
			return "the run is " + string(run.Status)
		}
		return ""
	})
	steps, err = a.Store().Steps(s.Context(), run.ID)
	s.must(err)
	return run, steps
}
