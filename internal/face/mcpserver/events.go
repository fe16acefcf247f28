package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/text"
)

// The answers of the event tools are prose with JSON in it, word by word as
// the servers in the field give them: their clients read it.
const (
	created   = "# Event Subscription Created\n\n%s\n\nYou will receive event notifications via the logging/message protocol."
	waiting   = "\nNotifications wait until the client calls logging/setLevel (info for events, warning for faults)."
	cancelled = "# Event Subscription Cancelled\n\n"
	active    = "# Active Subscriptions\n\n"
	noEvents  = "# No events found"
	found     = "# The following events (YAML format) were found:\n"
)

var subscribeParams = kubetool.Params{
	{Name: "mode", Type: kubetool.String, Enum: []string{modeEvents, modeFaults}, Also: []string{modeResourceFaults}, Open: true, Default: modeEvents,
		About: "Subscription mode: 'events' for all events (default), 'faults' for faults of resources as they begin and, with condition cleared, as they end; those that last are sent at once"},
	{Name: "namespaces", Type: kubetool.Strings, About: "Optional list of namespaces to watch. If not provided, watches all namespaces (cluster-wide)"},
	{Name: "labelSelector", Type: kubetool.String, About: "Optional label selector on the involved object's labels, for a fault on those of the workload (e.g. 'app=nginx,tier=frontend')"},
	{Name: "involvedKind", Type: kubetool.String, About: "Optional involved object kind filter (e.g., 'Pod', 'Deployment')"},
	{Name: "involvedName", Type: kubetool.String, About: "Optional involved object name filter"},
	{Name: "involvedNamespace", Type: kubetool.String, About: "Optional involved object namespace filter"},
	{Name: "type", Type: kubetool.String, Enum: []string{"Normal", "Warning"}, Open: true, About: "Optional event type filter: 'Normal' or 'Warning'"},
	{Name: "reason", Type: kubetool.String, About: "Optional prefix of the event's reason, or of the fault type (e.g., 'BackOff', 'Failed')"},
}

// addEvents offers the event tools.
func (s *Server) addEvents(p *sdk.Server, sessions, stdio bool) {
	s.addTool(p, tool{name: "events_list", title: "Events: List", about: "List Kubernetes events, the last seen of them, of all namespaces or one",
		params:     s.withContextParam(kubetool.Params{{Name: "namespace", Type: kubetool.String, About: "Optional Namespace to retrieve the events from. If not provided, will list events from all namespaces"}}),
		idempotent: true, openWorld: true, output: kubetool.SchemaOf[kubetool.Seen](nil), run: s.listEvents})
	subscribe, cancel, list := s.subscribeTool, s.unsubscribeTool, s.listSubscriptions
	if !sessions {
		refuse := func(context.Context, *sdk.CallToolRequest, kubetool.Args) (answer, error) {
			return answer{}, nightcrier.Errorf(nightcrier.Invalid, "event subscriptions need a session: connect with protocol %s or older, which has sessions", pushing[0])
		}
		subscribe, cancel, list = refuse, refuse, refuse
	}
	s.addTool(p, tool{name: "events_subscribe", title: "Events: Subscribe", params: s.withContextParam(subscribeParams), openWorld: true, output: kubetool.SchemaOf[shown](nil), run: subscribe,
		about: "Subscribe to Kubernetes faults or events, pushed as log notifications. The client must call logging/setLevel to receive them (info for events, warning for faults)."})
	s.addTool(p, tool{name: "events_unsubscribe", title: "Events: Unsubscribe", about: "Unsubscribe from event notifications by subscription ID", idempotent: true,
		params: kubetool.Params{{Name: "subscriptionId", Type: kubetool.String, Required: true, About: "The subscription ID returned by events_subscribe"}}, output: kubetool.SchemaOf[ended](nil), run: cancel})
	s.addTool(p, tool{name: "events_list_subscriptions", title: "Events: List Subscriptions", about: "List active event subscriptions for the current session", idempotent: true, output: kubetool.SchemaOf[subscriptions](nil), run: list})
}

