package selftest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/kube/attack"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/text"
)

// Who makes an attack, where no agent does.
const (
	byRaw   = "raw"
	byShell = "shell"
)

// readonlySuite tries to change the cluster: by requests written byte by byte, by commands
// in the sandbox, and by each CLI whose model orders them.
func readonlySuite(ctx context.Context, b *Bench) ([]Result, error) {
	if b.Against != nil {
		return b.readonlyAgainst(ctx)
	}
	b.Progress(fmt.Sprintf("readonly: %d raw requests", len(attack.Requests())))
	all, err := b.rawRequests(ctx)
	if err != nil {
		return nil, err
	}
	if b.Kubectl != "" {
		b.Progress(fmt.Sprintf("readonly: %d commands in the sandbox", len(clusterOrders())))
		results, err := b.shellAttacks(ctx, clusterOrders())
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	results, err := b.agentAttacks(ctx, "readonly", b.readonlyOrders)
	if err != nil {
		return nil, err
	}
	all = append(all, results...)
	return all, b.askRBAC(ctx, all)
}

// readonlyOrders are what an agent's model orders: commands, or for an agent that has
// our tools alone, what can be asked of those.
func (b *Bench) readonlyOrders(a Agent) []Order {
	switch {
	case a.Executor.UsesTools:
		return toolOrders()
	case b.lacksKubectl(a):
		return nil
	}
	return clusterOrders()
}

// rawLanes is how many raw requests are made at a time, each lane with a guard of its
// own: some leave the other side waiting for what never comes.
const rawLanes = 8

// rawRequests makes the guard's own attack suite on a guard before the Door.
func (b *Bench) rawRequests(ctx context.Context) ([]Result, error) {
	attacks := attack.Requests()
	all := make([]Result, len(attacks))
	lanes, ctx := errgroup.WithContext(ctx)
	for lane := range rawLanes {
		lanes.Go(func() error { return b.rawLane(ctx, attacks, all, lane) })
	}
	return all, lanes.Wait()
}

// rawLane makes every rawLanes-th of the attacks.
func (b *Bench) rawLane(ctx context.Context, attacks []attack.Request, all []Result, lane int) error {
	d, err := b.Door()
	if err != nil {
		return err
	}
	defer d.Close()
	g, err := b.openGuard(d, mask.New([]byte(newMark())))
	if err != nil {
		return err
	}
	defer g.server.Close()
	for i := lane; i < len(attacks) && ctx.Err() == nil; i += rawLanes {
		if all[i], err = g.makeAttack(ctx, d, attacks[i]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// guarded is a guard before a door, and its record.
type guarded struct {
	guard    *guardkube.Guard
	server   *guardkube.Server
	mark     attack.Mark
	canaries *target.Sieve

	mu      sync.Mutex
	records []guardkube.AuditRecord
}

// masking masks texts, and logs line by line.
type masking interface {
	Bytes([]byte) []byte
	Log([]byte) ([]byte, int)
}

func (b *Bench) openGuard(d *target.Door, m masking) (*guarded, error) {
	kubeconfig, err := d.Kubeconfig()
	if err != nil {
		return nil, err
	}
	up, err := guardkube.Dial(kubeconfig, nil)
	if err != nil {
		return nil, err
	}
	g := &guarded{canaries: target.NewSieve(b.script.ListCanaries())}
	guard, err := guardkube.New(guardkube.Config{Upstream: up, Mask: m.Bytes, MaskLog: m.Log, Audit: g.auditRequest, Logger: b.Logger})
	if err != nil {
		return nil, err
	}
	g.guard = guard
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
	}
	if g.server, err = guardkube.Serve(l, guard); err != nil {
		l.Close()
		return nil, err
	}
	file, err := clientcmd.Load(g.server.Kubeconfig())
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "selftest: kubeconfig of the guard: %w", err)
	}
	roots := x509.NewCertPool()
	for _, c := range file.Clusters {
		roots.AppendCertsFromPEM(c.CertificateAuthorityData)
	}
	g.mark = attack.Mark{Addr: l.Addr().String(), Roots: roots, Token: guard.Token(),
		Names: map[string]string{"ns": target.Namespace, "pod": target.Pod, "node": target.Node, "secret": target.Secret}}
	return g, nil
}

func (g *guarded) auditRequest(_ context.Context, r guardkube.AuditRecord) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records = append(g.records, r)
	return nil
}

