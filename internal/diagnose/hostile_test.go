package diagnose

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// Whatever text the cluster lets an attacker write stays a quoted, bounded,
// single line, and never becomes part of a command or of the verdict.
func TestHostileTextStaysData(t *testing.T) {
	p := scenetest.Pod(scenetest.Crashing(3, "Error", time.Second), func(p *corev1.Pod) {
		p.Spec.Containers[0].Name = scenetest.HostileText
		st := &p.Status.ContainerStatuses[0]
		st.Name, st.State.Waiting.Message = scenetest.HostileText, scenetest.HostileText
		st.LastTerminationState.Terminated.Message = scenetest.HostileText
	})
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: "cart.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "cart"},
		Type:           corev1.EventTypeWarning, Reason: scenetest.HostileText, Message: strings.Repeat(scenetest.HostileText, 1000),
		LastTimestamp: metav1.NewTime(scenetest.Now),
	}
	c := newCluster(p, event)
	c.logs["cart/"+scenetest.HostileText+"/true"] = strings.Repeat("fatal: "+scenetest.HostileText, 1000)
	in, m := input(c, scenetest.CartPod)
	in.Event.Context = scenetest.HostileText
	d := run(t, in)
	sound(t, d, m)

	r := d.Report
	if r.RootCause == nil || r.RootCause.Cause != "crash-on-start" {
		t.Errorf("the text decided: %+v", r.RootCause)
	}
	for _, h := range r.Hypotheses {
		if strings.Contains(h.Falsification.Command, "shadow") || strings.Contains(h.Falsification.Command, "incident") {
			t.Errorf("the text is in a command: %q", h.Falsification.Command)
		}
	}
	quoted := false
	for _, f := range r.Facts {
		quoted = quoted || strings.Contains(f.Quote, "@/etc/shadow")
	}
	if !quoted {
		t.Error("the text was hidden rather than quoted")
	}
	if body, err := json.Marshal(d.ClusterInfo); err != nil || strings.Contains(string(body), "shadow") {
		t.Errorf("cluster info %s, %v", body, err)
	}
}

func TestHostileNamesMakeNoCommandAndNoRead(t *testing.T) {
	for _, name := range []string{"-A", "--all", "a b", "a;reboot", "$(reboot)", "../x", "@/etc/shadow", "a\nb", ""} {
		target := nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: name}
		in, m := input(newCluster(), target)
		d := run(t, in)
		sound(t, d, m)
		for _, s := range m.sources {
			if strings.HasPrefix(s, "kubectl") && strings.Contains(s, name) && name != "" && name[0] != '-' {
				t.Errorf("%q was read: %s", name, s)
			}
		}
		for _, h := range d.Report.Hypotheses {
			if h.Falsification.Command != "" {
				t.Errorf("%q became a command: %q", name, h.Falsification.Command)
			}
		}
	}
}