// ended is what events_unsubscribe tells, and subscriptions what
// events_list_subscriptions does.
type (
	ended struct {
		Status string `json:"status"`
		ID     string `json:"subscriptionId"`
	}
	subscriptions struct {
		Subscriptions []shown `json:"subscriptions"`
		Total         int     `json:"total"`
	}
)

// shown is a subscription as its client sees it; keys in the order that the
// servers in the field have.
type shown struct {
	Cluster   string  `json:"cluster"`
	CreatedAt string  `json:"createdAt"`
	Degraded  *bool   `json:"degraded,omitempty"`
	Error     string  `json:"error,omitempty"`
	Filters   filters `json:"filters"`
	Mode      string  `json:"mode"`
	Status    string  `json:"status,omitempty"`
	ID        string  `json:"subscriptionId"`
	// Note is what the client still has to do.
	Note string `json:"note,omitempty"`
}

func (sub *subscription) asShown() shown {
	return shown{Cluster: sub.feed.clusterName(), CreatedAt: sub.since.UTC().Format(time.RFC3339), Filters: sub.filters, Mode: sub.mode, ID: sub.id}
}

func (s *Server) subscribeTool(ctx context.Context, req *sdk.CallToolRequest, a kubetool.Args) (answer, error) {
	mode := a.String("mode")
	if !slices.Contains([]string{modeEvents, modeFaults, modeResourceFaults}, mode) {
		return answer{}, nightcrier.Errorf(nightcrier.Invalid, "failed to create subscription: invalid mode: must be 'events', 'faults' or 'resource-faults'")
	}
	f, err := readFilters(a, mode)
	if err != nil {
		return answer{}, err
	}
	sess := s.sessionOf(req.Session)
	sub := &subscription{id: newID(), mode: mode, filters: f, feed: s.feeds[s.clusterOf(a).Name], sess: sess, since: s.cfg.Now()}
	if err := s.beginSubscription(ctx, sess, sub); err != nil {
		return answer{}, nightcrier.Errorf(nightcrier.CodeOf(err), "failed to create subscription: %w", err)
	}
	show := sub.asShown()
	show.Status = "active"
	text, err := indentJSON(show)
	text = fmt.Sprintf(created, text)
	select {
	case <-sess.levels:
	default:
		text += waiting
		show.Note = strings.TrimSpace(waiting)
	}
	return answer{text, show}, err
}

// newID is a subscription's id, which nobody can guess from another.
func newID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return "sub-" + hex.EncodeToString(b[:])
}

// beginSubscription takes a place, sees that the cluster can be watched, and begins.
func (s *Server) beginSubscription(ctx context.Context, sess *session, sub *subscription) error {
	if err := s.reserveSubscription(sess, sub); err != nil {
		return err
	}
	if err := sub.feed.startWatching(ctx, sub.mode); err != nil {
		s.endSubscription(sess, sub)
		return err
	}
	sub.feed.addSubscriber(sub)
	if !s.isSessionOpen(sess) { // the session ended meanwhile
		s.endSubscription(sess, sub)
	}
	s.log.Info("subscribed", "event", "mcp_subscribed", "subscription", sub.id, "cluster", sub.feed.clusterName(), "mode", sub.mode)
	return nil
}

// reserveSubscription counts the subscription in, if there is room.
func (s *Server) reserveSubscription(sess *session, sub *subscription) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.mu.Lock()
	defer sess.mu.Unlock()
	switch l := s.cfg.Limits; {
	case len(sess.subs) >= l.SessionSubscriptions:
		return nightcrier.Errorf(nightcrier.Exhausted, "this session has %d subscriptions, which is the most; unsubscribe one", l.SessionSubscriptions)
	case s.total >= l.Subscriptions:
		return nightcrier.Errorf(nightcrier.Exhausted, "the server has %d subscriptions, which is the most; try again later", l.Subscriptions)
	}
	sess.subs = append(sess.subs, sub)
	s.total++
	return nil
}

