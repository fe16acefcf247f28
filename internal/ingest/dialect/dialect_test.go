package dialect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

// want is what a capture must be read as, in one line:
// dialect fault-type severity resource container reason.
var captures = map[string]string{
	"current.notification.events.BackOff.real-crashloop":                "events CrashLoop critical faults/Pod/real-crashloop app -",
	"current.notification.events.BackoffLimitExceeded.real-job":         "events JobFailure critical faults/Job/real-job - -",
	"current.notification.events.Created.real-crashloop":                "events Created info faults/Pod/real-crashloop - not_a_fault",
	"current.notification.events.Created.real-job":                      "events Created info faults/Pod/real-job-zlr74 - not_a_fault",
	"current.notification.events.Created.real-never":                    "events Created info faults/Pod/real-never - not_a_fault",
	"current.notification.events.ErrImageNeverPull.real-deploy":         "events ImagePull error faults/Pod/real-deploy-844c6b447c-krsjr - -",
	"current.notification.events.ErrImageNeverPull.real-imagepull":      "events ImagePull error faults/Pod/real-imagepull - -",
	"current.notification.events.Failed.real-deploy":                    "events ImagePull error faults/Pod/real-deploy-844c6b447c-krsjr - -",
	"current.notification.events.Failed.real-imagepull":                 "events ImagePull error faults/Pod/real-imagepull - -",
	"current.notification.events.Pulled.real-crashloop":                 "events Pulled info faults/Pod/real-crashloop - not_a_fault",
	"current.notification.events.Pulled.real-job":                       "events Pulled info faults/Pod/real-job-zlr74 - not_a_fault",
	"current.notification.events.Pulled.real-never":                     "events Pulled info faults/Pod/real-never - not_a_fault",
	"current.notification.events.ScalingReplicaSet.real-deploy":         "events ScalingReplicaSet info faults/Deployment/real-deploy - not_a_fault",
	"current.notification.events.Scheduled.real-crashloop":              "events Scheduled info faults/Pod/real-crashloop - not_a_fault",
	"current.notification.events.Scheduled.real-deploy":                 "events Scheduled info faults/Pod/real-deploy-844c6b447c-krsjr - not_a_fault",
	"current.notification.events.Scheduled.real-imagepull":              "events Scheduled info faults/Pod/real-imagepull - not_a_fault",
	"current.notification.events.Scheduled.real-job":                    "events Scheduled info faults/Pod/real-job-zlr74 - not_a_fault",
	"current.notification.events.Scheduled.real-never":                  "events Scheduled info faults/Pod/real-never - not_a_fault",
	"current.notification.events.Started.real-crashloop":                "events Started info faults/Pod/real-crashloop - not_a_fault",
	"current.notification.events.Started.real-job":                      "events Started info faults/Pod/real-job-zlr74 - not_a_fault",
	"current.notification.events.Started.real-never":                    "events Started info faults/Pod/real-never - not_a_fault",
	"current.notification.events.SuccessfulCreate.real-deploy":          "events SuccessfulCreate info faults/ReplicaSet/real-deploy-844c6b447c - not_a_fault",
	"current.notification.events.SuccessfulCreate.real-job":             "events SuccessfulCreate info faults/Job/real-job - not_a_fault",
	"current.notification.faults.CrashLoop.crashy":                      "faults CrashLoop critical default/Pod/crashy app -",
	"current.notification.faults.CrashLoop.real-crashloop":              "faults CrashLoop critical faults/Pod/real-crashloop app -",
	"current.notification.faults.CrashLoop.synth":                       "faults CrashLoop critical faults/Pod/synth app -",
	"current.notification.faults.DeploymentFailure.real-deploy":         "faults DeploymentFailure critical faults/Deployment/real-deploy - -",
	"current.notification.faults.JobFailure.real-job":                   "faults JobFailure critical faults/Job/real-job - -",
	"current.notification.faults.PodCrash.synth":                        "faults PodCrash warning faults/Pod/synth - -",
	"legacy.notification.faults.BackOff.crashy":                         "legacy-faults CrashLoop critical default/Pod/crashy app -",
	"legacy.notification.faults.BackOff.real-crashloop":                 "legacy-faults CrashLoop critical faults/Pod/real-crashloop app -",
	"legacy.notification.faults.ErrImageNeverPull.real-deploy":          "legacy-faults ImagePull error faults/Pod/real-deploy-844c6b447c-bs24b c -",
	"legacy.notification.faults.ErrImageNeverPull.real-imagepull":       "legacy-faults ImagePull error faults/Pod/real-imagepull app -",
	"legacy.notification.faults.Failed.real-deploy":                     "legacy-faults ImagePull error faults/Pod/real-deploy-844c6b447c-bs24b c -",
	"legacy.notification.faults.Failed.real-imagepull":                  "legacy-faults ImagePull error faults/Pod/real-imagepull app -",
	"legacy.notification.resource-faults.CrashLoop.real-crashloop":      "resource-faults CrashLoop critical faults/Pod/real-crashloop app -",
	"legacy.notification.resource-faults.CrashLoop.synth":               "resource-faults CrashLoop critical faults/Pod/synth app -",
	"legacy.notification.resource-faults.DeploymentFailure.real-deploy": "resource-faults DeploymentFailure critical faults/Deployment/real-deploy - -",
	"legacy.notification.resource-faults.JobFailure.real-job":           "resource-faults JobFailure critical faults/Job/real-job - -",
	"legacy.notification.resource-faults.PodCrash.synth":                "resource-faults PodCrash warning faults/Pod/synth - -",
}