// denialSince is the first refusal on record since the n-th record.
func (g *guarded) denialSince(n int) (reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.records[n:] {
		if r.Decision == guardkube.Deny {
			return r.Reason
		}
	}
	return ""
}

func (g *guarded) countRecords() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.records)
}

// makeAttack makes one raw request. That the guard's server closed the connection, or
// answered with a refusal before the guard came to judge, is the guard's doing too.
func (g *guarded) makeAttack(ctx context.Context, d *target.Door, a attack.Request) (Result, error) {
	about := Attack{Suite: "readonly", Name: a.String(), By: byRaw, Expected: []Layer{Guard}, Harmless: a.Harmless, Asks: g.accessOfAttack(a)}
	from, n := time.Now(), g.countRecords()
	reply, err := a.Send(ctx, g.mark)
	if err != nil {
		return Result{}, nightcrier.Errorf(nightcrier.Internal, "selftest: attack %q could not be made: %w", a, err)
	}
	res := about.newResult()
	reads := 0
	for _, v := range d.VisitsBetween(from, time.Now()) {
		reads++
		if !v.Plain {
			res.ReachedAPI, res.Detail = true, v.String()
		}
	}
	reason := g.denialSince(n)
	switch {
	case res.ReachedAPI:
	case reason != "":
		res.StoppedBy, res.Detail = append(res.StoppedBy, Guard), reason
	case reads == 0 && a.Held(reply):
		res.StoppedBy, res.Detail = append(res.StoppedBy, Guard), fmt.Sprintf("answered %d by itself", reply.Status)
		if reply.Status == 0 {
			res.Detail = "closed the connection"
		}
	case !a.Held(reply):
		res.Outcome, res.Detail = Succeeded, fmt.Sprintf("answered %d: %s", reply.Status, text.CutLine(string(reply.Body), maxDetail))
	}
	return res.concludeResult(a.Harmless).checkShown(unpackBody(reply.Body), g.canaries), nil
}

// unpackBody is a body as a client reads it, which may have asked for it packed.
func unpackBody(body []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return string(body)
	}
	text, _ := io.ReadAll(io.LimitReader(z, maxSink)) // what came until it was cut
	return string(text)
}

// Order is something that an agent is told to do to get more than a read.
type Order struct {
	Name string
	// Command is for a shell. Of what it prints, nothing may be a canary.
	Command string
	// Expected are the layers that stop it once it runs; a CLI may be faster.
	Expected []Layer
	Harmless bool
	// Tool is one of our tools, or a name that none has, called with Args in the place of
	// a command.
	Tool string
	Args map[string]any
	// Asks is what the order needs to be permitted, where no request tells.
	Asks []access
}

// asCall is how a model orders it.
func (o Order) asCall(calls agent.Calls) fakemodel.ToolCall {
	if o.Tool != "" {
		return modelCall(calls.Tool(o.Tool, o.Args))
	}
	return modelCall(calls.Shell(o.Command))
}

// shellAttacks has the orders followed by a shell in the sandbox.
func (b *Bench) shellAttacks(ctx context.Context, orders []Order) ([]Result, error) {
	var commands []string
	for _, o := range orders {
		commands = append(commands, o.Command)
	}
	ran, _, err := b.InBox(ctx, commands)
	if err != nil {
		return nil, err
	}
	var all []Result
	for i, o := range orders {
		all = append(all, b.judgeAttack(o.asAttack("readonly", byShell), ran[i]))
	}
	return all, nil
}

func (o Order) asAttack(suite, by string) Attack {
	return Attack{Suite: suite, Name: o.Name, By: by, Expected: o.Expected, Harmless: o.Harmless, Asks: o.Asks}
}

// judgeAttack holds what an order gave back against the canaries as well.
func (b *Bench) judgeAttack(a Attack, r Ran) Result {
	return r.judgeRan(a).checkShown(r.Output, target.NewSieve(b.script.ListCanaries()))
}

// checkShown returns the result of an attack that was shown this text, whatever stopped it.
func (r Result) checkShown(text string, canaries *target.Sieve) Result {
	for _, c := range canaries.FindIn(text) {
		r.Outcome, r.Passed = Succeeded, false
		r.Detail = fmt.Sprintf("it was shown the secret in the %s%s", c.Where, c.As)
	}
	return r
}
