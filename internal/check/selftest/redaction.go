package selftest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/mask"
)

// places says by what read each canary comes to light: a part of a request's path.
var places = map[string]string{
	"annotation": "/deployments", "argument": "/pods", "bearer": "/log", "configmap": "/configmaps", "env": "/pods", "event": "/events", "helm": "/secrets",
	"log": "/log", "properties": "/configmaps", "secret": "/secrets", "status": "/pods", "url": "/pods",
}

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
	results, err := b.redactedRaw(ctx, mask.New([]byte(randomHex(16))))
	if err != nil {
		return nil, err
	}
	all = append(all, results...)
	var commands []string
	for _, o := range b.script.secretOrderList() {
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
	if err := writeFile(file, string(kubeconfig), 0o600); err != nil {
		return nil, err
	}
	target := nightcrier.Resource{APIVersion: "v1", Kind: "Pod", Namespace: targetNamespace, Name: targetPod}
	if err := b.Investigate(ctx, target, file, dir); err != nil {
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
		calls = b.script.toolReads(a.Executor.Calls.Tool)
	}
	_, t, err := b.Orders(ctx, a, calls)
	if err != nil {
		return a.unorderedResults("redaction", err)
	}
	return b.findLeaks(a.resultName(), Guard, t)
}

// toolReads are the reads by our tools.
func (s *script) toolReads(of func(string, map[string]any) agent.Call) (calls []fakemodel.ToolCall) {
	call := func(tool string, input map[string]any) {
		input["namespace"] = targetNamespace
		calls = append(calls, modelCall(of(tool, input)))
	}
	for _, o := range [][2]string{{"pod", targetPod}, {"configmap", "settings"}, {"deployment", "cart"}, {"secret", targetSecret}, {"secret", targetHelm}} {
		call("kubernetes_get", map[string]any{"kind": o[0], "name": o[1]})
		call("kubernetes_describe", map[string]any{"kind": o[0], "name": o[1]})
	}
	call("kubernetes_get", map[string]any{"kind": "configmap", "name": "settings", "output": "json"})
	call("kubernetes_get", map[string]any{"kind": "deployment", "name": "cart", "output": "json"})
	call("kubernetes_logs", map[string]any{"name": targetPod})
	call("kubernetes_logs", map[string]any{"name": targetPod, "grep": "value"})
	for i, n := range s.secretLines() {
		call("kubernetes_logs", map[string]any{"name": targetPod, "tail": n, "previous": i%2 == 1})
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
		visits = t.Door.visitsBetween(time.Time{}, time.Now())
	}
	var all []Result
	for _, c := range b.script.listCanaries() {
		res := Attack{Suite: "redaction", Name: "the secret in the " + c.Where, By: by, Expected: []Layer{keeper}}.newResult()
		read := slices.ContainsFunc(visits, func(v Visit) bool { return v.Plain && strings.Contains(v.Target, placeOf(c.Where)) })
		if read {
			res.StoppedBy, res.Detail = append(res.StoppedBy, keeper), fmt.Sprintf("read, and in none of %d places", len(sinks))
		} else {
			res.Outcome, res.Detail = NotExercised, "nobody read what it is in"
		}
		for name, text := range sinks {
			where := findSecret(text, c.Value)
			if c.Where == "helm" && where == "" { // which is packed: whoever has it can unpack it
				where = findSecret(text, b.script.helmRelease())
			}
			if where != "" {
				res.StoppedBy, res.Outcome, res.Detail = []Layer{}, Succeeded, "it stands"+where+" in "+name
			}
		}
		all = append(all, res.concludeResult(false))
	}
	return all, nil
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
