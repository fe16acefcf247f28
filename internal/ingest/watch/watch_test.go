package watch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/observe"
	"nightcrier.dev/nightcrier/internal/ingest/watch"
	"nightcrier.dev/nightcrier/internal/test/apitest"
)

// records is an intake that knows one incident for each owner.
type records struct {
	mu       sync.Mutex
	broken   error
	mute     int // so many deliveries are stored, and the answer is lost
	ids      map[string]bool
	got      []string // "fault owner" and "over owner"
	followed []nightcrier.Incident
}

func (r *records) Deliver(_ context.Context, d nightcrier.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return r.broken
	}
	var p struct {
		Owner     nightcrier.Resource
		Condition string
	}
	if err := json.Unmarshal(d.Raw, &p); err != nil || d.Source != "watch" || d.Cluster != "prod" || d.ReceivedAt.IsZero() {
		return nightcrier.Errorf(nightcrier.Invalid, "delivery %+v: %v", d, err)
	}
	if r.ids[d.EventID] {
		return nil
	}
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	r.ids[d.EventID] = nightcrier.ValidID(d.EventID)
	word := map[string]string{"active": "fault ", "cleared": "over "}[p.Condition]
	r.got = append(r.got, word+p.Owner.Name)
	if r.mute--; r.mute >= 0 {
		return nightcrier.Errorf(nightcrier.Unreachable, "the connection broke")
	}
	return nil
}

func (r *records) Followed(_ context.Context, cluster string) ([]nightcrier.Incident, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cluster != "prod" {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "asked for cluster %s", cluster)
	}
	return r.followed, r.broken
}

// earlier is an incident that was there before the start.
func earlier(claim string) nightcrier.Incident {
	res := nightcrier.Resource{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "shop", Name: claim}
	return nightcrier.Incident{ID: "incident of " + claim, FaultType: "ProvisioningFailed", Severity: nightcrier.Critical, Resource: res, Owner: res}
}

// stand is a source of a scripted cluster.
type stand struct {
	*testing.T
	api     *apitest.Server
	records *records
	source  *watch.Source
}

func newStand(t *testing.T) *stand { return &stand{T: t, api: apitest.New(t), records: &records{}} }

// claim makes a volume claim of a phase; Lost is a fault at once.
func (s *stand) claim(name, phase string) {
	s.api.Put("persistentvolumeclaims", "shop", name, fmt.Appendf(nil,
		`{"metadata":{"name":%q,"namespace":"shop","uid":"u-%s"},"spec":{"volumeName":"v"},"status":{"phase":%q}}`, name, name, phase))
}

func (s *stand) start(change func(*watch.Config)) *stand {
	s.Helper()
	client := s.api.Client(s)
	cfg := watch.Config{
		Cluster: "prod", Labels: map[string]string{"env": "prod"}, Intake: s.records, Logger: slog.New(slog.DiscardHandler),
		API: client, Endpoint: client.Host, Detect: detect.Config{Patience: 1e-4},
		Timings: observe.Timings{BackoffMin: 2 * time.Millisecond, BackoffMax: 20 * time.Millisecond, Denied: 20 * time.Millisecond, Tick: 20 * time.Millisecond},
	}
	if change != nil {
		change(&cfg)
	}
	s.source = watch.New(cfg)
	if err := s.source.Start(s.Context()); err != nil {
		s.Fatal(err)
	}
	source := s.source
	s.Cleanup(func() { _ = source.Stop(context.Background()) })
	return s
}

// told waits until intake got these, in any order of faults, and nothing else.
func (s *stand) told(want ...string) {
	s.Helper()
	slices.Sort(want)
	var got []string
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		s.records.mu.Lock()
		got = slices.Clone(s.records.got)
		s.records.mu.Unlock()
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
	}
	s.Fatalf("told %v, want %v; status %+v", got, want, s.source.Status())
}

// subscribed waits until every kind has been listed: faults of one are told before.
func (s *stand) subscribed() nightcrier.SourceStatus {
	s.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		st := s.source.Status()
		if st.State == nightcrier.SourceSubscribed {
			return st
		}
		if time.Now().After(deadline) {
			s.Fatalf("status %+v", st)
		}
	}
}

func (s *stand) stop() {
	s.Helper()
	if err := s.source.Stop(s.Context()); err != nil {
		s.Fatal(err)
	}
}

func TestFaultAndItsEnd(t *testing.T) {
	s := newStand(t)
	s.claim("whole", "Bound")
	s.claim("lost", "Lost")
	s.start(nil)
	s.told("fault lost")
	s.claim("lost", "Bound")
	s.claim("gone", "Lost")
	s.told("fault lost", "over lost", "fault gone")
	s.api.Remove("persistentvolumeclaims", "shop", "gone")
	s.told("fault lost", "over lost", "fault gone", "over gone")
	st := s.subscribed()
	if st.Source != "watch" || st.Mode != "watch" || st.Events != 4 || st.LastEventAt.IsZero() ||
		!strings.HasPrefix(st.Endpoint, "127.0.0.1:") || st.Labels["env"] != "prod" || len(st.Problems) > 0 {
		t.Errorf("status %+v", st)
	}
	if err := s.source.Start(t.Context()); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("started twice: %v", err)
	}
	s.stop()
	s.stop()
	if st := s.source.Status(); st.State != nightcrier.SourceStopped || st.Events != 4 {
		t.Errorf("status after the end %+v", st)
	}
}

