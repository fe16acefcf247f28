package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/face/mcpserver"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

// The sources of one fault, as an incident names them.
const watched, overMCP, alerted = "watch", "mcp", "webhook"

// hasty is the patience of detectors here.
const hasty = 0.01

// witnesses is one Deployment that crashes on a real API server, and everybody who
// may say so: a watch, an MCP server of ours, an Alertmanager.
type witnesses struct {
	*house
	p       *patient
	reader  string
	mcp     string
	firing  map[string]any
	sources []string
	window  string
	// restarts is what the container's count has come to.
	restarts int32
}

func newWitnesses(t *testing.T, kube *kubetest.Server, dsn string) *witnesses {
	t.Helper()
	h := newHouse(t)
	h.dsn = dsn
	w := &witnesses{house: h, p: newPatient(t, kube), window: "5m", restarts: 4}
	w.reader = kube.ReadOnly(t)
	w.mcp = serveMCP(t, w.reader)
	w.fires("2026-11-20T10:00:00Z")
	t.Cleanup(func() { // or the next one is told of it
		now := int64(0)
		pods := kube.Client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(w.p.ns)
		w.must(pods.Delete(context.Background(), w.p.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	})
	return w
}

// serveMCP is `nightcrier mcp` with less patience.
func serveMCP(t *testing.T, kubeconfig string) string {
	t.Helper()
	client, err := kube.Dial(kubeconfig, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	asIs := func(b []byte) []byte { return b }
	s, err := mcpserver.New(mcpserver.Config{
		Clusters: []mcpserver.Cluster{{Name: "theirs", API: client, Mask: asIs, Tools: kubetool.New(kubetool.Config{Reader: client, Mask: asIs, Cluster: "theirs"})}},
		Class:    intake.ClassOf, OwnerByName: intake.OwnerByName, Version: "e2e", Logger: slog.New(slog.DiscardHandler), Patience: hasty,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return "http://" + l.Addr().String() + mcpserver.Path
}

// serve starts the server anew with these sources; alerts may always come.
func (w *witnesses) serve(sources ...string) {
	w.Helper()
	if w.App != nil {
		w.must(w.Stop(context.Background()))
	}
	cluster := "name: real, kubeconfig: " + w.reader
	if slices.Contains(sources, watched) {
		cluster += ", watch: true"
	}
	if slices.Contains(sources, overMCP) {
		cluster += ", mcp: {endpoint: " + w.mcp + "}"
	}
	text := []string{"listen: 127.0.0.1:0", "clusters: [{" + cluster + "}]", "slack: {webhook_url: " + w.slack.URL + "}", "dedupe_window: " + w.window, "agent: {executor: builtin}"}
	if w.dsn != "" {
		text = append(text, "database_url: "+w.dsn)
	}
	_, err := w.load(nil, text...)
	w.must(err)
	w.sources = sources
	w.run(func(o *app.Options) { o.WatchTimings, o.WatchPatience = watchTimings(), hasty })
}

// fires makes the alert one that began then.
func (w *witnesses) fires(since string) {
	w.firing = alert("KubePodCrashLooping", "firing", since, "namespace="+w.p.ns, "pod="+w.p.pod.Name, "container=app")
}

func (w *witnesses) alert() {
	w.Helper()
	code, body := w.post(w.Addr(), "alertmanager/real", "", notification(w.firing))
	w.want(code == 200, "%d %s", code, body)
}

// resolves ends the alert.
func (w *witnesses) resolves() {
	w.Helper()
	w.firing["status"], w.firing["endsAt"] = "resolved", time.Now().UTC().Format(time.RFC3339)
	w.alert()
}

func (w *witnesses) crashes() {
	w.Helper()
	w.restarts += 4
	w.p.kube.CrashLoop(w.t, w.p.pod, 7, w.restarts)
	w.p.pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.FinishedAt = metav1.Now()
	w.p.kube.UpdateStatus(w.t, w.p.pod)
}

// all lists the incidents of the Deployment, the newest first.
func (w *witnesses) all() []nightcrier.Incident {
	w.Helper()
	return slices.DeleteFunc(w.incidents(w.Store()), func(inc nightcrier.Incident) bool { return inc.Owner.Namespace != w.p.ns })
}

// only waits until the Deployment's incidents are so many, the newest is
// investigated, in this condition, and seen by these.
func (w *witnesses) only(count int, condition nightcrier.Condition, seenBy ...string) (newest nightcrier.Incident) {
	w.Helper()
	w.eventually(func() string {
		list := w.all()
		if len(list) > count {
			w.Fatalf("%d incidents: %+v", len(list), list)
		}
		if len(list) < count {
			return fmt.Sprintf("%d incidents", len(list))
		}
		newest = list[0]
		got := slices.Sorted(slices.Values(newest.SeenBy))
		slices.Sort(seenBy)
		if newest.Condition != condition || newest.Status.Open() || !slices.Equal(got, seenBy) && !(len(got) == 0 && len(seenBy) == 0) {
			return fmt.Sprintf("it is %s, %s, seen by %v", newest.Status, newest.Condition, got)
		}
		if outcomes, _ := w.posts(); outcomes != count {
			return fmt.Sprintf("%d messages", outcomes)
		}
		return ""
	})
	w.want(newest.Owner.Kind == "Deployment" && newest.Owner.Name == "cart" && newest.Status == nightcrier.Resolved, "%+v", newest)
	if n := strings.Count(w.log.String(), `"event":"investigation_started"`); n != count {
		w.Errorf("%d investigations of %d incidents", n, count)
	}
	return newest
}

// posts counts the messages that something failed, and those that it is over.
func (w *witnesses) posts() (outcomes, overs int) {
	for _, post := range w.slack.got() {
		if strings.Contains(post, " is over") {
			overs++
		} else {
			outcomes++
		}
	}
	return outcomes, overs
}

// saidOver waits until people were told so often that it is over.
func (w *witnesses) saidOver(times int) {
	w.Helper()
	w.eventually(func() string {
		if _, overs := w.posts(); overs != times {
			return fmt.Sprintf("%d messages that it is over", overs)
		}
		return ""
	})
}

// joins lets one more source say so.
func (w *witnesses) joins(source string) {
	w.Helper()
	if source == alerted {
		w.alert()
		return
	}
	w.serve(append(w.sources, source)...)
}

// told counts the events of a source, and how often they were repeated.
func (w *witnesses) told(source string) (events, repeats int) {
	w.Helper()
	for _, ev := range w.events(store.EventFilter{}) {
		if ev.Source == source && ev.Resource.Namespace == w.p.ns {
			events, repeats = events+1, repeats+ev.Repeats
		}
	}
	return events, repeats
}

// Who says it first, and how often, makes no difference: it is one incident, one
// investigation and one message.
func TestOneIncidentInEveryOrder(t *testing.T) {
	t.Parallel()
	kube := kubetest.Isolated(t) // the whole cluster is watched
	inOrder := func(dsn func(testing.TB) string, order ...string) {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			w := newWitnesses(t, kube, dsn(t))
			w.serve()
			for i, source := range order {
				w.joins(source)
				w.only(1, nightcrier.ConditionActive, slices.Clone(order[:i+1])...)
			}
			w.alert()
			w.alert()
			w.serve(watched, overMCP) // and once more
			w.alert()
			inc := w.only(1, nightcrier.ConditionActive, slices.Clone(order)...)
			if events, _ := w.told(watched); events != 1 {
				t.Errorf("the watch told it in %d events", events)
			}
			if events, repeats := w.told(alerted); events != 1 || repeats != 3 {
				t.Errorf("the alert is %d events, repeated %d times", events, repeats)
			}
			if events, _ := w.told(overMCP); events < 1 || events > 4 {
				t.Errorf("the MCP server told it in %d events", events)
			}
			for _, ev := range w.events(store.EventFilter{}) {
				if ev.Resource.Namespace == w.p.ns && ev.IncidentID != inc.ID {
					t.Errorf("an event that is not of the incident: %+v", ev)
				}
			}
		})
	}
	inOrder(sqlite, watched, overMCP, alerted)
	inOrder(sqlite, watched, alerted, overMCP)
	inOrder(sqlite, overMCP, watched, alerted)
	inOrder(sqlite, overMCP, alerted, watched)
	inOrder(sqlite, alerted, watched, overMCP)
	inOrder(sqlite, alerted, overMCP, watched)
	inOrder(pgtest.DSN, overMCP, watched, alerted)
	t.Run("at once", func(t *testing.T) {
		w := newWitnesses(t, kube, "")
		w.serve(watched, overMCP)
		w.alert()
		w.only(1, nightcrier.ConditionActive, watched, overMCP, alerted)
	})
}

// over waits until each source has said so: one that has not will not tell of the
// same fault again.
func (w *witnesses) over(sources ...string) {
	w.Helper()
	w.eventually(func() string {
		list := w.events(store.EventFilter{}) // the newest first
		for _, source := range sources {
			i := slices.IndexFunc(list, func(ev nightcrier.Event) bool { return ev.Source == source && ev.Resource.Namespace == w.p.ns })
			if i < 0 || !list[i].Cleared {
				return source + " has not said that it is over"
			}
		}
		return ""
	})
}

// A fault is over when those say so who can; it comes back as the same incident
// within the window, and as another one, which names the first, behind it.
func TestOneIncidentHeals(t *testing.T) {
	t.Parallel()
	kube := kubetest.Isolated(t)
	for name, c := range map[string]struct {
		sources []string
		alert   bool
	}{
		"by the watch": {[]string{watched}, false},
		"over MCP":     {[]string{overMCP}, false},
		"by the alert": {nil, true},
		"by all":       {[]string{watched, overMCP}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWitnesses(t, kube, "")
			seenBy := c.sources
			if c.alert {
				seenBy = append(slices.Clone(seenBy), alerted)
			}
			breaks := func(since string) {
				w.crashes()
				if w.fires(since); c.alert {
					w.alert()
				}
			}
			heals := func() {
				if w.p.kube.Running(t, w.p.pod); c.alert {
					w.resolves()
				}
				w.over(seenBy...)
			}
			w.serve(c.sources...)
			breaks("2026-11-20T10:00:00Z")
			first := w.only(1, nightcrier.ConditionActive, slices.Clone(seenBy)...)
			heals()
			w.only(1, nightcrier.ConditionCleared)
			breaks("2026-11-20T11:00:00Z")
			again := w.only(1, nightcrier.ConditionActive, slices.Clone(seenBy)...)
			if again.ID != first.ID {
				t.Errorf("it came back as %s, and was %s", again.ID, first.ID)
			}
			heals()
			w.only(1, nightcrier.ConditionCleared)
			if _, overs := w.posts(); overs != 0 {
				t.Errorf("told %d times that it is over while it may come back", overs)
			}
			w.window = "1s"
			w.serve(c.sources...)
			w.saidOver(1)
			breaks("2026-11-20T12:00:00Z")
			second := w.only(2, nightcrier.ConditionActive, slices.Clone(seenBy)...)
			if second.PreviousID != first.ID {
				t.Errorf("it names %q, the first was %s", second.PreviousID, first.ID)
			}
			heals()
			w.only(2, nightcrier.ConditionCleared)
			w.saidOver(2)
			w.serve(c.sources...) // and once more
			w.only(2, nightcrier.ConditionCleared)
			w.saidOver(2)
		})
	}
}
