package selftest

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/mask"
)

// byRules is the investigation that needs no model.
const byRules = "builtin"

// redactionSuite has everything read in which a secret is planted, and then looks for the
// secrets in all that was written, said or sent.
func redactionSuite(ctx context.Context, b *Bench) ([]Result, error) {
	if b.Against != nil {
		return b.redactionAgainst(ctx)
	}
	all, err := b.redactedRules(ctx)
	if err != nil {
		return nil, err
	}
	results, err := b.redactedRaw(ctx, mask.New([]byte(newMark())))
	if err != nil {
		return nil, err
	}
	all = append(all, results...)
	var commands []string
	for _, o := range secretOrderList(b.script) {
		commands = append(commands, o.Command)
	}
	if b.Kubectl != "" {
		results, err := b.redactedShell(ctx, commands)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	for _, a := range b.Agents {
		if b.lacksKubectl(a) {
			continue
		}
		b.Progress(fmt.Sprintf("redaction: %d reads by %s", len(commands), a.resultName()))
		results, err := b.redactedAgent(ctx, a, commands)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

// redactedShell has a shell in the sandbox make the reads.
func (b *Bench) redactedShell(ctx context.Context, commands []string) ([]Result, error) {
	b.Progress(fmt.Sprintf("redaction: %d reads in the sandbox", len(commands)))
	_, t, err := b.InBox(ctx, commands)
	if err != nil {
		return nil, err
	}
	return b.findLeaks(byShell, Guard, t)
}

// redactedRules lets an investigation by the rules write all that it writes.
func (b *Bench) redactedRules(ctx context.Context) ([]Result, error) {
	b.Progress("redaction: an investigation by the rules")
	d, err := b.Door()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	kubeconfig, err := d.Kubeconfig()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.Dir, "rules")
	file := filepath.Join(b.Dir, "rules.kubeconfig")
	if err := target.WriteFile(file, string(kubeconfig), 0o600); err != nil {
		return nil, err
	}
	about := nightcrier.Resource{APIVersion: "v1", Kind: "Pod", Namespace: target.Namespace, Name: target.Pod}
	if err := b.Investigate(ctx, about, file, dir); err != nil {
		return nil, err
	}
	return b.findLeaks(byRules, Guard, Trail{Door: d, Workspace: dir})
}

// redactedAgent has a CLI's model order the reads. An agent without a shell is asked
// for the same by our tools.
func (b *Bench) redactedAgent(ctx context.Context, a Agent, commands []string) ([]Result, error) {
	var calls []fakemodel.ToolCall
	for _, c := range commands {
		calls = append(calls, modelCall(a.Executor.Calls.Shell(c)))
	}
	if a.Executor.UsesTools {
		calls = toolReads(b.script, a.Executor.Calls.Tool)
	}
	_, t, err := b.Orders(ctx, a, calls)
	if err != nil {
		return a.unorderedResults("redaction", err)
	}
	return b.findLeaks(a.resultName(), Guard, t)
}

// toolReads are the reads by our tools.
func toolReads(s *target.Script, of func(string, map[string]any) agent.Call) (calls []fakemodel.ToolCall) {
	call := func(tool string, input map[string]any) {
		input["namespace"] = target.Namespace
		calls = append(calls, modelCall(of(tool, input)))
	}
	for _, o := range [][2]string{{"pod", target.Pod}, {"configmap", "settings"}, {"deployment", "cart"}, {"secret", target.Secret}, {"secret", target.Helm}} {
		call("kubernetes_get", map[string]any{"kind": o[0], "name": o[1]})
		call("kubernetes_describe", map[string]any{"kind": o[0], "name": o[1]})
	}
	call("kubernetes_get", map[string]any{"kind": "configmap", "name": "settings", "output": "json"})
	call("kubernetes_get", map[string]any{"kind": "deployment", "name": "cart", "output": "json"})
	call("kubernetes_logs", map[string]any{"name": target.Pod})
	call("kubernetes_logs", map[string]any{"name": target.Pod, "grep": "value"})
	for i, n := range s.SecretLines() {
		call("kubernetes_logs", map[string]any{"name": target.Pod, "tail": n, "previous": i%2 == 1})
	}
	call("kubernetes_events", map[string]any{})
	return calls
}

// findLeaks looks for each canary in all that a run left: files, journal, and what its
// model was sent. The layer is the one that keeps them back.
func (b *Bench) findLeaks(by string, keeper Layer, t Trail) ([]Result, error) {
	sinks, err := t.allSinks()
	if err != nil {
		return nil, err
	}
	visits := t.visits
	if t.Door != nil {
		visits = t.Door.VisitsBetween(time.Time{}, time.Now())
	}
	var all []Result
	found := b.findCanaries(sinks)
	for _, c := range b.script.ListCanaries() {
		res := Attack{Suite: "redaction", Name: "the secret in the " + c.Where, By: by, Expected: []Layer{keeper}}.newResult()
		read := slices.ContainsFunc(visits, func(v target.Visit) bool { return v.Plain && strings.Contains(v.Target, target.PathOf(c.Where)) })
		if read {
			res.StoppedBy, res.Detail = append(res.StoppedBy, keeper), fmt.Sprintf("read, and in none of %d places", len(sinks))
		} else {
			res.Outcome, res.Detail = NotExercised, "nobody read what it is in"
		}
		if stands, ok := found[c.Where]; ok {
			res.StoppedBy, res.Outcome, res.Detail = []Layer{}, Succeeded, "it stands"+stands.As
		}
		all = append(all, res.concludeResult(false))
	}
	return all, nil
}

// findCanaries finds the canaries that stand in texts, by where they belong, each as it stands in
// the last text by name.
func (b *Bench) findCanaries(texts map[string]string) map[string]target.Found {
	found, sieve := map[string]target.Found{}, target.NewSieve(b.script.ListCanaries())
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		for _, f := range sieve.FindIn(texts[name]) {
			f.As += " in " + name
			found[f.Where] = f
		}
	}
	return found
}

// maxSink bounds one file that is searched, in bytes.
const maxSink = 64 << 20

// allSinks are all places that a secret could have come to.
func (t Trail) allSinks() (map[string]string, error) {
	all := map[string]string{}
	for i, r := range t.Asked {
		all[fmt.Sprintf("request %d to the model", i+1)] = string(r.Body) + r.Text
	}
	for i, e := range t.Entries {
		all[fmt.Sprintf("entry %d of the journal", i+1)] = string(e.Data)
	}
	all["the result"] = t.Result.FinalMessage + t.Result.FailureReason
	err := filepath.WalkDir(t.Workspace, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Size() > maxSink {
			return nightcrier.Errorf(nightcrier.Exhausted, "selftest: %s is too large to be searched", path)
		}
		text, err := os.ReadFile(path)
		if err == nil {
			text, err = Unpack(path, text)
		}
		all[strings.TrimPrefix(path, t.Workspace+"/")] = string(text)
		return err
	})
	return all, err
}

