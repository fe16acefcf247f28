package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"nightcrier.dev/nightcrier/internal/test/kubetest/nodespace"
)

// nodeConfig is where the programs of a cluster are and how they are started.
// They have a network of their own, so their ports are fixed.
type nodeConfig struct {
	dir         string // of the cluster
	plane, node string // directories of the programs
	engine      engine
}

func (n nodeConfig) path(name string) string { return filepath.Join(n.dir, name) }

// socket is where containerd listens.
func (n nodeConfig) socket() string { return n.path("containerd.sock") }

// kubeconfig is what the programs of the cluster itself use.
func (n nodeConfig) kubeconfig() string { return n.path("inside.kubeconfig") }

// daemon is one program of the cluster.
type daemon struct {
	name string
	argv []string
}

// programs are all of them, in the order of their start.
func (n nodeConfig) programs(id *identity) []daemon {
	return []daemon{
		{etcd.name, n.etcd()},
		{"containerd", []string{n.engine.containerd, "--config", n.path("containerd.toml")}},
		{apiserver.name, n.apiserver(id)},
		{controllerManager.name, n.controllerManager(id)},
		{scheduler.name, []string{filepath.Join(n.node, scheduler.name), "--kubeconfig=" + n.kubeconfig(), "--leader-elect=false", "--secure-port=0"}},
		{nodeAgent.name, n.kubelet()},
	}
}

func (n nodeConfig) etcd() []string {
	return []string{filepath.Join(n.plane, etcd.name),
		"--data-dir=" + n.path("etcd"), "--unsafe-no-fsync=true", "--log-level=error",
	}
}

func (n nodeConfig) apiserver(id *identity) []string {
	return []string{filepath.Join(n.plane, apiserver.name),
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=127.0.0.1", "--secure-port=6443", "--advertise-address=" + nodespace.Address,
		"--endpoint-reconciler-type=none", // or it refuses to advertise 127.0.0.1
		"--tls-cert-file=" + id.certFile, "--tls-private-key-file=" + id.keyFile,
		"--cert-dir=" + n.dir,
		"--token-auth-file=" + id.tokenFile,
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubetest.invalid",
		"--service-account-key-file=" + id.keyFile,
		"--service-account-signing-key-file=" + id.keyFile,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true",
		"--kubelet-preferred-address-types=InternalIP",
		"--v=0",
	}
}

// controllerManager notices within seconds what takes it a minute by default.
func (n nodeConfig) controllerManager(id *identity) []string {
	return []string{filepath.Join(n.node, controllerManager.name),
		"--kubeconfig=" + n.kubeconfig(), "--leader-elect=false", "--secure-port=0",
		"--root-ca-file=" + id.certFile, "--service-account-private-key-file=" + id.keyFile,
		"--node-monitor-period=1s", "--node-monitor-grace-period=8s",
		"--horizontal-pod-autoscaler-sync-period=2s",
	}
}

func (n nodeConfig) kubelet() []string {
	return []string{filepath.Join(n.node, nodeAgent.name),
		"--config=" + n.path("kubelet.yaml"), "--kubeconfig=" + n.kubeconfig(), "--root-dir=" + n.path("kubelet"),
		"--hostname-override=" + NodeName, "--node-ip=" + nodespace.Address, "--v=1",
	}
}

// write writes the configuration files of the programs.
func (n nodeConfig) write(a *API) error {
	inside := API{URL: "https://" + nodespace.API, id: a.id}
	err := inside.writeKubeconfig(n.kubeconfig(), a.id.token, "default")
	for name, text := range map[string]string{
		"containerd.toml": containerdTOML, "cni/10-bridge.conflist": bridgeJSON, "kubelet.yaml": kubeletYAML,
	} {
		err = errors.Join(err, n.fill(name, text))
	}
	return err
}

// fill writes a file from its template.
func (n nodeConfig) fill(name, text string) error {
	t, err := template.New(name).Parse(text)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o755); err != nil {
		return err
	}
	f, err := os.Create(n.path(name))
	if err != nil {
		return err
	}
	err = t.Execute(f, map[string]string{
		"Dir": n.dir, "Cgroup": "/" + filepath.Base(n.dir), "Socket": n.socket(), "CNI": n.engine.cni,
		"Image": Image, "Address": nodespace.Address,
	})
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// restrict_oom_score_adj is for machines whose root lacks CAP_SYS_RESOURCE: a
// container cannot be given a better score than its parent's there.
const containerdTOML = `version = 2
root = "{{.Dir}}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.tracing"]
[grpc]
address = "{{.Socket}}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{{.Image}}"
restrict_oom_score_adj = true
disable_tcp_service = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{{.CNI}}"
conf_dir = "{{.Dir}}/cni"
`

const bridgeJSON = `{"cniVersion": "0.4.0", "name": "kubetest", "plugins": [
  {"type": "bridge", "bridge": "kubetest0", "isGateway": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "{{.Dir}}/ipam"}}
]}
`

// The kubelet reports often, so that a node that hangs is noticed within seconds,
// and finds neither the machine's disk nor its swap worth a word.
const kubeletYAML = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.Address}}
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://{{.Socket}}
cgroupDriver: cgroupfs
cgroupRoot: {{.Cgroup}}
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: ""
clusterDNS: [10.96.0.10]
volumeStatsAggPeriod: 2s
crashLoopBackOff: {maxContainerRestartPeriod: 10s}
maxPods: 500
podPidsLimit: 64
podLogsDir: {{.Dir}}/pods
volumePluginDir: {{.Dir}}/plugins
nodeLeaseDurationSeconds: 4
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 2s
imageGCHighThresholdPercent: 100
imageMaximumGCAge: 0s
evictionHard: {memory.available: 1Mi}
shutdownGracePeriod: 0s
registerWithTaints: []
serializeImagePulls: false
`
