package triage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/text"
)

// maxNamed bounds the objects that a look at a cluster names.
const maxNamed = 20

// health is what a look at a whole cluster, or at a namespace of it, came to. Troubled counts the
// objects that are in trouble; Incomplete says what could not be looked at.
type health struct {
	Cluster    string              `json:"cluster"`
	Namespace  string              `json:"namespace,omitempty"`
	Healthy    bool                `json:"healthy"`
	Verdict    nightcrier.Verdict  `json:"verdict"`
	Troubled   int                 `json:"troubled"`
	Objects    []nightcrier.Object `json:"objects,omitempty"`
	Cause      string              `json:"cause"`
	Incomplete string              `json:"incomplete"`
	// Summary is the same in words.
	Summary string `json:"summary"`
	// Failure is why nothing could be looked at, "" for most.
	Failure string `json:"failure,omitempty"`
}

// lookAtHealth is an action for runs about anything: our rules look at a cluster that the input
// names. An agent has no part in it.
func (t *Triage) lookAtHealth(w *run.Work) (run.Done, error) {
	found, err := checkpoint(t, w, "look", func(c context.Context, s *session) (health, error) { return s.readHealth(c) })
	done := run.Done{Result: w.Result}
	switch {
	case err != nil:
		return done, err
	case found.Failure != "":
		done.Class, done.Reason = nightcrier.FailInternal, found.Failure
		return done, nil
	}
	done.Output, err = json.Marshal(found)
	return done, err
}

// readHealth looks. What cannot be repeated is said in the result.
func (s *session) readHealth(ctx context.Context) (health, error) {
	h := health{}
	if h.Cluster, h.Namespace = s.Target(); s.Incident.ID == "" {
		if names := s.Clusters.Names(); h.Cluster == "" && len(names) == 1 {
			h.Cluster = names[0]
		} else if !slices.Contains(names, h.Cluster) {
			h.Failure = describeNoCluster(h.Cluster, names)
			return h, nil
		}
	}
	if s.Workspace == nil {
		h.Failure = s.NoWorkspace.Error()
		return h, nil
	}
	if err := s.OpenEvidence(ctx); err != nil {
		return h, err
	}
	about := kinds.WholeCluster(h.Cluster)
	if h.Namespace != "" {
		about = nightcrier.Resource{Kind: "Namespace", Name: h.Namespace}
	}
	s.Incident = nightcrier.Incident{Cluster: h.Cluster, Resource: about, Severity: nightcrier.Warning, StartedAt: s.Now()}
	look, err := s.beginLook(ctx, s.Step(), nightcrier.Event{Cluster: h.Cluster, Resource: about})
	if err != nil {
		return h, err
	}
	d, err := s.diagnose(ctx, look, look.Sources)
	if err = errors.Join(err, look.close()); err != nil {
		return h, err
	}
	if len(s.Evidence.Items()) == 0 && d.Incomplete != "" { // nothing of it was read
		h.Failure = "the cluster " + h.Cluster + " could not be looked at: " + d.Incomplete
		return h, nil
	}
	h.Incomplete = d.Incomplete
	h.addReport(&d.Report)
	h.describe()
	return h, nil
}

// describeNoCluster says why there is no cluster to look at, and what to do.
func describeNoCluster(cluster string, configured []string) string {
	switch named := strings.Join(configured, ", "); {
	case named == "":
		return "no cluster is configured: name one in clusters, and restart the server"
	case cluster == "":
		return "several clusters are configured: name one of " + named + " as cluster"
	default:
		return fmt.Sprintf("the input names the cluster %.64q, which is not configured: name one of %s as cluster", cluster, named)
	}
}

// addReport takes what the rules found.
func (h *health) addReport(rep *nightcrier.Report) {
	h.Verdict, h.Troubled, h.Objects = rep.Verdict, len(rep.Scope.Affected), rep.Scope.Affected[:min(len(rep.Scope.Affected), maxNamed)]
	if rep.RootCause != nil {
		h.Cause = rep.RootCause.Summary
	}
	h.Healthy = h.Troubled == 0 && h.Cause == "" && h.Incomplete == ""
}

// describe puts it into words.
func (h *health) describe() {
	where := h.Cluster
	if h.Namespace != "" {
		where += ", namespace " + h.Namespace
	}
	var b strings.Builder
	if h.Troubled == 0 && h.Cause == "" {
		fmt.Fprintf(&b, "%s: nothing was found to be in trouble.", where)
	} else {
		fmt.Fprintf(&b, "%s: %d objects are in trouble.", where, h.Troubled)
	}
	if h.Cause != "" {
		fmt.Fprintf(&b, "\n%s", h.Cause)
	}
	for _, o := range h.Objects {
		fmt.Fprintf(&b, "\n- %s", o)
	}
	if more := h.Troubled - len(h.Objects); more > 0 {
		fmt.Fprintf(&b, "\n… and %d more", more)
	}
	if h.Incomplete != "" {
		fmt.Fprintf(&b, "\nNot all could be looked at: %s", h.Incomplete)
	}
	h.Summary = text.CutBytes(b.String(), maxSummary)
}

// maxSummary bounds the words, in bytes.
const maxSummary = 4 << 10
