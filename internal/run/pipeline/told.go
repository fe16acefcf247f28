package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// Notification is who is told when a run has ended, how it has to have ended for that, and what is
// said above the facts.
type Notification struct {
	skill.Notification
	// If and Text are expressions; without them it holds always, and the facts are all.
	If   string `json:"if,omitempty"`
	Text string `json:"text,omitempty"`
}

// String says it in a line.
func (n Notification) String() string {
	said := n.Channel + " on " + cmp.Or(strings.Join(n.On, ", "), "success, failure")
	for _, more := range [][2]string{{", if ", n.If}, {", with the text ", n.Text}} {
		if more[1] != "" {
			said += more[0] + more[1]
		}
	}
	return said
}

// Telling is what is said by a channel.
type Telling struct{ Channel, Text string }

// Tells reports whether anybody may have to be told of a run.
func (f *Frozen) Tells() bool {
	for _, pin := range f.Skills {
		if len(pin.Notifications) > 0 {
			return true
		}
	}
	return len(f.Definition.Notifications) > 0
}

// ListTold is what is to be told of a run that has ended, once a channel. Its steps are the last
// attempt of each. What cannot be computed keeps nobody from being told; the error says what it was.
func (f *Frozen) ListTold(ctx context.Context, run nightcrier.Run, input map[string]any) (list []Telling, wrong error) {
	scope := Scope{Input: input, Subject: run.Subject, Steps: map[string]Result{}}
	outcomes := map[string]nightcrier.State{}
	for _, s := range run.Steps {
		scope.Steps[s.ID], outcomes[s.ID] = ResultOf(s), s.State
	}
	add := func(channel, text string) {
		if !slices.ContainsFunc(list, func(t Telling) bool { return t.Channel == channel }) {
			list = append(list, Telling{channel, text})
		}
	}
	for i, n := range f.Definition.Notifications {
		if !n.Holds(outcomeOf(run)) {
			continue
		}
		yes, text, err := f.Definition.evalNotification(ctx, i, scope)
		if wrong = errors.Join(wrong, err); yes {
			add(n.Channel, text)
		}
	}
	for _, s := range f.Definition.AllSteps() {
		for _, n := range f.Skills[s.Skill].Notifications {
			if n.Holds(outcomes[s.ID]) {
				add(n.Channel, "")
			}
		}
	}
	return list, wrong
}

// outcomeOf is how a run ended, also one that never began.
func outcomeOf(run nightcrier.Run) nightcrier.State {
	switch {
	case run.Status != nightcrier.Dropped:
		return run.Outcome
	case run.Reason == nightcrier.QueueExpired, run.Reason == nightcrier.QueueFull:
		return nightcrier.StateFailed
	}
	return nightcrier.StateCancelled // somebody, or a newer run, took it out of the queue
}

// evalNotification computes whether a notification holds, and its text. One whose condition
// cannot be computed holds.
func (d *Definition) evalNotification(ctx context.Context, i int, s Scope) (yes bool, text string, wrong error) {
	n, at := d.Notifications[i], fmt.Sprintf("%s%d]", notificationName, i)
	yes = true
	if n.If != "" {
		e, err := compileAs(at+".if", n.If)
		if err == nil {
			yes, err = e.Bool(ctx, s.vars())
		}
		if err != nil {
			yes, wrong = true, d.placeError(at+".if", err)
		}
	}
	if n.Text != "" && yes {
		e, err := compileAs(at+".text", n.Text)
		if err == nil {
			text, err = e.Text(ctx, s.vars())
		}
		if err != nil {
			wrong = errors.Join(wrong, d.placeError(at+".text", err))
		}
	}
	return yes, text, wrong
}

// ResultOf is what expressions see of a step that is done.
func ResultOf(s nightcrier.Step) Result {
	r := Result{Success: s.State == nightcrier.StateSuccess}
	_ = json.Unmarshal(s.Output, &r.Output) // none is nil
	for _, a := range s.Artifacts {
		r.Artifacts = append(r.Artifacts, a.Path)
	}
	return r
}
