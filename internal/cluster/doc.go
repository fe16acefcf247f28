// Package cluster is the room of what reads a Kubernetes cluster, and of a cluster that was
// recorded. It changes nothing in it (rbac asks for a token, when an operator says so), and
// knows neither agents nor incidents. It offers:
//
//   - changes: what differs between two states of an object, in words
//   - inprocess: a connection to a handler of this process
//   - kube: the client: single objects, bounded lists, logs, watches
//   - kube/kinds: the one table of the kinds of objects
//   - kubetool: the read-only tools that agents and clients of ours get
//   - preflight: what a credential may do, and whether agents may use it
//   - rbac: the least credential that investigations need: its manifest, and a kubeconfig
//   - snapshot: a recorded cluster: recording, reading and serving it
package cluster
