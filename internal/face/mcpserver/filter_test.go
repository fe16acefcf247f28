package mcpserver

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
)

func filtersOf(t *testing.T, mode, args string) (filters, error) {
	t.Helper()
	a, err := subscribeParams.Read(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	return readFilters(a, mode)
}

func TestFiltersOfFaults(t *testing.T) {
	pod := nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-1"}
	crash := detect.Fault{Type: "CrashLoop", Resource: pod, Owner: nightcrier.Resource{Kind: "Deployment", Namespace: "shop", Name: "cart"}}
	node := detect.Fault{Type: "NodeNotReady", Resource: nightcrier.Resource{Kind: "Node", Name: "n1"}, Owner: nightcrier.Resource{Kind: "Node", Name: "n1"}}
	cases := []struct {
		args        string
		crash, node bool
	}{
		{`{}`, true, true},
		{`{"namespaces":["shop"]}`, true, false},
		{`{"namespaces":["other","shop"]}`, true, false},
		{`{"namespaces":["other"]}`, false, false},
		{`{"involvedNamespace":"shop"}`, true, false},
		{`{"involvedKind":"Pod"}`, true, false},
		{`{"involvedKind":"deployment"}`, true, false},
		{`{"involvedKind":"Node"}`, false, true},
		{`{"involvedName":"cart"}`, true, false},
		{`{"involvedName":"cart-1","involvedKind":"Pod"}`, true, false},
		{`{"involvedName":"cart","involvedKind":"Pod"}`, false, false},
		{`{"reason":"crash"}`, true, false},
		{`{"type":"Warning"}`, true, true},
	}
	for _, c := range cases {
		f, err := filtersOf(t, modeFaults, c.args)
		if err != nil || f.selectsFault(crash) != c.crash || f.selectsFault(node) != c.node {
			t.Errorf("%s: %t %t, %v", c.args, f.selectsFault(crash), f.selectsFault(node), err)
		}
	}
}

func TestFiltersOfEvents(t *testing.T) {
	e := &corev1.Event{Type: "Warning", Reason: "BackOff", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "cart-1"}}
	e.Namespace = "shop"
	for args, want := range map[string]bool{
		`{}`: true, `{"type":"Warning"}`: true, `{"type":"Normal"}`: false, `{"reason":"Back"}`: true, `{"reason":"Off"}`: false,
		`{"namespaces":["shop"]}`: true, `{"namespaces":["x"]}`: false, `{"involvedName":"cart-1"}`: true, `{"involvedName":"cart"}`: false,
	} {
		f, err := filtersOf(t, modeEvents, args)
		if err != nil || f.selectsEvent(e) != want {
			t.Errorf("%s: %t, %v", args, f.selectsEvent(e), err)
		}
	}
}

func TestWrongFilters(t *testing.T) {
	many := `{"namespaces":["a"` + strings.Repeat(`,"a"`, maxNamespaces) + `]}`
	for _, c := range []struct{ mode, args, says string }{
		{modeFaults, `{"type":"Normal"}`, "invalid subscription filters: faults mode cannot filter for Normal events"},
		{modeEvents, `{"type":"normal"}`, "invalid subscription filters: type must be 'Normal' or 'Warning'"},
		{modeFaults, `{"labelSelector":"app=cart,db_password in (a,b)"}`, "invalid subscription filters: nothing is selected by what the label db_password holds"},
		{modeEvents, `{"labelSelector":"a=b,,"}`, "invalid subscription filters: invalid label selector"},
		{modeEvents, `{"namespaces":["../x"]}`, "invalid subscription filters: resource namespace"},
		{modeEvents, `{"involvedName":"a/b"}`, "invalid subscription filters: resource name"},
		{modeEvents, many, "more than 100 namespaces"},
	} {
		_, err := filtersOf(t, c.mode, c.args)
		if nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60s: %v", c.args, err)
		}
	}
}
