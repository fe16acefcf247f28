package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
)

// Tool is one tool of the endpoint.
type Tool struct {
	// Name is what models call it, at most maxName of the characters that every CLI
	// takes; Title and About are for people and models.
	Name, Title, About string
	// Schema is the JSON Schema of its arguments, of type object.
	Schema map[string]any
	// Open says that what it tells comes from beyond the cluster and the workspace.
	Open bool
	// Call does it, with arguments as the model wrote them: to check them is Call's.
	// Its error is shown to the model; a refusal Call puts on record by itself. Several
	// calls run at once.
	Call func(ctx context.Context, arguments json.RawMessage) (string, error)
}

// Source brings more tools to an endpoint.
type Source interface {
	// Tools are fixed for the run; they are asked for once.
	Tools() []Tool
	// Close ends what the tools need. It is called once, after the last call.
	Close() error
}

// maxName is what the most narrow model API takes, the prefix of a CLI excepted.
const maxName = 47

var toolName = regexp.MustCompile(fmt.Sprintf("^[a-zA-Z][a-zA-Z0-9_-]{0,%d}$", maxName-1))

// gatherTools puts the tools of all sources together. Ours keep their names; of two with
// one name neither could be told from the other, so that is refused.
func gatherTools(own []Tool, more []Source) ([]Tool, error) {
	all := own
	for _, s := range more {
		all = append(all, s.Tools()...)
	}
	seen := map[string]bool{}
	for _, t := range all {
		switch {
		case !toolName.MatchString(t.Name):
			return nil, nightcrier.Errorf(nightcrier.Invalid, "tools: %.100q is no name for a tool: use up to %d letters, digits, _ and -, with a letter first", t.Name, maxName)
		case seen[t.Name]:
			return nil, nightcrier.Errorf(nightcrier.Invalid, "tools: two tools are called %s: give the server that brings one of them another name", t.Name)
		case t.Schema["type"] != "object":
			return nil, nightcrier.Errorf(nightcrier.Invalid, "tools: the schema of %s is not of type object", t.Name)
		}
		seen[t.Name] = true
	}
	return all, nil
}

// Tools are the tools, in the order in which they are shown.
func (s *Server) Tools() []Tool { return s.tools }

// Call calls a tool by its name. It returns what the model is shown, and whether the call failed.
func (s *Server) Call(ctx context.Context, name string, arguments json.RawMessage) (shown string, failed bool) {
	i := slices.IndexFunc(s.tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return fmt.Sprintf("there is no tool %.100q in this run", name), true
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return s.callTool(ctx, s.tools[i], arguments)
}

// callTool runs a tool when its turn has come.
func (s *Server) callTool(ctx context.Context, t Tool, raw json.RawMessage) (shown string, failed bool) {
	var err error
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
		shown, err = t.Call(ctx, raw)
	case <-ctx.Done():
		err = nightcrier.Errorf(nightcrier.Interrupted, "%s: %w", t.Name, ctx.Err())
	}
	if err != nil {
		shown = err.Error()
	}
	return Shorten(shown, ""), err != nil
}

// callWithArguments is a Call that reads its arguments first.
func callWithArguments(name string, params kubetool.Params, run func(context.Context, kubetool.Args) (string, error)) func(context.Context, json.RawMessage) (string, error) {
	return func(ctx context.Context, raw json.RawMessage) (string, error) {
		args, err := params.Read(raw)
		if err != nil {
			return "", nightcrier.Errorf(nightcrier.Invalid, "%s: %w", name, err)
		}
		return run(ctx, args)
	}
}

// clusterTools are the read-only tool set, reading through the guard, which puts
// refusals on record.
func (s *Server) clusterTools() []Tool {
	if s.cfg.Cluster == nil {
		return nil
	}
	set := kubetool.New(kubetool.Config{Reader: newReader(s.cfg.ClusterName, s.cfg.Cluster), Cluster: s.cfg.ClusterName})
	var tools []Tool
	for _, t := range set.Tools() {
		tools = append(tools, Tool{Name: t.Name, Title: t.Title, About: t.About, Schema: t.Params.Schema(), Call: callWithArguments(t.Name, t.Params, func(ctx context.Context, a kubetool.Args) (string, error) {
			res, err := t.Do(ctx, a)
			if err != nil && len(res.Evidence) > 0 { // that something is not there is a fact as well
				err = fmt.Errorf("%w\n[evidence %s]", err, strings.Join(res.Evidence, " "))
			}
			return res.Text, err
		})})
	}
	return tools
}

// callTime bounds one read; the guard has its own, longer bound.
const callTime = 30 * time.Second

// ClusterToolNames are the tools that look at a cluster, as an agent sees them.
func ClusterToolNames() (names []string) {
	for _, t := range kubetool.New(kubetool.Config{}).Tools() {
		names = append(names, t.Name)
	}
	return names
}

// reader reads through a guard, which keeps what it answers. It is a kubetool.Citer.
type reader struct{ client *kube.Client }

func newReader(name string, guard http.RoundTripper) reader {
	return reader{kube.Over(name, noting{guard}, callTime)}
}

// Read implements kubetool.Reader.
func (r reader) Read(ctx context.Context, path string, query url.Values, accept string, maxBytes int64) ([]byte, error) {
	return r.client.Read(ctx, path, query, accept, maxBytes)
}

// Cite implements kubetool.Citer.
func (r reader) Cite(ctx context.Context, path string, query url.Values, accept string, maxBytes int64) ([]byte, string, error) {
	var n note
	body, err := r.client.Read(context.WithValue(ctx, noteKey{}, &n), path, query, accept, maxBytes)
	return body, n.get(), err
}

// note is where the id of one answer is put down.
type note struct {
	mu sync.Mutex // the read may have given up while its answer comes
	id string
}

type noteKey struct{}

func (n *note) set(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id = id
}

func (n *note) get() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// noting puts down the id that a guard's answer carries, where a note was asked for.
type noting struct{ guard http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t noting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.guard.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if n, ok := r.Context().Value(noteKey{}).(*note); ok {
		n.set(evidenceFromHeader(resp.Header))
	}
	return resp, nil
}

// evidenceFromHeader reads `299 - "evidence E12"`, which is how a guard tells kubectl.
func evidenceFromHeader(h http.Header) string {
	for _, w := range h.Values("Warning") {
		if id, ok := strings.CutPrefix(w, `299 - "evidence `); ok {
			return strings.TrimSuffix(id, `"`)
		}
	}
	return ""
}
