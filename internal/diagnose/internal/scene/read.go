package scene

// LogExcerpt is the end of one container's log.
type LogExcerpt struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Previous  bool   `json:"previous,omitempty"`
	// Evidence is the id under which the excerpt was recorded.
	Evidence string `json:"evidence"`
	Text     string `json:"text"`
	// Source is how it was read, "" for the kubelet's log.
	Source string `json:"-"`
}

// Ref says where something was read.
type Ref struct {
	Evidence string
	Source   string
}

// Read is an object and where it was read.
type Read[T any] struct {
	Object T
	Ref    Ref
}
