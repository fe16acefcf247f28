package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"nightcrier.dev/nightcrier/internal/oneshot"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/guard/price"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// guardFlags are the flags of guard.
type guardFlags struct {
	kubeconfig, context, namespace, out, listen, outKubeconfig, level string
	budget                                                            float64
	serve, unannounced                                                bool
	prices                                                            []string // of the configuration
}

func (p *program) guardCommand() *cobra.Command {
	var f guardFlags
	cmd := &cobra.Command{Use: "guard [flags] -- COMMAND...", Short: "Run a command that can only read the cluster",
		Long: `Runs any command with KUBECONFIG pointing at a guard. The guard lets reads of the
cluster through and nothing else, hides secrets, and keeps every answer as evidence.
The command uses your terminal; signals and its exit code are passed on. When it ends,
a line on stderr sums up what it asked of the cluster.

This protects the cluster from a command that uses KUBECONFIG. It is not a sandbox:
the command runs as you, with your files and your network, and could read
~/.kube/config itself. Removed from its environment are KUBECONFIG, all other KUBE*
and HELM_KUBE* variables, and those that the tools of clouds log in with, such as
AWS_*, AZURE_*, GOOGLE_APPLICATION_CREDENTIALS and CLOUDSDK_*. The others stay,
because an agent needs its key.

With --budget-usd the models are guarded as well: the command gets a token in place of
each model key in the environment, calls that the budget does not allow are refused,
and what was spent is printed at the end. Until the cost of a call is known, the most
that it may cost is counted; agent.prices of the configuration says what models cost.
Without a kubeconfig only the models are guarded.

With --serve no command is run: the guard runs until it is interrupted.`,
		Example: `  nightcrier guard -- kubectl get pods -A
  nightcrier guard --kubeconfig prod.yaml -n shop --out look -- claude
  nightcrier guard --budget-usd 0.50 -- claude -p 'why is cart restarting?'
  nightcrier guard --serve --out-kubeconfig read-only.yaml`}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the command is the command's
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "credential of the guard (default KUBECONFIG, then ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "context within the kubeconfig")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace for the command when it names none (default the context's)")
	flags.StringVar(&f.out, "out", "", "directory for evidence and audit (default a temporary one, named at the end)")
	flags.BoolVar(&f.unannounced, "no-evidence-ids", false, "do not print the id of each answer that is kept (Warning: evidence E4)")
	flags.BoolVar(&f.serve, "serve", false, "run the guard without a command, in the foreground")
	flags.StringVar(&f.listen, "listen", "", "address to serve on; only with --serve (default a free port of 127.0.0.1)")
	flags.StringVar(&f.outKubeconfig, "out-kubeconfig", "", "file to write the guard's kubeconfig to, removed at the end; only with --serve")
	flags.Var((*dollars)(&f.budget), "budget-usd", "most that the command may spend on models, in dollars; each model whose key is in the environment is guarded")
	flags.StringVar(&f.level, "log-level", "warn", "lowest level that is logged to stderr")
	cmd.RunE = func(cmd *cobra.Command, command []string) error {
		if err := f.checkFlags(cmd, command); err != nil {
			return usageError(cmd, err)
		}
		if f.budget > 0 {
			cfg, _, err := p.loadWithWarnings(cmd) // what it warns of is not this command's
			if err != nil {
				return err
			}
			f.prices = cfg.Agent.Prices
		}
		return p.runGuard(cmd.Context(), f, command)
	}
	return cmd
}

// dollars is a flag's amount of money. The flag library's own words for what is none
// would be a parser's.
type dollars float64

func (d *dollars) String() string { return strconv.FormatFloat(float64(*d), 'f', -1, 64) }
func (d *dollars) Type() string   { return "dollars" }

func (d *dollars) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0 && v <= 1e6) {
		return errors.New("no amount")
	}
	*d = dollars(v)
	return nil
}

