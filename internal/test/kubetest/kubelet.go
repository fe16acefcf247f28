package kubetest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NodeName is the node that Pods are put on. Nothing runs there; its kubelet
// only answers for logs, with what SetLogs gave it.
const NodeName = "kubetest-node"

// kubelet is the log endpoint of the node, which the API server forwards to.
type kubelet struct {
	http *http.Server
	port int

	mu   sync.Mutex
	logs map[logKey]*Log
}

type logKey struct {
	namespace, pod, container string
	previous                  bool
}

func startKubelet(id *identity) (*kubelet, error) {
	cert, err := tls.LoadX509KeyPair(id.certFile, id.keyFile)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &kubelet{port: l.Addr().(*net.TCPAddr).Port, logs: map[logKey]*Log{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	k.http = &http.Server{Handler: mux}
	go k.http.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}}))
	return k, nil
}

func (k *kubelet) serveLogs(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	key := logKey{r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), query.Get("previous") == "true"}
	k.mu.Lock()
	log, ok := k.logs[key]
	k.mu.Unlock()
	switch {
	case ok:
		log.ServeHTTP(w, r)
	case key.previous:
		msg := fmt.Sprintf("previous terminated container %q in pod %q not found", key.container, key.pod)
		http.Error(w, msg, http.StatusBadRequest)
	default: // it has said nothing
		w.Header().Set("Content-Type", "text/plain")
	}
}

// SetLogs makes text what the API server answers for the log of the Pod's
// container named app, or of its previous run.
func (s *Server) SetLogs(pod *corev1.Pod, previous bool, text string) {
	s.SetLog(pod, previous, EndedLog(text))
}

// SetLog is SetLogs for a log that may grow.
func (s *Server) SetLog(pod *corev1.Pod, previous bool, log *Log) {
	s.kubelet.mu.Lock()
	defer s.kubelet.mu.Unlock()
	s.kubelet.logs[logKey{pod.Namespace, pod.Name, pod.Spec.Containers[0].Name, previous}] = log
}

// addNode registers the node, ready, at its kubelet's address.
func (s *Server) addNode(ctx context.Context) error {
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: NodeName},
	}
	nodes := s.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	node.Status = corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(s.kubelet.port)}},
		Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(node)
	if err != nil {
		return err
	}
	if _, err := nodes.Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("register %s: %w", NodeName, err)
	}
	return nil
}

// Node returns the node that Pods are put on, to write another status for it.
func (s *Server) Node(tb testing.TB) *corev1.Node {
	tb.Helper()
	got, err := s.resource(tb, &corev1.Node{}).Get(tb.Context(), NodeName, metav1.GetOptions{})
	if err != nil {
		tb.Fatalf("kubetest: get node: %v", err)
	}
	node := &corev1.Node{}
	fromUnstructured(tb, got, node)
	return node
}
