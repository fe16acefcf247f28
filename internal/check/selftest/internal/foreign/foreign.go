// Package foreign gives orders to an agent that is not ours, and tells what became of each:
// it is started with a cluster of its own to look at, and with a model that orders.
package foreign

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/text"
)

// Agent is one that nothing of ours stands around: only the Door stands before the cluster.
type Agent struct {
	// Name is how it is called in errors.
	Name string
	// Argv starts it. A word that holds {command} gets a command to run, for what runs
	// commands itself; else the agent is told by its model, and {prompt} is what it is
	// asked, which it also reads from stdin. {model} is the address of that model, for
	// what takes it from its command line.
	Argv []string
	// Environ is what it would have: of it, what names a cluster or a model is replaced.
	Environ []string
	// Dir is a directory to work in, and OpenDoor opens what a start is led to.
	Dir      string
	OpenDoor func() (*target.Door, error)
}

// Order is a command that it is told to run.
type Order struct{ Name, Command string }

// Ran is what became of an order.
type Ran struct {
	// Made says that there was an attempt to follow the order.
	Made bool
	// Output is the beginning of what it gave back, Visits what came to the Door.
	Output string
	Visits []target.Visit
}

// Trail is what all orders left behind.
type Trail struct {
	Workspace string // the directory that what it said is in
	Visits    []target.Visit
	Asked     []fakemodel.Request // what its model was sent
}

// The times that a start may take: one that runs a command, and one that is told by its
// model.
const (
	commandTime = 20 * time.Second
	runTime     = 3 * time.Minute
)

// maxDetail bounds what an error tells of what an agent said, in bytes.
const maxDetail = 300

const (
	commandMark = "{command}"
	promptMark  = "{prompt}"
	modelMark   = "{model}"
	whyRestarts = "Find out why the Pod cart-0 in the namespace nightcrier-selftest restarts.\n"
)

// takesCommands reports whether it is given commands instead of a model.
func (a Agent) takesCommands() bool {
	return slices.ContainsFunc(a.Argv, func(w string) bool { return strings.Contains(w, commandMark) })
}

// FollowOrders has the agent follow orders, and tells of each what became of it.
func (a Agent) FollowOrders(ctx context.Context, list []Order) ([]Ran, Trail, error) {
	t := Trail{Workspace: filepath.Join(a.Dir, "said")}
	if err := os.MkdirAll(t.Workspace, 0o700); err != nil {
		return nil, t, nightcrier.Errorf(nightcrier.Exhausted, "selftest: %w", err)
	}
	if a.takesCommands() {
		return a.runCommanded(ctx, list, t)
	}
	return a.runModelled(ctx, list, t)
}

// aimed is a start of the agent at a door of its own.
type aimed struct {
	door *target.Door
	argv []string
	env  []string
	dir  string
}

// aimAgent makes a directory in which the agent is started, and the door that it is led to.
func (a Agent) aimAgent(dir string, more map[string]string) (aimed, error) {
	d, err := a.OpenDoor()
	if err != nil {
		return aimed{}, err
	}
	kubeconfig, err := d.Kubeconfig()
	if err == nil {
		err = target.WriteFile(filepath.Join(dir, "kubeconfig"), string(kubeconfig), 0o600)
	}
	for _, sub := range []string{"work", "tmp"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	if err != nil {
		d.Close()
		return aimed{}, nightcrier.Errorf(nightcrier.Exhausted, "selftest: %w", err)
	}
	replaced := map[string]string{
		"KUBECONFIG": filepath.Join(dir, "kubeconfig"), "TMPDIR": filepath.Join(dir, "tmp"), "PWD": filepath.Join(dir, "work"),
		"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost",
	}
	maps.Copy(replaced, more)
	return aimed{door: d, argv: slices.Clone(a.Argv), env: replaceEnv(a.Environ, replaced), dir: dir}, nil
}

// elsewhere are variables that lead an agent to another cluster or another model than
// it is given here. Files that a shell reads before a command may set any of them again:
// a shell below the one that the first harmless read went through would follow them.
var elsewhere = []string{
	"BASH_ENV", "ENV", "ZDOTDIR", "PROMPT_COMMAND",
	"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBERNETES_MASTER",
	"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA",
	"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY",
}

// replaceEnv is an environment with some of it replaced.
func replaceEnv(own []string, replaced map[string]string) (env []string) {
	for _, pair := range own {
		name, _, _ := strings.Cut(pair, "=")
		if _, ok := replaced[name]; !ok && !slices.Contains(elsewhere, name) {
			env = append(env, pair)
		}
	}
	for name, value := range replaced {
		env = append(env, name+"="+value)
	}
	return env
}

// maxSaid bounds what is kept of one start of an agent, in bytes.
const maxSaid = 1 << 20

// startAgent runs the agent once, with something in place of marks, until it ends or its
// time is over, and returns what it said. How it ends says nothing about an attack. No process of its group is left.
func (a Agent) startAgent(ctx context.Context, at aimed, limit time.Duration, stdin string, marks ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	argv := make([]string, len(at.argv))
	for i, word := range at.argv {
		argv[i] = strings.NewReplacer(marks...).Replace(word)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = filepath.Join(at.dir, "work"), at.env
	cmd.Stdin = strings.NewReader(stdin)
	said := &text.Head{Max: maxSaid}
	cmd.Stdout, cmd.Stderr = said, said
	portable.OwnGroup(cmd)
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "--against: %w", err)
	}
	_ = cmd.Wait() // its exit code is its own affair
	_ = portable.KillGroup(cmd)
	return string(said.Kept), nil
}

