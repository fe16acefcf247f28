package detect

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// stamp is a time that is zero where the object's spelling of it is unreadable.
type stamp struct{ time.Time }

// UnmarshalJSON never fails.
func (s *stamp) UnmarshalJSON(b []byte) error {
	if len(b) > 2 && len(b) < 64 && b[0] == '"' {
		s.Time, _ = time.Parse(time.RFC3339, string(b[1:len(b)-1]))
	}
	return nil
}

// meta is what is read of an object's metadata.
type meta struct {
	Name       string  `json:"name"`
	Namespace  string  `json:"namespace"`
	UID        string  `json:"uid"`
	Generation int64   `json:"generation"`
	Created    stamp   `json:"creationTimestamp"`
	Deleted    stamp   `json:"deletionTimestamp"`
	Owners     []owner `json:"ownerReferences"`
	Labels     struct {
		Hash string `json:"pod-template-hash"`
	} `json:"labels"`
}

// header is an object of which only the metadata is of interest.
type header struct {
	Meta meta `json:"metadata"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
}

// controllingOwner returns the owner that manages the object, zero without one.
func (m *meta) controllingOwner() owner {
	for _, o := range m.Owners {
		if o.Controller {
			return o
		}
	}
	return owner{}
}

// condition is one entry of status.conditions.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   stamp  `json:"lastTransitionTime"`
	Updated stamp  `json:"lastUpdateTime"`
}

type conditions []condition

// findCondition returns the condition of a type, zero without one.
func (c conditions) findCondition(name string) condition {
	for _, one := range c {
		if one.Type == name {
			return one
		}
	}
	return condition{}
}

func (c condition) hasStatus(status string) bool { return c.Status == status }

// decodeObject reads the fields of into, and what else there is of them when one has
// the wrong type. It is false for what is no object.
func decodeObject(raw []byte, into any) bool {
	err := json.Unmarshal(raw, into)
	var wrong *json.UnmarshalTypeError
	return err == nil || errors.As(err, &wrong)
}

// view is what a reader makes of one object.
type view struct {
	res nightcrier.Resource
	// owner is what a person would mend; the object itself where there is none.
	owner    nightcrier.Resource
	findings []finding
	// healthy: the object says of itself that it works.
	healthy bool
	// leaving: the object is being deleted or is done.
	leaving  bool
	restarts int64
	// notReady marks a node that cannot run Pods.
	notReady bool
}

// finding is a sign of a fault in one object.
type finding struct {
	*cause
	container string
	context   string
	// since is when it began, zero for when it was seen.
	since time.Time
	// slack is patience over that of the cause.
	slack time.Duration
	// happened: it is no state but came to pass at since.
	happened bool
	// progress is a value that changes while things go forward.
	progress uint64
	// owner is somebody else than the object's owner to blame; zero for none.
	owner nightcrier.Resource
}

// asResource names the object of a kind.
func (m *meta) asResource(kind Kind) nightcrier.Resource {
	return nightcrier.Resource{APIVersion: kind.apiVersion(), Kind: string(kind), Namespace: m.Namespace, Name: m.Name, UID: m.UID}
}

// cloneResource returns r in memory of its own, not of the object that it was read from.
func cloneResource(r nightcrier.Resource) nightcrier.Resource {
	r.APIVersion, r.Kind = strings.Clone(r.APIVersion), strings.Clone(r.Kind)
	r.Namespace, r.Name, r.UID = strings.Clone(r.Namespace), strings.Clone(r.Name), strings.Clone(r.UID)
	return r
}
