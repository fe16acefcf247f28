package api

import (
	"encoding/json"
	"net/http"
	"time"

	"nightcrier.dev/nightcrier"
)

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status string `json:"status"`
	// Detail says what is not ready.
	Detail string `json:"detail,omitempty"`
}

// ClusterHealth is the answer of /health/clusters. It tells states only, no
// addresses and no error texts: the health listener may be public.
type ClusterHealth struct {
	Total      int            `json:"total"`
	Subscribed int            `json:"subscribed"`
	Clusters   []ClusterState `json:"clusters"`
}

// ClusterState is one source of a cluster's faults, in ClusterHealth.
type ClusterState struct {
	Cluster     string                 `json:"cluster"`
	Source      string                 `json:"source,omitempty"`
	State       nightcrier.SourceState `json:"state"`
	Since       time.Time              `json:"since,omitzero"`
	LastEventAt time.Time              `json:"lastEventAt,omitzero"`
	// ReadOnly tells whether the cluster's credential can do nothing but read: yes,
	// no, unknown, or none without a credential.
	ReadOnly string `json:"readOnly,omitempty"`
}

func (a *API) healthRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", a.answerAlive)
	mux.HandleFunc("GET /readyz", a.answerReady)
	mux.HandleFunc("GET /health/clusters", a.clusterHealth)
	if a.opt.Metrics != nil {
		mux.Handle("GET /metrics", a.opt.Metrics)
	}
}

func (a *API) answerAlive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, Health{Status: "ok"})
}

func (a *API) answerReady(w http.ResponseWriter, r *http.Request) {
	if a.opt.Ready == nil {
		writeJSON(w, http.StatusServiceUnavailable, Health{Status: "unready", Detail: "no server runs"})
		return
	}
	if err := a.opt.Ready(r.Context()); err != nil {
		a.log.Warn("not ready", "error", err)
		writeJSON(w, http.StatusServiceUnavailable, Health{Status: "unready", Detail: string(nightcrier.CodeOf(err))})
		return
	}
	writeJSON(w, http.StatusOK, Health{Status: "ok"})
}

func (a *API) clusterHealth(w http.ResponseWriter, _ *http.Request) {
	out := ClusterHealth{Clusters: []ClusterState{}}
	for _, s := range a.opt.Clusters.Statuses() {
		out.Total++
		if s.State == nightcrier.SourceSubscribed {
			out.Subscribed++
		}
		state := ClusterState{Cluster: s.Cluster, Source: s.Source, State: s.State, Since: s.Since, LastEventAt: s.LastEventAt}
		if s.Access != nil {
			state.ReadOnly = s.Access.ReadOnly
		}
		out.Clusters = append(out.Clusters, state)
	}
	writeJSON(w, http.StatusOK, out)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone cannot be told
}
