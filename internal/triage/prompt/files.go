package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of context/logs.txt, in bytes.
const (
	maxLog  = 256 << 10
	maxLogs = 2 << 20
)

// contextFiles makes the files that an agent can look things up in.
func contextFiles(in Input) (map[string][]byte, error) {
	event, err := eventFile(in.Event)
	if err != nil {
		return nil, err
	}
	incident, err := encodeJSON(in.Incident)
	if err != nil {
		return nil, err
	}
	cluster, err := encodeJSON(in.ClusterInfo)
	if err != nil {
		return nil, err
	}
	permissions, err := encodeJSON(orUnknown(in.Permissions))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"context/incident.json":             incident,
		"context/event.json":                event,
		"context/cluster-info.json":         cluster,
		"context/logs.txt":                  logsFile(in.Logs, in.Event.Logs),
		"incident_cluster_permissions.json": permissions,
	}
	if len(in.TriageReport) > 0 {
		files[triageFile] = in.TriageReport
	}
	for name, text := range map[string]string{runbooksFile: runbooksText(in.Runbooks), earlierFile: earlierText(in.Earlier)} {
		if text != "" {
			files[name] = []byte(text)
		}
	}
	for name, data := range files {
		files[name] = []byte(in.Mask(string(data)))
	}
	return files, nil
}

// eventFile is the payload as received; an event that came without one is
// written as we know it.
func eventFile(ev nightcrier.Event) ([]byte, error) {
	if raw := bytes.TrimSpace(ev.Raw); len(raw) > 0 && json.Valid(raw) {
		return ev.Raw, nil
	}
	return encodeJSON(ev)
}

// logsFile joins the excerpts, ours first. The end of a log matters most, so
// that is what is kept.
func logsFile(logs []Log, fromEvent []nightcrier.ContainerLog) []byte {
	var b strings.Builder
	for _, l := range logs {
		name := l.Namespace + "/" + l.Pod + " container " + l.Container
		writeLog(&b, name, l.Previous, l.Evidence, l.Text)
	}
	for _, l := range fromEvent {
		text := l.Sample
		if text == "" && l.Error != "" {
			text = "(not available: " + l.Error + ")"
		}
		writeLog(&b, "container "+l.Container+" (sent with the event)", l.Previous, "", text)
	}
	if b.Len() == 0 {
		return []byte("(no logs were available)\n")
	}
	return []byte(b.String())
}

func writeLog(b *strings.Builder, name string, previous bool, evidence, said string) {
	if b.Len() >= maxLogs {
		return
	}
	if previous {
		name += ", previous instance"
	}
	if evidence != "" {
		name += ", evidence " + evidence
	}
	fmt.Fprintf(b, "==> %s <==\n", text.FoldLine(name))
	if len(said) > maxLog {
		said = said[len(said)-maxLog:]
		fmt.Fprintf(b, "[cut: the last %d KiB]\n", maxLog>>10)
	}
	b.WriteString(strings.ToValidUTF8(strings.TrimRight(said, "\n"), "�"))
	b.WriteString("\n\n")
}
