package diagnose

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// Whatever text the cluster lets an attacker write stays a quoted, bounded,
// single line, and never becomes part of a command or of the verdict.
func TestHostileTextStaysData(t *testing.T) {
	p := pod(crashing(3, "Error", time.Second), func(p *corev1.Pod) {
		p.Spec.Containers[0].Name = hostile
		st := &p.Status.ContainerStatuses[0]
		st.Name, st.State.Waiting.Message = hostile, hostile
		st.LastTerminationState.Terminated.Message = hostile
	})
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: "cart.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "cart"},
		Type:           corev1.EventTypeWarning, Reason: hostile, Message: strings.Repeat(hostile, 1000),
		LastTimestamp: metav1.NewTime(now),
	}
	c := newCluster(p, event)
	c.logs["cart/"+hostile+"/true"] = strings.Repeat("fatal: "+hostile, 1000)
	in, m := input(c, cart)
	in.Event.Context = hostile
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

func TestErrorLine(t *testing.T) {
	cases := []struct{ name, log, want string }{
		{"empty", "", ""},
		{"last line", "starting\nlistening\n\n", "listening"},
		{"go", "starting\npanic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()", "panic: runtime error: index out of range"},
		{"python", "Traceback (most recent call last):\n  File \"x.py\"\nValueError: no such colour\n", "ValueError: no such colour"},
		{"java", "at x.Y\nCaused by: java.net.ConnectException: refused\n\tat z", "Caused by: java.net.ConnectException: refused"},
		{"grave before telling", "FATAL: no database\nerror: closing\nbye", "FATAL: no database"},
		{"dotnet", "Unhandled exception. SqlException (0x80131904): Login failed\n   at Sql.OnError(SqlException exception)", "Unhandled exception. SqlException (0x80131904): Login failed"},
		{"telling", "ok\nconnection refused\nbye", "connection refused"},
		{"the last of its kind", "error one\nerror two\nbye", "error two"},
		{"no word of it", "terrors of the deep\nbye", "bye"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := errorLine(c.log); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
