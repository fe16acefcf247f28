package kubetest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier/internal/test/assetcache"
)

// program is one binary built from the module in tools/kube.
type program struct {
	name string // of the file
	pkg  string // import path of its main package
}

var (
	apiserver = program{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"}
	etcd      = program{"etcd", "go.etcd.io/etcd/server/v3"}
	kubectl   = program{"kubectl", "k8s.io/kubernetes/cmd/kubectl"}
)

// controlPlane and client are built, and cached, apart: few tests need kubectl.
var (
	controlPlane = []program{etcd, apiserver}
	client       = []program{kubectl}
)

// oldKubectl is the entry, and the module, of the oldest kubectl that is
// supported.
const oldKubectl = "kubectl132"

// errNotBuilt: nobody has built the programs on this machine yet.
var errNotBuilt = errors.New("not built: run `make kube`, or set NIGHTCRIER_KUBE=build")

// Build makes sure that the API server, etcd and kubectl are in the cache, and,
// on a machine that can be a node, what a node runs, compiling them where they are
// not (about five CPU minutes the first time, and two for the node), and tells
// progress on log.
func Build(ctx context.Context, log io.Writer) error {
	if _, err := ensure(ctx, "kube", controlPlane, log); err != nil {
		return err
	}
	for _, entry := range []string{"kubectl", oldKubectl} {
		if _, err := ensure(ctx, entry, client, log); err != nil {
			return err
		}
	}
	if _, err := findEngine(); err != nil {
		fmt.Fprintf(log, "kube: nothing built for a node: %v\n", err)
		return nil
	}
	_, err := ensure(ctx, "kube-node", nodePrograms, log)
	return err
}

// ensure returns the cached directory that holds the programs, built if needed.
func ensure(ctx context.Context, prefix string, programs []program, log io.Writer) (string, error) {
	module, err := toolsDir(moduleOf(prefix))
	if err != nil {
		return "", err
	}
	name, err := entryName(prefix, module)
	if err != nil {
		return "", err
	}
	return assetcache.Ensure(ctx, name, func(ctx context.Context, dir string) error {
		b := builder{module: module, out: dir, log: log}
		return b.build(ctx, programs)
	})
}

// locate is ensure for tests: it builds only when NIGHTCRIER_KUBE=build, and
// otherwise answers errNotBuilt for what is not in the cache.
func locate(prefix string, programs []program) (string, error) {
	if os.Getenv("NIGHTCRIER_KUBE") == "build" {
		return ensure(context.Background(), prefix, programs, os.Stderr)
	}
	module, err := toolsDir(moduleOf(prefix))
	if err != nil {
		return "", err
	}
	name, err := entryName(prefix, module)
	if err != nil {
		return "", err
	}
	dir, err := assetcache.Lookup(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNotBuilt
	}
	return dir, err
}

// entryName names the cache entry after the pinned versions it is built from.
func entryName(prefix, module string) (string, error) {
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(sum)
	return prefix + "-" + hex.EncodeToString(digest[:6]), nil
}

// moduleOf names the module below tools that pins an entry's programs.
func moduleOf(prefix string) string {
	if prefix == oldKubectl {
		return oldKubectl
	}
	return "kube"
}

// moduleDir finds tools/kube in the source tree around the working directory.
func moduleDir() (string, error) { return toolsDir("kube") }

// toolsDir finds a module below tools in the same way.
func toolsDir(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		module := filepath.Join(dir, "tools", name)
		if _, err := os.Stat(filepath.Join(module, "go.sum")); err == nil {
			return module, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("tools/%s: %w above the working directory", name, fs.ErrNotExist)
		}
		dir = parent
	}
}

// builder compiles programs of the module in tools/kube into a directory.
type builder struct {
	module string
	out    string
	log    io.Writer
}

func (b builder) build(ctx context.Context, programs []program) error {
	ldflags, err := b.ldflags(ctx)
	if err != nil {
		return err
	}
	for _, p := range programs {
		fmt.Fprintf(b.log, "kube: building %s (minutes, once)\n", p.name)
		cmd := b.command(ctx, "build", "-mod=readonly", "-v", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags="+ldflags,
			"-o", filepath.Join(b.out, p.name), p.pkg)
		if err := b.run(cmd, p.name); err != nil {
			return err
		}
	}
	return nil
}

// ldflags tells the programs their version, without which the API server says
// v0.0.0 and clients misjudge it.
func (b builder) ldflags(ctx context.Context) (string, error) {
	out, err := b.command(ctx, "list", "-mod=readonly", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("version of k8s.io/kubernetes in %s: %w", b.module, err)
	}
	version := strings.TrimSpace(string(out))
	part := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(part) != 3 {
		return "", fmt.Errorf("version of k8s.io/kubernetes in %s: %q is not major.minor.patch", b.module, version)
	}
	const pkg = "k8s.io/component-base/version."
	return fmt.Sprintf("-s -w -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s",
		pkg, version, part[0], part[1]), nil
}

func (b builder) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return cmd
}

// run runs a verbose build, turning its list of packages into a line now and
// then, and keeps what else it said for the error.
func (b builder) run(cmd *exec.Cmd, name string) error {
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	last := b.progress(said, name)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("build %s: %w: %s", name, err, last)
	}
	return nil
}

const progressEvery = 100 // packages

// progress reads what a verbose build prints and returns its last lines.
func (b builder) progress(said io.Reader, name string) string {
	var last []string
	lines := bufio.NewScanner(said)
	for n := 1; lines.Scan(); n++ {
		if last = append(last, lines.Text()); len(last) > 10 {
			last = last[1:]
		}
		if n%progressEvery == 0 {
			fmt.Fprintf(b.log, "kube: %s: %d packages so far\n", name, n)
		}
	}
	return strings.Join(last, "\n")
}
