package agentruntime

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// newDelivery returns the incident as a source would have delivered it.
func (i *Incident) newDelivery() (nightcrier.Delivery, error) {
	if i == nil {
		return nightcrier.Delivery{}, nightcrier.Errorf(nightcrier.Invalid, "RunAgent was given no incident")
	}
	if err := nightcrier.CheckID(i.ID); err != nil {
		return nightcrier.Delivery{}, nightcrier.Errorf(nightcrier.Invalid, "Incident.ID %q is not a UUID in lower case", i.ID)
	}
	if _, known := nightcrier.ParseSeverity(i.Severity); i.Severity != "" && !known {
		return nightcrier.Delivery{}, nightcrier.Errorf(nightcrier.Invalid, "Incident.Severity %q is not one of info, warning, error, critical", i.Severity)
	}
	raw, err := i.completePayload()
	return nightcrier.Delivery{Source: "agentruntime", Cluster: cmp.Or(i.Cluster, "local"), ReceivedAt: time.Now(), IncidentID: i.ID, Raw: raw}, err
}

// completePayload is EventData, completed by what the incident says and it does not.
func (i *Incident) completePayload() (json.RawMessage, error) {
	data, err := i.eventObject()
	if err != nil {
		return nil, err
	}
	for field, value := range i.eventFields() {
		if _, there := data[field]; there {
			continue
		}
		if data[field], err = json.Marshal(value); err != nil {
			return nil, nightcrier.Errorf(nightcrier.Internal, "encode Incident.%s: %w", field, err)
		}
	}
	return json.Marshal(data)
}

// eventObject is the data object of EventData, whatever stands around it.
func (i *Incident) eventObject() (map[string]json.RawMessage, error) {
	raw := i.EventData
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	for {
		var data map[string]json.RawMessage
		if err := json.Unmarshal(raw, &data); err != nil || data == nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "Incident.EventData is not a JSON object")
		}
		inner := data["params"]
		if inner == nil {
			inner = data["data"]
		}
		if inner == nil {
			return data, nil
		}
		raw = inner
	}
}

// eventFields are the incident's own words for what an event says.
func (i *Incident) eventFields() map[string]any {
	f := map[string]any{}
	if i.Severity != "" {
		f["severity"] = i.Severity
	}
	if !i.Timestamp.IsZero() {
		f["timestamp"] = i.Timestamp.UTC().Format(time.RFC3339Nano)
	}
	if len(i.Logs) > 0 {
		f["logs"] = []map[string]string{{"sample": strings.Join(i.Logs, "\n")}}
	}
	if len(i.EventData) > 0 {
		return f
	}
	f["faultType"] = nightcrier.Asked
	if len(i.Resources) > 0 {
		f["resource"], f["context"] = i.resourceAt(0), i.describeOthers()
	} else if i.Namespace != "" {
		f["resource"] = nightcrier.Resource{APIVersion: "v1", Kind: "Namespace", Name: i.Namespace}
	}
	return f
}

func (i *Incident) resourceAt(n int) nightcrier.Resource {
	r := nightcrier.Resource(i.Resources[n])
	if r.Namespace == "" && r.Kind != "Node" && r.Kind != "Namespace" {
		r.Namespace = i.Namespace
	}
	return r
}

func (i *Incident) describeOthers() string {
	names := []string{}
	for n := 1; n < len(i.Resources); n++ {
		names = append(names, i.resourceAt(n).String())
	}
	if len(names) == 0 {
		return ""
	}
	return "Also involved: " + strings.Join(names, ", ")
}

// translateResult translates an incident that has ended.
func translateResult(inc nightcrier.Incident) *AgentResult {
	r := &AgentResult{IncidentID: inc.ID, Status: translateStatus(inc), WorkspaceDir: inc.Workspace, StartTime: inc.StartedAt, EndTime: inc.CompletedAt, ExitCode: -1}
	switch {
	case inc.ExitCode != nil:
		r.ExitCode = *inc.ExitCode
	case r.Status == StatusSuccess:
		r.ExitCode = 0
	}
	if inc.Status != nightcrier.Resolved {
		r.Error = nightcrier.Errorf(nightcrier.NoReport, "%s: %s", cmp.Or(string(inc.FailureClass), string(inc.Status)), inc.FailureReason)
	}
	if inc.Workspace == "" {
		return r
	}
	r.OutputLog = filepath.Join(inc.Workspace, "output", "agent.log")
	for _, name := range []string{"investigation.md", "report.json", "final-report.md"} {
		path := filepath.Join(inc.Workspace, "output", name)
		if _, err := os.Stat(path); err == nil {
			r.Artifacts = append(r.Artifacts, path)
		}
	}
	for _, a := range inc.Artifacts {
		r.Artifacts = append(r.Artifacts, filepath.Join(inc.Workspace, a.Path))
	}
	return r
}

// translateStatus translates the state of an incident's agent.
func translateStatus(inc nightcrier.Incident) AgentStatus {
	switch {
	case inc.State != "":
		return AgentStatus(inc.State)
	case inc.FailureClass == nightcrier.FailCancelled:
		return StatusCancelled
	case inc.Status.Open():
		return StatusCreated
	}
	return StatusFailed
}
