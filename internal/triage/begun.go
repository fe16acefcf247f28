package triage

import (
	"context"
	"encoding/json"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run"
)

// BegunFile has what a run began with.
const BegunFile = workspace.RecordDir + "/begun.json"

// Begun is what a run began with. It stands in the workspace, so that the investigation
// can be made again where the store is not.
type Begun struct {
	Incident nightcrier.Incident `json:"incident"`
	Event    nightcrier.Event    `json:"event"`
	// Payload is the event's, as it came: a document in a document is formatted anew.
	Payload string         `json:"payload,omitempty"`
	Run     nightcrier.Run `json:"run"`
	Order   run.Order      `json:"order"`
	// Evidence is how many items were kept by earlier runs of the incident.
	Evidence int `json:"evidence"`
	// Workspace is where the run's files were.
	Workspace string `json:"workspace"`
	// Context is the one of kubectl by which the cluster was known.
	Context string `json:"context,omitempty"`
	Access  Access `json:"access"`
}

// Access says whether an agent may look into the cluster, and what is to be known of
// that.
type Access struct {
	Granted bool   `json:"granted"`
	Why     string `json:"why,omitempty"`
	// Namespaces are those that it may read; none means all.
	Namespaces []string `json:"namespaces,omitempty"`
}

// accessOf is what an agent gets.
func accessOf(cred *backend.Credential, why string) Access {
	if cred == nil {
		return Access{Why: why}
	}
	return Access{true, why, cred.Namespaces}
}

// newBegun is what this run begins with. Its access is that of the agent as long as it is not
// started.
func (s *session) newBegun(ctx context.Context) (b Begun, err error) {
	b = Begun{
		Incident: s.Incident, Order: s.Order, Evidence: len(s.Evidence.Items()), Workspace: s.Workspace.Dir(), Context: s.Clusters.Context(s.Incident.Cluster),
		Access: accessOf(s.Clusters.Access(ctx, s.Incident.Cluster, s.Incident.Namespace())),
	}
	b.Run, err = s.Store.Run(ctx, s.Order.RunID)
	return b, err
}

// writeBegun writes it down, with the event that led there.
func (s *session) writeBegun(b Begun, ev nightcrier.Event) error {
	b.Payload, b.Event = string(ev.Raw), ev
	b.Event.Raw = nil
	raw, err := json.Marshal(b)
	if err == nil {
		raw, err = s.Mask.Strings(raw)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "%s: %w", BegunFile, err)
	}
	return s.Workspace.WriteFile(BegunFile, raw, 0o600)
}

// ReadBegun reads what a run began with. It is an Invalid error where that is none.
func ReadBegun(raw []byte) (b Begun, err error) {
	if err := json.Unmarshal(raw, &b); err != nil {
		return b, nightcrier.Errorf(nightcrier.Invalid, "%s cannot be read: %w", BegunFile, err)
	}
	b.Event.Raw = []byte(b.Payload)
	return b, nil
}
