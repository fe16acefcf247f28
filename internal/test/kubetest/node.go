package kubetest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nightcrier.dev/nightcrier/internal/test/kubetest/nodespace"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// Cluster is a real cluster of one node: API server, controllers, scheduler,
// kubelet and containerd. Its Pods run the image Image; they reach each other and
// the node, and nothing outside.
type Cluster struct {
	API

	space *nodespace.Space
	conf  nodeConfig
	// scratch holds the lock that says that the directory is in use: let go, it
	// would be swept away by the next process that starts a node.
	scratch *testproc.Scratch
}

// sharedNode is the one cluster of the test binary; it dies with it.
var sharedNode = sync.OnceValues(func() (*Cluster, error) { return launchNode(context.Background()) })

// OneNode returns the cluster that the test binary's tests share, starting it for
// the first of them. It needs root, what tools/prerequisites installs and what
// `make kube` builds; where something is missing the test is skipped, aloud.
func OneNode(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := sharedNode()
	if errors.Is(err, errNotBuilt) || errors.Is(err, errNoNode) || errors.Is(err, nodespace.ErrRefused) {
		tb.Skipf("SKIPPED ALOUD: one-node cluster: %v", err)
	}
	if err != nil {
		tb.Fatalf("kubetest: %v", err)
	}
	return c
}

// scratchPrefix is how a node's directory, and its cgroup, begin.
const scratchPrefix = "nightcrier-node-"

func launchNode(ctx context.Context) (*Cluster, error) {
	tools, err := findEngine()
	if err != nil {
		return nil, err
	}
	plane, err := locate("kube", controlPlane)
	if err != nil {
		return nil, err
	}
	node, err := locate("kube-node", nodePrograms)
	if err != nil {
		return nil, err
	}
	scratch, err := testproc.NewScratch(scratchPrefix)
	if err != nil {
		return nil, err
	}
	nodespace.Sweep(scratchPrefix)
	c := &Cluster{conf: nodeConfig{dir: scratch.Path, plane: plane, node: node, engine: tools}, scratch: scratch}
	if err := c.launch(ctx); err != nil {
		if c.space != nil {
			c.space.Close()
		}
		return nil, errors.Join(err, scratch.Remove())
	}
	return c, nil
}

func (c *Cluster) launch(ctx context.Context) error {
	initProgram, image, err := buildOwn(c.conf.dir)
	if err != nil {
		return err
	}
	cfg := nodespace.Config{Init: initProgram, Dir: c.conf.dir, Cgroup: filepath.Base(c.conf.dir)}
	if c.space, err = nodespace.Open(cfg); err != nil {
		return err
	}
	if c.id, err = newIdentity(c.conf.dir); err != nil {
		return err
	}
	c.URL = c.space.URL
	if err := c.connect(c.conf.dir); err != nil {
		return err
	}
	if err := c.conf.write(&c.API); err != nil {
		return err
	}
	return c.startPrograms(ctx, image)
}

// startPrograms starts the control plane and the engine, then what needs them.
func (c *Cluster) startPrograms(ctx context.Context, image string) error {
	lost := make(chan error, len(c.conf.programs(c.id)))
	for _, p := range c.conf.programs(c.id) {
		if p.name == controllerManager.name { // the first that would end without an API server
			if err := c.awaitReady(ctx, lost); err != nil {
				return err
			}
		}
		if err := c.space.Start(p.name, p.argv...); err != nil {
			return err
		}
		go func() { lost <- c.space.Await(p.name) }()
	}
	if err := c.load(ctx, image); err != nil {
		return err
	}
	return c.awaitNode(ctx, lost)
}

// load gives the image to the engine, once it listens.
func (c *Cluster) load(ctx context.Context, image string) error {
	ctr := []string{c.conf.engine.ctr, "--address", c.conf.socket(), "--namespace", "k8s.io"}
	return until(ctx, func() error {
		_, err := c.space.Run(append(ctr, "images", "import", image)...)
		return err
	}, nil)
}

// awaitNode waits until a Pod would be accepted and run.
func (c *Cluster) awaitNode(ctx context.Context, lost <-chan error) error {
	if err := until(ctx, func() error { return c.hasAccount(ctx, metav1.NamespaceDefault) }, lost); err != nil {
		return err
	}
	return until(ctx, func() error { return c.NodeReady(ctx) }, lost)
}

// until calls what until it has no error, and returns its last one when that
// takes too long.
func until(ctx context.Context, what func() error, lost <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := what()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("still after %v: %w", readyWithin, err)
		case err := <-lost:
			return err
		}
	}
}

var (
	nodes    = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	accounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
)

// NodeReady returns nil when the node is ready, else why it is not.
func (c *Cluster) NodeReady(ctx context.Context) error {
	node, err := c.Client.Resource(nodes).Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
	for _, each := range conditions {
		if cond, ok := each.(map[string]any); ok && cond["type"] == "Ready" {
			if cond["status"] == "True" {
				return nil
			}
			return fmt.Errorf("node not ready: %v", cond["message"])
		}
	}
	return errors.New("node not ready: it has not said so")
}

func (c *Cluster) hasAccount(ctx context.Context, ns string) error {
	_, err := c.Client.Resource(accounts).Namespace(ns).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// Namespace makes a namespace for this test, in which Pods can be made, and
// returns its name. It is deleted with the test.
func (c *Cluster) Namespace(tb testing.TB) string {
	tb.Helper()
	ns := c.API.Namespace(tb)
	tb.Cleanup(func() {
		now := int64(0)
		obj := &corev1.Namespace{}
		obj.Name = ns
		err := c.resource(tb, obj).Delete(context.Background(), ns, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			tb.Errorf("kubetest: delete namespace %s: %v", ns, err)
		}
	})
	if err := until(tb.Context(), func() error { return c.hasAccount(tb.Context(), ns) }, nil); err != nil {
		tb.Fatalf("kubetest: namespace %s has no ServiceAccount: %v", ns, err)
	}
	return ns
}

// StopKubelet kills the kubelet, as a node that hangs; its Pods go on. The node
// is not ready some seconds later.
func (c *Cluster) StopKubelet(tb testing.TB) {
	tb.Helper()
	if err := c.space.Signal(nodeAgent.name, syscall.SIGKILL); err != nil {
		tb.Fatalf("kubetest: %v", err)
	}
}

// StartKubelet starts it again.
func (c *Cluster) StartKubelet(tb testing.TB) {
	tb.Helper()
	if err := c.space.Start(nodeAgent.name, c.conf.kubelet()...); err != nil {
		tb.Fatalf("kubetest: %v", err)
	}
}