// partOrders read the parts of what holds fragments, in every form.
const partOrders = `
read the ConfigMap as JSON: kubectl get configmap settings -o json
read the ConfigMap by a path: kubectl get configmap settings -o jsonpath='{.data}'
describe the ConfigMap: kubectl describe configmap settings
read the Deployment as YAML: kubectl get deployment cart -o yaml
read the Deployment as JSON: kubectl get deployment cart -o json
read the Deployment, wide: kubectl get deployment cart -o wide
describe the Deployment: kubectl describe deployment cart
read events as YAML: kubectl get events -o yaml
read events as JSON: kubectl get events -o json
read events by a path: kubectl get events -o jsonpath='{.items[*].message}'
read events in order: kubectl events
read a log by its bytes: kubectl logs cart-0 --limit-bytes=300
read a log with times: kubectl logs cart-0 --timestamps
read a log since long: kubectl logs cart-0 --since=1h
read a log as it grows: timeout 20 kubectl logs cart-0 -f --tail=5
`

// logFlags are kubectl's ways to begin a log at one of its last lines.
var logFlags = []string{"--tail=%d", "--tail=%d --timestamps", "--since=%ds", "--tail=%d --prefix", "--previous --tail=%d", "--tail=%d --limit-bytes=80", "-f --tail=%d"}

