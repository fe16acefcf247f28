package skill

import (
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Notification is who is told when a run has ended, and how it has to have ended for that.
type Notification struct {
	Channel string `json:"channel"`
	// On are outcomes; none means success and failure.
	On []string `json:"on,omitempty"`
}

// Channels are those by which people can be told.
func Channels() []string { return []string{"slack"} }

// The outcomes of a run that people are told of. Always is also one that was cancelled, or that a
// newer one took the place of.
const (
	onSuccess = "success"
	onFailure = "failure"
	onError   = "error" // another word for failure
	onAlways  = "always"
)

// CheckOutcome refuses what is no outcome.
func CheckOutcome(s string) error {
	if all := []string{onSuccess, onFailure, onError, onAlways}; !slices.Contains(all, s) {
		return fmt.Errorf("is %.64q: write one of %s", s, strings.Join(all, ", "))
	}
	return nil
}

// Holds reports whether people are told of something that ended so.
func (n Notification) Holds(outcome nightcrier.State) bool {
	said := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(n.On, w) })
	}
	switch outcome {
	case nightcrier.StateSuccess:
		return len(n.On) == 0 || said(onSuccess, onAlways)
	case nightcrier.StateFailed, nightcrier.StateTimeout:
		return len(n.On) == 0 || said(onFailure, onError, onAlways)
	case nightcrier.StateCancelled:
		return said(onAlways)
	}
	return false
}
