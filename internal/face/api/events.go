package api

import (
	"context"
	"net/http"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"

	"github.com/danielgtaylor/huma/v2"
)

// EventList is a page of events, newest first.
type EventList struct {
	Events     []nightcrier.Event `json:"events"`
	NextCursor string             `json:"nextCursor,omitempty"`
}

// ClusterList is the state of all fault sources.
type ClusterList struct {
	Clusters []nightcrier.SourceStatus `json:"clusters"`
}

type eventQuery struct {
	Suppressed string `query:"suppressed" enum:"true,false" doc:"Only events that started nothing, or only the others"`
	Incident   string `query:"incident" maxLength:"64" doc:"Only events of this incident"`
	Cluster    string `query:"cluster" maxLength:"253"`
	Reason     string `query:"reason" maxLength:"64"`
	Limit      int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor     string `query:"cursor" maxLength:"256"`
	Raw        bool   `query:"raw" doc:"With the payloads exactly as received"`
}

func (a *API) eventRoutes(h huma.API) {
	huma.Register(h, newOperation("list-events", http.MethodGet, "/events", "Events and what became of them, newest first"), a.listEvents)
	huma.Register(h, newOperation("list-clusters", http.MethodGet, "/clusters", "Clusters and the state of their fault sources"), a.listClusters)
}

func (a *API) listEvents(ctx context.Context, q *eventQuery) (*body[EventList], error) {
	f := store.EventFilter{IncidentID: q.Incident, Cluster: q.Cluster, Reason: nightcrier.Reason(q.Reason), Limit: q.Limit, Cursor: q.Cursor}
	if q.Suppressed != "" {
		only := q.Suppressed == "true"
		f.Suppressed = &only
	}
	list, next, err := a.opt.Events.Events(ctx, f)
	if err != nil {
		return nil, a.problemFor(ctx, err)
	}
	if !q.Raw {
		for i := range list {
			list[i].Raw = nil
		}
	}
	return &body[EventList]{EventList{Events: notNil(list), NextCursor: next}}, nil
}

func (a *API) listClusters(context.Context, *struct{}) (*body[ClusterList], error) {
	return &body[ClusterList]{ClusterList{Clusters: notNil(a.opt.Clusters.Statuses())}}, nil
}