func (s *Server) isSessionOpen(sess *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[sess.ss] == sess
}

// endSubscription frees a subscription; it may be called twice.
func (s *Server) endSubscription(sess *session, sub *subscription) {
	sub.feed.removeSubscriber(sub)
	sub.markEnded()
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if i := slices.Index(sess.subs, sub); i >= 0 {
		sess.subs = slices.Delete(sess.subs, i, i+1)
		s.total--
	}
}

// unsubscribeTool ends a subscription of this session. For one that is not (any
// more) there is nothing to do, which is not a failure.
func (s *Server) unsubscribeTool(_ context.Context, req *sdk.CallToolRequest, a kubetool.Args) (answer, error) {
	id := a.String("subscriptionId")
	sess := s.sessionOf(req.Session)
	if sub := sess.findSubscription(id); sub != nil {
		s.endSubscription(sess, sub)
	}
	data := ended{Status: "cancelled", ID: id}
	text, err := indentJSON(data)
	return answer{cancelled + text, data}, err
}

func (s *Server) listSubscriptions(_ context.Context, req *sdk.CallToolRequest, _ kubetool.Args) (answer, error) {
	list := []shown{}
	for _, sub := range s.sessionOf(req.Session).allSubscriptions() {
		why := sub.degradedReason()
		bad, show := why != "", sub.asShown()
		show.Degraded, show.Error = &bad, why
		list = append(list, show)
	}
	data := subscriptions{Subscriptions: list, Total: len(list)}
	text, err := indentJSON(data)
	return answer{active + text, data}, err
}

// Bounds of events_list: its answer is long as it is.
const (
	maxListed      = 100
	maxListedBytes = 32 << 10
)

// listed is one event of events_list.
type listed struct {
	InvolvedObject struct {
		Kind       string `yaml:"Kind"`
		Name       string `yaml:"Name"`
		APIVersion string `yaml:"apiVersion"`
	} `yaml:"InvolvedObject"`
	Message   string `yaml:"Message"`
	Namespace string `yaml:"Namespace"`
	Reason    string `yaml:"Reason"`
	Timestamp string `yaml:"Timestamp"`
	Type      string `yaml:"Type"`
}

func (s *Server) listEvents(ctx context.Context, _ *sdk.CallToolRequest, a kubetool.Args) (answer, error) {
	events, err := s.clusterOf(a).Tools.Events(ctx, kubetool.EventFilter{Namespace: a.String("namespace")}, maxListed)
	if err != nil {
		return answer{}, err
	}
	data := kubetool.SeenOf(events)
	if len(events) == 0 {
		return answer{noEvents, data}, nil
	}
	said := found
	for i := range events {
		e := &events[i]
		l := listed{Message: e.Message, Namespace: e.Namespace, Reason: e.Reason, Timestamp: lastSeen(e).UTC().String(), Type: e.Type}
		l.InvolvedObject.Kind, l.InvolvedObject.Name, l.InvolvedObject.APIVersion = e.InvolvedObject.Kind, e.InvolvedObject.Name, e.InvolvedObject.APIVersion
		one, err := yaml.Dump([]listed{l}, yaml.WithIndent(2), yaml.WithLineWidth(-1), yaml.WithQuotePreference(yaml.QuoteDouble))
		if err != nil {
			return answer{}, nightcrier.Errorf(nightcrier.Internal, "write the events: %w", err)
		}
		if len(said)+len(one) > maxListedBytes || len(events) == maxListed && i == maxListed-1 {
			said += "# (older events are left out; name a namespace, or use kubernetes_events)\n"
			data.Events, data.Truncated = data.Events[:i], true
			break
		}
		said += text.MarkHidden(string(one))
	}
	return answer{said, data}, nil
}