// What goes on after a gap is told once, what began or ended in it as well.
func TestGap(t *testing.T) {
	s := newStand(t)
	s.claim("stays", "Lost")
	s.claim("heals", "Lost")
	s.start(nil)
	s.told("fault stays", "fault heals")
	s.api.Behave("persistentvolumeclaims", apitest.Behaviour{Status: 500})
	s.api.Expire()
	s.claim("heals", "Bound")
	s.claim("begins", "Lost")
	s.api.Behave("persistentvolumeclaims", apitest.Behaviour{})
	s.told("fault stays", "fault heals", "over heals", "fault begins")
	if st := s.source.Status(); st.Reconnects == 0 {
		t.Errorf("status %+v", st)
	}
}

// A source that starts tells the end of what was healed before, and what is new;
// what goes on is no news.
func TestHealedWhileAway(t *testing.T) {
	s := newStand(t)
	s.claim("stays", "Lost")
	s.claim("heals", "Bound")
	s.claim("new", "Lost")
	s.records.followed = []nightcrier.Incident{earlier("stays"), earlier("heals"), earlier("deleted")}
	s.start(nil)
	s.told("fault new", "over heals", "over deleted")
	s.claim("heals", "Lost")
	s.claim("stays", "Bound")
	s.told("fault new", "over heals", "over deleted", "fault heals", "over stays")
}

// What is not seen because a kind cannot be read is not over.
func TestNotSeenIsNotOver(t *testing.T) {
	s := newStand(t)
	s.api.Behave("persistentvolumeclaims", apitest.Behaviour{Status: 403})
	s.claim("stays", "Lost")
	s.claim("other", "Bound")
	node := earlier("n1")
	node.FaultType, node.Resource, node.Owner = "NodeUnhealthy", nightcrier.Resource{APIVersion: "v1", Kind: "Node", Name: "n1"}, nightcrier.Resource{APIVersion: "v1", Kind: "Node", Name: "n1"}
	s.records.followed = []nightcrier.Incident{earlier("stays"), earlier("other"), node}
	s.start(nil)
	s.told("over n1")
	for s.api.Asked("persistentvolumeclaims").Lists < 20 { // all patience is long over
		time.Sleep(5 * time.Millisecond)
	}
	s.told("over n1")
	if !strings.HasPrefix(s.source.Status().Problems[0], "PersistentVolumeClaim") {
		t.Fatalf("status %+v", s.source.Status())
	}
	s.api.Behave("persistentvolumeclaims", apitest.Behaviour{})
	s.told("over n1", "over other")
}

// While the store is away nothing is lost.
// In some namespaces only these are told of. What is on record from when more was
// looked at is not over for that.
func TestSomeNamespaces(t *testing.T) {
	s := newStand(t)
	s.claim("lost", "Lost")
	s.api.Put("persistentvolumeclaims", "bank", "far", []byte(`{"metadata":{"name":"far","namespace":"bank","uid":"u2"},"spec":{"volumeName":"v"},"status":{"phase":"Lost"}}`))
	was := earlier("before")
	was.Resource.Namespace, was.Owner.Namespace = "bank", "bank"
	s.records.followed = []nightcrier.Incident{was, earlier("healed")}
	s.api.Behave("nodes", apitest.Behaviour{Status: 403})
	s.start(func(c *watch.Config) { c.Namespaces = []string{"shop", "none"} })
	s.told("fault lost", "over healed")
	if asked := s.api.Asked("persistentvolumeclaims"); asked.Lists != 2 {
		t.Errorf("%+v", asked)
	}
	if st := s.source.Status(); len(st.Problems) != 1 || !strings.HasPrefix(st.Problems[0], "Node: ") {
		t.Errorf("%+v", st)
	}
}

func TestStoreIsAway(t *testing.T) {
	s := newStand(t)
	s.claim("lost", "Lost")
	s.start(nil)
	s.told("fault lost")
	s.storeFails(nightcrier.Errorf(nightcrier.Unreachable, "the store is away"))
	s.claim("later", "Lost")
	for !strings.Contains(s.source.Status().LastError, "the store is away") {
		time.Sleep(5 * time.Millisecond)
	}
	s.claim("last", "Lost")
	s.storeFails(nil)
	s.told("fault lost", "fault later", "fault last")
}

// A fault that was stored while the answer was lost is not another one when it is
// delivered again; the same fault that comes back is.
func TestTheAnswerIsLost(t *testing.T) {
	s := newStand(t)
	s.records.mute = 2
	s.claim("lost", "Lost")
	s.claim("other", "Lost")
	s.start(nil)
	s.told("fault lost", "fault other")
	s.claim("lost", "Bound")
	s.told("fault lost", "fault other", "over lost")
	s.claim("lost", "Lost")
	s.told("fault lost", "fault other", "over lost", "fault lost")
}

// Nothing is told before it is known what was told.
func TestStoreIsAwayAtTheStart(t *testing.T) {
	s := newStand(t)
	s.claim("stays", "Lost")
	s.records.followed = []nightcrier.Incident{earlier("stays"), earlier("healed")}
	s.storeFails(nightcrier.Errorf(nightcrier.Unreachable, "the store is away"))
	s.start(nil)
	if st := s.source.Status(); st.State != nightcrier.SourceConnecting {
		t.Errorf("status %+v", st)
	}
	s.storeFails(nil)
	s.told("over healed")
}

func (s *stand) storeFails(err error) {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	s.records.broken = err
}

func TestStopsWithoutStart(t *testing.T) {
	s := watch.New(watch.Config{Cluster: "prod", API: apitest.New(t).Client(t), Logger: slog.New(slog.DiscardHandler)})
	if err := s.Stop(t.Context()); err != nil || s.Status().State != nightcrier.SourceStopped {
		t.Errorf("%+v, %v", s.Status(), err)
	}
}
