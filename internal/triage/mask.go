package triage

import (
	"encoding/json"
	"fmt"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
)

// spareNames has the names of what an incident is about never be taken for secrets.
func spareNames(m *mask.Masker, inc *nightcrier.Incident) {
	m.Spare(inc.Cluster, inc.Resource.Namespace, inc.Resource.Name, inc.Owner.Namespace, inc.Owner.Name)
}

// maskReport masks a report by all that was learned in its run: its facts may have been
// read before one of them was known for a secret.
func maskReport(m *mask.Masker, rep *nightcrier.Report) error {
	raw, err := json.Marshal(rep)
	if err == nil {
		raw, err = m.Strings(raw)
	}
	if err != nil {
		return fmt.Errorf("mask the report: %w", err)
	}
	*rep = nightcrier.Report{}
	return json.Unmarshal(raw, rep)
}