func summary(ev nightcrier.Event) string {
	fields := []string{ev.Dialect, ev.FaultType, ev.Severity.String(), ev.Resource.String(), ev.Container, string(ev.Reason)}
	for i, f := range fields {
		if f == "" {
			fields[i] = "-"
		}
	}
	return strings.Join(fields, " ")
}

func TestCaptures(t *testing.T) {
	files, err := filepath.Glob("testdata/mcp-*.json")
	if err != nil || len(files) != len(captures) {
		t.Fatalf("%d captures in testdata, %d expected (%v)", len(files), len(captures), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "mcp-"), ".json")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			checkCapture(t, raw, captures[name])
		})
	}
}

// checkCapture parses the notification in all its wrappings.
func checkCapture(t *testing.T, raw []byte, want string) {
	t.Helper()
	var msg struct {
		Params struct {
			Data json.RawMessage `json:"data"`
		} `json:"params"`
	}
	if err := json.Unmarshal(raw, &msg); err != nil {
		t.Fatal(err)
	}
	ev, err := dialect.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(ev); got != want {
		t.Errorf("read as\n %s, want\n %s", got, want)
	}
	if ev.SubscriptionID == "" || ev.Cluster != "local" || ev.OccurredAt.IsZero() || ev.FaultID == "" || ev.Resource.UID == "" {
		t.Errorf("incomplete: %+v", ev)
	}
	if string(ev.Raw) != string(raw) {
		t.Error("Raw is not what came")
	}
	bare, err := dialect.Parse(msg.Params.Data)
	if err != nil || bare.FaultType != ev.FaultType || bare.FaultID != ev.FaultID {
		t.Errorf("the bare data object reads differently: %+v, %v", bare, err)
	}
}

func TestLogsOfLegacyFaults(t *testing.T) {
	raw, err := os.ReadFile("testdata/mcp-legacy.notification.faults.BackOff.crashy.json")
	if err != nil {
		t.Fatal(err)
	}
	ev, err := dialect.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(ev.Logs) != 2 || !strings.HasPrefix(ev.Logs[0].Sample, "FATAL: cannot connect") || !ev.Logs[1].Previous {
		t.Errorf("logs: %+v", ev.Logs)
	}
}

