package kubetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// What makes a cluster of an API server is built, and cached, apart: only root
// can use it.
var (
	controllerManager = program{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"}
	scheduler         = program{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"}
	nodeAgent         = program{"kubelet", "k8s.io/kubernetes/cmd/kubelet"}

	nodePrograms = []program{controllerManager, scheduler, nodeAgent}
)

// Image is the image that the node has. It is this module's workload program
// alone; see its flags. There is no registry: a Pod says imagePullPolicy Never,
// or IfNotPresent.
const Image = "localhost/workload:1"

// buildOwn compiles the node's init and the workload from this module into dir,
// and writes the image beside them.
func buildOwn(dir string) (initProgram, image string, err error) {
	const pkg = "nightcrier.dev/nightcrier/internal/test/kubetest/"
	module, err := moduleDir()
	if err != nil {
		return "", "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
		"-o", dir+string(filepath.Separator), pkg+"nodespace/init", pkg+"workload")
	cmd.Dir = filepath.Dir(filepath.Dir(module))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build the node's own programs: %w: %s", err, out)
	}
	image = filepath.Join(dir, "workload.tar")
	return filepath.Join(dir, "init"), image, writeImage(image, filepath.Join(dir, "workload"))
}

// writeImage writes an image of one static program, as `docker save` would.
func writeImage(path, program string) error {
	body, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := archive(file{"workload", body})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/workload"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{Image}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := archive(file{"layer.tar", layer}, file{"config.json", config}, file{"manifest.json", manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o600)
}

type file struct {
	name string
	body []byte
}

// archive packs files, executable ones, into a tar.
func archive(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.body))}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// errNoNode is the reason why there can be no node on this machine.
var errNoNode = errors.New("no one-node cluster on this machine")

// cniDirs are where distributions put the network plugins.
var cniDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// engine is what of the machine's own programs a node needs.
type engine struct{ containerd, ctr, cni string }

func findEngine() (engine, error) {
	var e engine
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return e, fmt.Errorf("%w: it needs Linux and root", errNoNode)
	}
	for name, path := range map[string]*string{
		"containerd": &e.containerd, "ctr": &e.ctr, "runc": new(string), "containerd-shim-runc-v2": new(string), "ip": new(string),
	} {
		found, err := exec.LookPath(name)
		if err != nil {
			return e, fmt.Errorf("%w: %s is not installed; run tools/prerequisites", errNoNode, name)
		}
		*path = found
	}
	for _, dir := range cniDirs {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			e.cni = dir
			return e, nil
		}
	}
	return e, fmt.Errorf("%w: no network plugins in %v; run tools/prerequisites", errNoNode, cniDirs)
}