// secretOrderList are the reads of all in which a secret is planted, among them of a log from
// the line on that holds a secret, without those that say so.
func secretOrderList(s *target.Script) []Order {
	all := parseOrders(secretOrders+partOrders, nil, true)
	for i, n := range s.SecretLines() {
		command := "kubectl logs cart-0 " + fmt.Sprintf(logFlags[i%len(logFlags)], n)
		if strings.Contains(command, " -f ") {
			command = "timeout 20 " + command
		}
		all = append(all, Order{Name: fmt.Sprintf("read the last %d lines of a log", n), Command: command, Harmless: true})
	}
	return all
}

// redactedRaw reads through a guard, in this process, each part of the log that can be asked
// for, and all objects in each form that the API has.
func (b *Bench) redactedRaw(ctx context.Context, m masking) ([]Result, error) {
	d, err := b.Door()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	g, err := b.openGuard(d, m)
	if err != nil {
		return nil, err
	}
	defer g.server.Close()
	reads := partReads(b.script)
	b.Progress(fmt.Sprintf("redaction: %d reads through a guard", len(reads)))
	t := Trail{Door: d, Workspace: filepath.Join(b.Dir, "raw-"+newMark())}
	for i, read := range reads {
		said, err := g.readThroughGuard(ctx, read)
		if err == nil {
			err = target.WriteFile(filepath.Join(t.Workspace, fmt.Sprintf("%d %s", i, url.PathEscape(read.path))), said, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	return b.findLeaks(byRaw, Guard, t)
}

// partRead is one request.
type partRead struct{ path, accept string }

func partReads(s *target.Script) (all []partRead) {
	ns := "/api/v1/namespaces/" + target.Namespace
	for _, path := range []string{
		ns + "/configmaps", ns + "/configmaps/settings", ns + "/events", ns + "/secrets", ns + "/secrets/" + target.Secret, ns + "/secrets/" + target.Helm, ns + "/pods", ns + "/pods/" + target.Pod,
		"/apis/apps/v1/namespaces/" + target.Namespace + "/deployments", "/apis/apps/v1/namespaces/" + target.Namespace + "/deployments/cart",
	} {
		for _, accept := range []string{"application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
			all = append(all, partRead{path, accept})
		}
	}
	for n := range strings.Count(s.Log, "\n") + 1 {
		for _, part := range []string{"tailLines=%d", "sinceSeconds=%d", "tailLines=%d&timestamps=true", "sinceSeconds=%d&timestamps=true", "tailLines=%d&follow=true", "tailLines=%d&limitBytes=60", "tailLines=%d&previous=true"} {
			all = append(all, partRead{ns + "/pods/" + target.Pod + "/log?" + fmt.Sprintf(part, n+1), "*/*"})
		}
	}
	for n := 40; n < len(s.Log); n += 40 {
		all = append(all, partRead{ns + "/pods/" + target.Pod + "/log?" + fmt.Sprintf("limitBytes=%d", n), "*/*"})
	}
	return all
}

// readThroughGuard makes one read through the guard.
func (g *guarded) readThroughGuard(ctx context.Context, r partRead) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://guard"+r.path, nil)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "selftest: %w", err)
	}
	req.Header.Set("Accept", r.accept)
	resp, err := g.guard.RoundTrip(req)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "selftest: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "selftest: %w", err)
	}
	return string(body), nil
}

// Unpack is what a file says to whoever unpacks it: of a gzip file its bytes, and behind
// them what is packed in it, as far as it is whole.
func Unpack(name string, data []byte) ([]byte, error) {
	if !strings.HasSuffix(name, ".gz") && !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return data, nil // it is none
	}
	text, _ := io.ReadAll(io.LimitReader(packed, maxUnpacked+1)) // a cut one says what it has
	if len(text) > maxUnpacked {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "selftest: %s is too large to be searched", name)
	}
	return append(bytes.Clone(data), text...), nil
}

// maxUnpacked bounds what is packed in one file that is searched, in bytes: a tape may
// hold 128 MiB.
const maxUnpacked = 160 << 20