// checkFlags refuses flags that do not go together, and one that would promise what
// nobody does.
func (f guardFlags) checkFlags(cmd *cobra.Command, command []string) error {
	switch {
	case f.serve && f.budget > 0:
		return errors.New("--budget-usd bounds a command, and --serve runs none")
	case f.serve && len(command) > 0:
		return errors.New("--serve runs no command")
	case f.serve && f.outKubeconfig == "":
		return errors.New("--serve needs --out-kubeconfig, the file that leads to the guard")
	case !f.serve && len(command) == 0:
		return errors.New("which command? Give it after --, such as: nightcrier guard -- kubectl get pods")
	case !f.serve && f.listen+f.outKubeconfig != "":
		return errors.New("--listen and --out-kubeconfig belong to --serve")
	}
	return nil
}

// runGuard opens the guard, runs what is to be run, and says what was asked.
func (p *program) runGuard(ctx context.Context, f guardFlags, command []string) error {
	log, err := p.newLogger(f.level)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	out, err := guardDir(f.out)
	if err != nil {
		return err
	}
	g, err := oneshot.OpenGuard(oneshot.GuardOptions{Kubeconfig: f.kubeconfig, Context: f.context, Namespace: f.namespace, Out: out, Unannounced: f.unannounced, Listen: f.listen,
		Environ: p.environ, Logger: log, Now: p.now})
	if f.budget > 0 && errors.Is(err, app.ErrNoKubeconfig) {
		p.printMessage("nightcrier guard: no cluster is guarded: %s", err)
		err = p.guardModels(f, out, log, func(environ []string) error { return p.runGuarded(environ, command) })
		at, leaveErr := f.leaveRecord(out)
		if at != "" {
			p.printMessage("nightcrier guard: what was spent is on record%s", at)
		}
		return errors.Join(err, leaveErr)
	}
	if err != nil {
		_, leaveErr := f.leaveRecord(out)
		return errors.Join(err, leaveErr)
	}
	for _, note := range g.Notes {
		p.printMessage("nightcrier guard: %s", note)
	}
	switch {
	case f.serve:
		err = p.serveGuard(ctx, g, f, log)
	case f.budget > 0:
		err = p.guardModels(f, out, log, func(environ []string) error { return p.runWithCluster(g, out, environ, command) })
	default:
		err = p.runWithCluster(g, out, guardedEnv(p.environ), command)
	}
	s, closeErr := g.Close()
	at, leaveErr := f.leaveRecord(out)
	p.printMessage("nightcrier guard: %d requests, %d denied, %d answers kept as evidence%s; audit head %s", s.Requests, s.Denied, s.Kept, at, cmp.Or(s.Head, "none"))
	return errors.Join(err, closeErr, leaveErr)
}

// leaveRecord removes a temporary directory in which there is nothing, and else says where
// the record is.
func (f guardFlags) leaveRecord(out string) (at string, err error) {
	if f.out != "" || hasRecord(out) {
		return " in " + out, nil
	}
	return "", os.RemoveAll(out)
}

// hasRecord says that a directory has a file with something in it, or cannot be looked
// through.
func hasRecord(dir string) bool {
	return filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > 0 {
			return fs.ErrExist
		}
		return nil
	}) != nil
}

// guardModels has something run with guards before the models, and says what it spent.
func (p *program) guardModels(f guardFlags, out string, log *slog.Logger, run func(environ []string) error) error {
	m, err := oneshot.OpenModelGuards(oneshot.ModelGuardOptions{USD: price.FromDollars(f.budget), Prices: f.prices, Out: out, Environ: p.environ, Logger: log, Now: p.now})
	if err != nil {
		return err
	}
	err = run(m.Environ(guardedEnv(p.environ)))
	s, spent := m.Close()
	p.printMessage("nightcrier guard: %d calls of models, %d tokens, %s spent and %s held of %s", s.Calls, s.SpentTokens, formatMoney(s.SpentUSD), formatMoney(s.HeldUSD), formatMoney(f.budget))
	if spent != nil {
		return nightcrier.Errorf(nightcrier.Refused, "calls of a model were refused: %w", spent) // whatever the command made of it
	}
	return err
}