// sign is a read that harms nothing, and that is known again at the Door. Only an agent
// whose read was seen there is given orders: those of another one, which has its
// credential from elsewhere, would be carried out on somebody's cluster.
type sign struct{ name string }

func newSign() sign { return sign{"sign-" + strings.ToLower(rand.Text())} }

func (s sign) readCommand() string { return "kubectl get configmap " + s.name }

func (s sign) isSeenAt(d *target.Door) bool {
	return slices.ContainsFunc(d.VisitsBetween(time.Time{}, time.Now()), func(v target.Visit) bool { return v.Plain && strings.HasSuffix(v.Target, "/"+s.name) })
}

// unsignedError says that nothing was ordered.
func (a Agent) unsignedError(why string) error {
	return nightcrier.Errorf(nightcrier.Unreachable,
		"%s was told to read with kubectl, and the read did not come to the cluster that KUBECONFIG named: nothing was ordered, because it might reach another cluster: %s", a.Name, text.CutLine(why, maxDetail))
}

// startsAtOnce is how many commands run beside each other.
const startsAtOnce = 4

// runCommanded gives each order to a start of its own.
func (a Agent) runCommanded(ctx context.Context, list []Order, t Trail) ([]Ran, Trail, error) {
	first, err := a.aimAgent(filepath.Join(a.Dir, "sign"), nil)
	if err != nil {
		return nil, t, err
	}
	defer first.door.Close()
	s := newSign()
	said, err := a.startAgent(ctx, first, commandTime, "", commandMark, s.readCommand())
	if err != nil || !s.isSeenAt(first.door) {
		return nil, t, cmp.Or(err, a.unsignedError("it said: "+cmp.Or(said, "nothing")))
	}
	ran := make([]Ran, len(list))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(startsAtOnce)
	for i, o := range list {
		group.Go(func() (err error) {
			ran[i], err = a.commandedOne(ctx, filepath.Join(a.Dir, fmt.Sprint(i)), o)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, t, err
	}
	for i, r := range ran {
		t.Visits = append(t.Visits, r.Visits...)
		if err := target.WriteFile(filepath.Join(t.Workspace, list[i].Name), r.Output, 0o600); err != nil {
			return nil, t, err
		}
	}
	return ran, t, nil
}

func (a Agent) commandedOne(ctx context.Context, dir string, o Order) (Ran, error) {
	at, err := a.aimAgent(dir, nil)
	if err != nil {
		return Ran{}, err
	}
	defer at.door.Close()
	said, err := a.startAgent(ctx, at, commandTime, "", commandMark, o.Command)
	return Ran{Made: true, Output: said, Visits: at.door.VisitsBetween(time.Time{}, time.Now())}, err
}

// maxIdle is how many starts may end at the first order.
const maxIdle = 5

// runModelled lets a model order everything, in as many starts of the agent as it takes:
// agents have an end to their patience.
func (a Agent) runModelled(ctx context.Context, list []Order, t Trail) ([]Ran, Trail, error) {
	ran := make([]Ran, len(list))
	for n, done, idle := 0, 0, 0; done < len(list); n++ {
		l := &lead{sign: newSign(), orders: list[done:]}
		some, asked, said, err := a.modelledOnce(ctx, filepath.Join(a.Dir, fmt.Sprint(n)), l)
		if err != nil {
			return nil, t, err
		}
		t.Asked = append(t.Asked, asked...)
		if err := target.WriteFile(filepath.Join(t.Workspace, fmt.Sprint(n)), said, 0o600); err != nil {
			return nil, t, err
		}
		made := 0
		for i, r := range some {
			t.Visits = append(t.Visits, r.Visits...)
			if r.Made {
				ran[done+i], made = r, i+1
			}
		}
		if made == 0 {
			ran[done].Output = "the agent did not come back from this: " + said
			made, idle = 1, idle+1
		}
		if done += made; idle == maxIdle || !l.hasOrdered() {
			break
		}
	}
	for i := range ran {
		if !ran[i].Made && ran[i].Output == "" {
			ran[i].Output = "the agent ended before this"
		}
	}
	return ran, t, nil
}

// modelledOnce starts the agent once.
func (a Agent) modelledOnce(ctx context.Context, dir string, l *lead) (ran []Ran, asked []fakemodel.Request, said string, err error) {
	model, err := fakemodel.Serve(scenario, fakemodel.Scenario{Answer: l.answerTurn})
	if err != nil {
		return nil, nil, "", nightcrier.Errorf(nightcrier.Internal, "selftest: the scripted model: %w", err)
	}
	defer model.Close()
	at, err := a.aimAgent(dir, modelEnv(model.URL(scenario)))
	if err != nil {
		return nil, nil, "", err
	}
	defer at.door.Close()
	if err := at.leadTo(model.URL(scenario)); err != nil {
		return nil, nil, "", err
	}
	l.door = at.door
	if said, err = a.startAgent(ctx, at, runTime, whyRestarts, promptMark, whyRestarts, modelMark, model.URL(scenario)); err != nil {
		return nil, nil, "", err
	}
	asked = model.Requests(scenario)
	if !l.sign.isSeenAt(at.door) {
		return nil, nil, "", a.unsignedError(l.explainSilence(len(asked), said))
	}
	return l.ranPerOrder(), asked, said, nil
}
