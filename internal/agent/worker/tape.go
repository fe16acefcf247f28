package worker

import (
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/record/replay"
)

// openTape begins the tape of the attempt, where there is somebody to ask: tool servers,
// or sources of metrics and logs. In a replay the record answers in their place.
func (a *attempt) openTape() error {
	asks := a.executor.UsesTools || a.executor.ToolPrefix != ""
	if !asks || len(a.spec.ToolServers) == 0 && a.secret.Sources == nil && a.spec.Record == "" {
		return nil
	}
	file, err := a.newTapeFile()
	if err == nil {
		a.tape, err = replay.NewRecorder(a.spec.RunID, replay.Agent(a.spec.Attempt), "", a.mask.Bytes, file)
	}
	switch {
	case a.spec.Record != "" && err != nil:
		return err // a replayed run has to have a tape of its own
	case a.spec.Record != "":
		return a.playRecord()
	case err != nil:
		a.appendNote("warn", "what the tools of others, metrics and logs answer is not kept: "+err.Error())
		return nil
	}
	a.take = a.tape.Take
	return a.noteSources()
}

// playRecord answers from the record alone. A question that it lacks is refused; where it cannot
// be read, all are.
func (a *attempt) playRecord() error {
	then, err := replay.AgentTape(a.spec.Record, a.spec.Attempt)
	if err != nil {
		a.appendNote("warn", err.Error())
		then = replay.Blank()
	}
	a.take, a.secret.Sources = a.tape.Again(then), nil
	var on sourcesOnTape
	if then.Peek(tapeSources, &on) == nil {
		a.secret.Sources = on.replayAccess()
	}
	return a.noteSources()
}

// closeTape ends the tape, where there is one, and gives the file its name.
func (a *attempt) closeTape() {
	if a.tape == nil {
		return
	}
	if err := a.tape.Close(); err != nil {
		a.log.Warn("what others answered is not kept", "error", err)
		a.lacksRoom("the record of what others answered", err)
	}
}

// noteSources keeps which sources there are.
func (a *attempt) noteSources() error {
	if a.secret.Sources == nil {
		return nil
	}
	on := sourcesOf(*a.secret.Sources)
	return a.take(tapeSources, &on, func() error { return nil })
}

const tapeSources = "sources"

// sourcesOnTape are the sources of an agent, nil for one that there is not: for each the
// label of the namespace, by which its queries are bounded.
type sourcesOnTape struct {
	Prometheus *string  `json:"prometheus,omitempty"`
	Loki       *string  `json:"loki,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
}

func sourcesOf(a data.Access) sourcesOnTape {
	label := func(e *data.Endpoint) *string {
		if e == nil {
			return nil
		}
		return &e.NamespaceLabel
	}
	return sourcesOnTape{label(a.Prometheus), label(a.Loki), a.Namespaces}
}

// replayAccess is the same sources for a replay, at an address that is never asked.
func (s sourcesOnTape) replayAccess() *data.Access {
	endpoint := func(label *string) *data.Endpoint {
		if label == nil {
			return nil
		}
		return &data.Endpoint{URL: "http://" + replay.Host, NamespaceLabel: *label}
	}
	return &data.Access{Prometheus: endpoint(s.Prometheus), Loki: endpoint(s.Loki), Namespaces: s.Namespaces}
}

// tapeFile is a tape that is being written. It gets its name when it is whole.
type tapeFile struct {
	*os.File
	ws         *os.Root
	part, name string
}

// newTapeFile makes the file, out of the agent's reach.
func (a *attempt) newTapeFile() (*tapeFile, error) {
	ws, err := a.openWorkspace()
	if err != nil {
		return nil, err
	}
	name := filepath.FromSlash(replay.File(replay.Agent(a.spec.Attempt)))
	f := &tapeFile{ws: ws, part: name + ".part", name: name}
	err = ws.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = ws.RemoveAll(f.part)
	}
	if err == nil {
		f.File, err = ws.OpenFile(f.part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		ws.Close()
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "%s: %w", name, err)
	}
	return f, nil
}

// Close implements io.Closer.
func (f *tapeFile) Close() error {
	defer f.ws.Close()
	if err := f.File.Close(); err != nil {
		return err
	}
	return f.ws.Rename(f.part, f.name)
}