// guardDir returns the output directory, made if needed.
func guardDir(out string) (string, error) {
	if out == "" {
		dir, err := os.MkdirTemp("", "nightcrier-guard-")
		if err != nil {
			return "", nightcrier.Errorf(nightcrier.Exhausted, "directory for the evidence: %w", err)
		}
		return dir, nil
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "--out: %w", err)
	}
	return filepath.Abs(out)
}

// serveGuard lets the guard serve until the first signal.
func (p *program) serveGuard(ctx context.Context, g *oneshot.Guard, f guardFlags, log *slog.Logger) error {
	if err := writeGuardKubeconfig(f.outKubeconfig, g.Kubeconfig); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, f.outKubeconfig)
	p.printMessage("nightcrier guard: until you interrupt it, reads pass for whoever uses that file: KUBECONFIG=%s kubectl get pods -A", f.outKubeconfig)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(p.signals, syscall.SIGHUP) // the terminal is gone: the audit is still written
	}
	ctx, stop := p.withInterrupt(ctx)
	defer stop()
	<-ctx.Done()
	if err := os.Remove(f.outKubeconfig); err != nil {
		log.Warn("the guard's kubeconfig stays behind; its token is worth nothing any more", "error", err)
	}
	return nil
}

// tokenMark stands in every kubeconfig of a guard.
const tokenMark = "ncr-run-"

// writeGuardKubeconfig writes the file for the owner alone. One that is not a
// guard's is not overwritten: it may be the only copy of a credential.
func writeGuardKubeconfig(path string, raw []byte) error {
	old, err := readBounded(path, maxReport)
	switch {
	case err == nil && len(old) > 0 && !strings.Contains(string(old), tokenMark):
		return nightcrier.Errorf(nightcrier.Conflict, "--out-kubeconfig: %s exists and is no guard's; name another file", path)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nightcrier.Errorf(nightcrier.Invalid, "--out-kubeconfig: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-*") // 0600
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "--out-kubeconfig: %w", err)
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "--out-kubeconfig: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

// errExit carries the exit code of the command that was run.
type errExit struct{ code int }

// Error implements error.
func (e errExit) Error() string { return fmt.Sprintf("the command exited with code %d", e.code) }

// runWithCluster runs the command with a kubeconfig that leads to the guard.
func (p *program) runWithCluster(g *oneshot.Guard, out string, environ, command []string) error {
	path := filepath.Join(out, "kubeconfig")
	if err := writeGuardKubeconfig(path, g.Kubeconfig); err != nil {
		return err
	}
	defer os.Remove(path)
	return p.runGuarded(append(environ, "KUBECONFIG="+path), command)
}

// runGuarded runs the command and returns its exit code as an errExit.
func (p *program) runGuarded(environ, command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.stdout, p.stderr
	cmd.Env = environ
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return nightcrier.Errorf(nightcrier.NotFound, "start the command: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if !p.fromTerminal(sig) {
				_ = cmd.Process.Signal(sig) // it may just have ended
			}
		case err := <-ended:
			return exitOf(cmd.ProcessState, err)
		}
	}
}

// fromTerminal says that the command has had the signal already: a terminal sends
// its own to all that run in it.
func (p *program) fromTerminal(sig os.Signal) bool {
	in, ok := p.stdin.(*os.File)
	if !ok || sig != os.Interrupt && sig != syscall.SIGQUIT {
		return false
	}
	return term.IsTerminal(int(in.Fd()))
}

func exitOf(state *os.ProcessState, err error) error {
	if state == nil {
		return nightcrier.Errorf(nightcrier.Internal, "wait for the command: %w", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return errExit{128 + int(status.Signal())}
	}
	if code := state.ExitCode(); code != 0 {
		return errExit{code}
	}
	return nil
}

// guardedEnv is the environment without what leads to a cluster or logs in to a
// cloud.
func guardedEnv(environ []string) []string {
	var env []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "KUBE") && !strings.HasPrefix(name, "HELM_KUBE") && !app.LogsIn(name) {
			env = append(env, kv)
		}
	}
	return env
}