// The sender's own ids must come out when we compute them.
func TestFaultIDMatchesTheSenders(t *testing.T) {
	for _, name := range []string{"CrashLoop.crashy", "CrashLoop.real-crashloop", "CrashLoop.synth", "DeploymentFailure.real-deploy", "JobFailure.real-job"} {
		raw, err := os.ReadFile("testdata/mcp-current.notification.faults." + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		ev, err := dialect.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := dialect.FaultID("local", ev.FaultType, ev.Resource, ev.Container); got != ev.FaultID {
			t.Errorf("%s: computed %s, the sender says %s", name, got, ev.FaultID)
		}
	}
	noUID := func(name string) string {
		return dialect.FaultID("c", "CrashLoop", nightcrier.Resource{Kind: "Pod", Name: name}, "")
	}
	if noUID("a") == noUID("b") {
		t.Error("two pods without a UID share an id")
	}
}

const pod = `{"apiVersion":"v1","kind":"Pod","name":"p","namespace":"n","uid":"u"}`

func TestShapes(t *testing.T) {
	tests := []struct{ name, data, want string }{
		{"node has no namespace", `{"faultType":"NodeUnhealthy","severity":"critical","resource":{"apiVersion":"v1","kind":"Node","name":"n1","uid":"uid-n1"},"context":"Node became unhealthy"}`, "resource-faults NodeUnhealthy critical Node/n1 - -"},
		{"event of a node lies in default", `{"event":{"namespace":"default","type":"Warning","reason":"SystemOOM","involvedObject":{"kind":"Node","name":"n1"}}}`, "events NodePressure error Node/n1 - -"},
		{"namespace from the event", `{"event":{"namespace":"n","type":"Warning","reason":"Unhealthy","involvedObject":{"kind":"Pod","name":"p"}}}`, "events ProbeFailed warning n/Pod/p - -"},
		{"not ready is a fault though Normal", `{"event":{"type":"Normal","reason":"NodeNotReady","involvedObject":{"kind":"Node","name":"n1"}}}`, "events NodeUnhealthy critical Node/n1 - -"},
		{"benign warning", `{"event":{"type":"Warning","reason":"InvalidDiskCapacity","involvedObject":{"kind":"Node","name":"n1"}}}`, "events InvalidDiskCapacity info Node/n1 - not_a_fault"},
		{"back-off of a pull", `{"event":{"type":"Warning","reason":"BackOff","message":"Back-off pulling image \"x\"","involvedObject":` + pod + `}}`, "events ImagePull error n/Pod/p - -"},
		{"failed pull", `{"event":{"type":"Warning","reason":"Failed","message":"Failed to pull image \"x\": 404","involvedObject":` + pod + `}}`, "events ImagePull error n/Pod/p - -"},
		{"failed otherwise", `{"event":{"type":"Warning","reason":"Failed","message":"Error: exec: no such file","involvedObject":` + pod + `}}`, "events StartFailure error n/Pod/p - -"},
		{"unknown reason", `{"event":{"type":"Warning","reason":"Odd","involvedObject":` + pod + `}}`, "events Odd warning n/Pod/p - -"},
		{"scheduling", `{"event":{"type":"Warning","reason":"FailedScheduling","message":"0/3 nodes","involvedObject":` + pod + `}}`, "events Unschedulable error n/Pod/p - -"},
		{"mount", `{"event":{"type":"Warning","reason":"FailedMount","involvedObject":` + pod + `}}`, "events FailedMount error n/Pod/p - -"},
		{"unknown severity does not hide", `{"faultType":"X","severity":"purple","resource":` + pod + `}`, "resource-faults X warning n/Pod/p - -"},
		{"missing severity is the type's", `{"faultType":"CrashLoop","resource":` + pod + `}`, "resource-faults CrashLoop critical n/Pod/p - -"},
		{"another name of the type", `{"faultType":"CrashLoopBackOff","severity":"high","resource":` + pod + `}`, "resource-faults CrashLoop error n/Pod/p - -"},
		{"subscription error", `{"subscriptionId":"sub-1","cluster":"c","error":"Watch connection failed","degraded":true}`, "subscription_error SubscriptionError warning / - subscription_error"},
		{"context as a list of logs", `{"faultType":"PodCrash","resource":` + pod + `,"context":[{"container":"app","sample":"boom"}]}`, "resource-faults PodCrash warning n/Pod/p app -"},
		{"context as a string of a list", `{"faultType":"PodCrash","resource":` + pod + `,"context":"[{\"container\":\"app\",\"sample\":\"boom\"}]"}`, "resource-faults PodCrash warning n/Pod/p app -"},
		{"logs of two containers name none", `{"event":{"type":"Warning","reason":"Odd","involvedObject":` + pod + `},"logs":[{"container":"a"},{"container":"b"}]}`, "legacy-faults Odd warning n/Pod/p - -"},
		{"unreadable time is no time", `{"faultType":"X","resource":` + pod + `,"timestamp":12}`, "resource-faults X warning n/Pod/p - -"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ev, err := dialect.Parse([]byte(`{"data":` + tt.data + `,"level":"warning","logger":"kubernetes/x"}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(ev); got != tt.want {
				t.Errorf("read as\n %s, want\n %s", got, tt.want)
			}
		})
	}
}

func TestTimestampOfAnEvent(t *testing.T) {
	ev, err := dialect.Parse([]byte(`{"event":{"type":"Warning","reason":"Odd","timestamp":"0001-01-01T00:00:00Z","lastTimestamp":"2026-11-20T05:40:04Z","involvedObject":` + pod + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 11, 20, 5, 40, 4, 0, time.UTC); !ev.OccurredAt.Equal(want) {
		t.Errorf("occurred at %v, want %v", ev.OccurredAt, want)
	}
}
