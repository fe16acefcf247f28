package fakemcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	sessionHeader = "Mcp-Session-Id"
	maxRequest    = 1 << 20

	codeInvalidParams       = -32602
	codeMethodNotFound      = -32601
	codeUnsupportedProtocol = -32022
)

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Level     string         `json:"level"`
		Name      string         `json:"name"`
		Cursor    string         `json:"cursor"`
		Arguments map[string]any `json:"arguments"`
	} `json:"params"`
}

// rpcError is a JSON-RPC error.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (p *Peer) handlePost(w http.ResponseWriter, r *http.Request, b Behaviour) {
	var req request
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil {
		http.Error(w, "malformed request", http.StatusBadRequest)
		return
	}
	if p.hangIfAsked(r, b, req.Method) || p.hangIfAsked(r, b, req.Params.Name) {
		return
	}
	switch {
	case req.Method == "initialize":
		p.answerInitialize(w, r, b, req)
	case !b.Stateless && !p.isKnownSession(r):
		http.Error(w, "session not found", http.StatusNotFound)
	case len(req.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		result, rpcErr := p.answerCall(r, b, req)
		sendReply(w, b, req.ID, result, rpcErr)
	}
}

func (p *Peer) isKnownSession(r *http.Request) bool {
	var ok bool
	p.updateCluster(clusterOf(r), func(c *cluster) { ok = c.findSession(r) != nil })
	return ok
}

func (p *Peer) answerInitialize(w http.ResponseWriter, r *http.Request, b Behaviour, req request) {
	p.updateCluster(clusterOf(r), func(c *cluster) { c.stats.Initializes++ })
	if b.Sessionless {
		sendReply(w, b, req.ID, nil, &rpcError{codeUnsupportedProtocol, "Unsupported protocol version",
			map[string]any{"supported": []string{"2026-07-28"}, "requested": "2025-11-25"}})
		return
	}
	if !b.Stateless {
		w.Header().Set(sessionHeader, p.openSession(r))
	}
	protocol := b.Protocol
	if protocol == "" {
		protocol = "2025-06-18"
	}
	sendReply(w, b, req.ID, map[string]any{
		"protocolVersion": protocol,
		"capabilities":    map[string]any{"logging": map[string]any{}, "tools": map[string]any{"listChanged": true}},
		"serverInfo":      map[string]any{"name": "kubernetes-mcp-server", "version": "0.0.0"},
	}, nil)
}

func (p *Peer) answerCall(r *http.Request, b Behaviour, req request) (any, *rpcError) {
	switch req.Method {
	case "ping":
		return struct{}{}, nil
	case "logging/setLevel":
		p.updateCluster(clusterOf(r), func(c *cluster) {
			c.stats.Level = req.Params.Level
			if s := c.findSession(r); s != nil {
				s.level = req.Params.Level
			}
		})
		return struct{}{}, nil
	case "tools/list":
		return toolList(b, req.Params.Cursor), nil
	case "tools/call":
		return p.callTool(r, b, req)
	}
	return nil, &rpcError{Code: codeMethodNotFound, Message: "method not found"}
}

func (p *Peer) callTool(r *http.Request, b Behaviour, req request) (any, *rpcError) {
	known := []string{"events_subscribe", "events_unsubscribe", "events_list_subscriptions"}
	if b.NoSubscribeTool || !slices.Contains(known, req.Params.Name) {
		return nil, &rpcError{Code: codeInvalidParams, Message: fmt.Sprintf("unknown tool %q", req.Params.Name)}
	}
	var text string
	var ok bool
	p.updateCluster(clusterOf(r), func(c *cluster) {
		s := c.findSession(r)
		switch {
		case s == nil:
			text = "event subscriptions require an HTTP/SSE transport. Start the server with --port and connect via HTTP"
		case req.Params.Name == "events_subscribe":
			text, ok = p.addSubscription(c, s, b, req.Params.Arguments)
		case req.Params.Name == "events_unsubscribe":
			text, ok = removeSubscription(c, s, req.Params.Arguments)
		default:
			text, ok = s.describeSubscriptions(b, clusterOf(r)), true
		}
	})
	return toolResult(text, !ok), nil
}

func toolResult(text string, isError bool) any {
	res := map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}
	if isError {
		res["isError"] = true
	}
	return res
}

// addSubscription runs under Peer.mu.
func (p *Peer) addSubscription(c *cluster, s *session, b Behaviour, args map[string]any) (string, bool) {
	c.stats.Subscribes = append(c.stats.Subscribes, args)
	mode, _ := args["mode"].(string)
	if mode == "" {
		mode = "events"
	}
	context, _ := args["context"].(string)
	switch {
	case b.SubscribeError != "":
		return b.SubscribeError, false
	case !slices.Contains(b.allowedModes(), mode):
		return "failed to create subscription: invalid mode: must be 'events' or 'faults'", false
	}
	p.serial++
	sub := subscription{ID: fmt.Sprintf("sub-%08x", p.serial), Mode: mode, Context: context}
	s.subscriptions = append(s.subscriptions, sub)
	return "# Event Subscription Created\n\n" + indentJSON(map[string]any{
		"cluster": context, "createdAt": time.Now().UTC().Format(time.RFC3339), "filters": struct{}{},
		"mode": mode, "status": "active", "subscriptionId": sub.ID,
	}) + "\n\nYou will receive event notifications via the logging/message protocol.", true
}

func removeSubscription(c *cluster, s *session, args map[string]any) (string, bool) {
	c.stats.Unsubscribes++
	before := len(s.subscriptions)
	s.subscriptions = slices.DeleteFunc(s.subscriptions, func(sub subscription) bool { return sub.ID == args["subscriptionId"] })
	if len(s.subscriptions) == before {
		return "subscription not found", false
	}
	return "# Event Subscription Cancelled", true
}

func (s *session) describeSubscriptions(b Behaviour, name string) string {
	subs := []any{}
	for _, sub := range s.subscriptions {
		subs = append(subs, map[string]any{"cluster": name, "degraded": b.Degraded, "filters": struct{}{}, "mode": sub.Mode, "subscriptionId": sub.ID})
	}
	return "# Active Subscriptions\n\n" + indentJSON(map[string]any{"subscriptions": subs, "total": len(subs)})
}

func indentJSON(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil { // maps of strings always marshal
		return ""
	}
	return string(b)
}

// toolList describes the tools as the servers do, in one page or two.
func toolList(b Behaviour, cursor string) any {
	tools := []any{newTool("pods_list", map[string]any{})}
	if b.LongToolList && cursor == "" {
		return map[string]any{"tools": tools, "nextCursor": "2"}
	}
	if !b.NoSubscribeTool {
		props := map[string]any{"mode": map[string]any{"type": "string", "default": "events", "enum": b.allowedModes()}}
		tools = append(tools, newTool("events_subscribe", props), newTool("events_list_subscriptions", map[string]any{}),
			newTool("events_unsubscribe", map[string]any{"subscriptionId": map[string]any{"type": "string"}}))
	}
	return map[string]any{"tools": tools}
}

func newTool(name string, props map[string]any) any {
	return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object", "properties": props}}
}

// sendReply answers a call as one SSE frame.
func sendReply(w http.ResponseWriter, b Behaviour, id json.RawMessage, result any, rpcErr *rpcError) {
	msg := map[string]any{"jsonrpc": "2.0", "id": id}
	if rpcErr != nil {
		msg["error"] = rpcErr
	} else {
		msg["result"] = result
	}
	body, err := json.Marshal(msg)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if b.Garbage {
		body = []byte("<html>this is no JSON-RPC</html>")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", body) // the client may be gone
}
