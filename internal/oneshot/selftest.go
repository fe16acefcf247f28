package oneshot

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/worker"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/check/selftest"
	"nightcrier.dev/nightcrier/internal/config"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/oneshot/triage"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// SelftestOptions say what is attacked.
type SelftestOptions struct {
	Config *config.Config
	// Suites are names of suites, none for all.
	Suites []string
	// Cluster is one of the configuration's; Kubeconfig and Context are a credential
	// of their own. Without any of them a scripted cluster is attacked.
	Cluster, Kubeconfig, Context string
	Environ                      []string
	Logger                       *slog.Logger
	// Sandbox is one of selftest.Requires, "" for the configuration's.
	Sandbox string
	// Against starts another agent, which is attacked in place of ours.
	Against []string
	// Progress is told what is being done.
	Progress func(string)
	// WorkerCommand starts a worker, by default this very program.
	WorkerCommand []string
}

// Selftest runs the attack suites. Its error is that they could not be run.
func Selftest(ctx context.Context, o SelftestOptions) (found selftest.Report, err error) {
	worker, err := worker.ChooseCommand(o.WorkerCommand)
	if err != nil {
		return found, err
	}
	cluster, err := o.findCluster()
	if err != nil {
		return found, err
	}
	dir, cleanup, err := workspace.ChooseRoot("", "nightcrier-selftest-")
	if err != nil {
		return found, err
	}
	defer cleanup()
	opt := selftest.Options{
		Suites: o.Suites, Cluster: cluster, Dir: dir, WorkerCommand: worker, Require: cmp.Or(o.Sandbox, o.Config.Agent.Require),
		Progress: o.Progress, Logger: o.Logger,
	}
	if len(o.Against) > 0 {
		opt.Against, err = o.findAgainst()
		if err != nil {
			return found, err
		}
		return selftest.Run(ctx, opt)
	}
	opt.Investigate = o.runTriage
	opt.Kubectl, _ = exec.LookPath("kubectl") // the report says that there is none
	opt.Agents, opt.Missing = o.findAgents(ctx)
	return selftest.Run(ctx, opt)
}

// findAgainst finds the other agent. It is started elsewhere than here, by its whole path.
func (o SelftestOptions) findAgainst() (*selftest.Against, error) {
	path, err := exec.LookPath(o.Against[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "--against: %w", err)
	}
	return &selftest.Against{Argv: append([]string{path}, o.Against[1:]...), Environ: o.Environ}, nil
}

// runTriage runs a triage by the rules. What it says to people is written beside what
// it keeps: the report in both forms, and the message to Slack.
func (o SelftestOptions) runTriage(ctx context.Context, target nightcrier.Resource, kubeconfig, dir string) error {
	hook := &postbox{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
	}
	channel := &http.Server{Handler: hook, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = channel.Serve(l) }() // it says that it was closed
	defer channel.Close()
	t, err := triage.Run(ctx, triage.Options{Config: o.Config, Logger: o.Logger, Target: target, Kubeconfig: kubeconfig, Cluster: "selftest",
		Executor: config.Builtin, Slack: config.Slack{WebhookURL: config.NewSecret("http://" + l.Addr().String())}, Out: dir, WorkerCommand: o.WorkerCommand})
	if err != nil {
		return err
	}
	if t.Report == nil {
		return nightcrier.Errorf(nightcrier.NoReport, "selftest: the investigation left no report: %s", t.Incident.FailureReason)
	}
	message := hook.receivedMail()
	if len(message) == 0 {
		return nightcrier.Errorf(nightcrier.Internal, "selftest: the investigation sent no message")
	}
	for name, text := range map[string][]byte{"told.md": t.Markdown, "told.html": report.HTML(t.Report, &t.Incident, t.Markdown), "told.slack": message} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nightcrier.Errorf(nightcrier.Exhausted, "selftest: %w", err)
		}
	}
	return nil
}

// postbox is a Slack that keeps what it is sent.
type postbox struct {
	mu   sync.Mutex
	mail []byte
}

// ServeHTTP implements http.Handler.
func (p *postbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, "cut off", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.mail = append(p.mail, body...)
	p.mu.Unlock()
	_, _ = io.WriteString(w, "ok") // whoever hung up needs no answer
}

func (p *postbox) receivedMail() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mail
}

// findCluster finds the user's own, nil for none.
func (o SelftestOptions) findCluster() (*selftest.Cluster, error) {
	name, kubeconfig, context := cmp.Or(o.Cluster, "kubeconfig"), o.Kubeconfig, o.Context
	var namespaces []string
	if o.Cluster != "" {
		i := slices.IndexFunc(o.Config.Clusters, func(c config.Cluster) bool { return c.Name == o.Cluster })
		if i < 0 {
			return nil, nightcrier.Errorf(nightcrier.NotFound, "no cluster %s in the configuration: `nightcrier clusters list` shows them", o.Cluster)
		}
		c := o.Config.Clusters[i]
		if c.Kubeconfig == "" {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "cluster %s has no kubeconfig: there is nothing to be read behind the guard", o.Cluster)
		}
		kubeconfig, context, namespaces = c.Kubeconfig, cmp.Or(o.Context, c.Context), slices.Clone(c.Namespaces)
	}
	if kubeconfig == "" {
		return nil, nil
	}
	cred, err := app.ReadCredential(kubeconfig, context, o.Environ)
	if err != nil {
		return nil, err
	}
	if file, err := clientcmd.Load(cred.Kubeconfig); err == nil && file.Contexts[file.CurrentContext] != nil {
		namespaces = append(namespaces, cmp.Or(file.Contexts[file.CurrentContext].Namespace, "default"))
	}
	up, err := guardkube.Dial(cred.Kubeconfig, cred.Env)
	if err != nil {
		return nil, err
	}
	return &selftest.Cluster{Name: name, API: up, Namespaces: namespaces}, nil
}

// findAgents finds the CLIs that are installed, and the names of the others.
func (o SelftestOptions) findAgents(ctx context.Context) (found []selftest.Agent, missing []string) {
	for _, cli := range agent.CLIs() {
		a := o.Config.AgentToLookAt(cli.Name)
		at, err := cli.Find(ctx, a.Command)
		if err != nil {
			missing = append(missing, cli.Name)
			continue
		}
		found = append(found, agentModes(cli, selftest.Agent{Command: at.Path, Model: cmp.Or(a.Model, "scripted"), AllowedTools: o.Config.Agent.AllowedTools}, a.Shell)...)
	}
	return found, missing
}

// agentModes are the ways in which a CLI can be an agent here: with its shell, where the
// configuration leaves it one, and without.
func agentModes(cli agent.Executor, a selftest.Agent, shell bool) (all []selftest.Agent) {
	a.Executor = cli
	if cli.UsesTools {
		return []selftest.Agent{a}
	}
	if shell {
		all = append(all, a)
	}
	if without, err := cli.WithoutShell(); err == nil {
		a.Executor, a.NoShell = without, true
		all = append(all, a)
	}
	return all
}
