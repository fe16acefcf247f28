// Package cluster is the room of what reads a Kubernetes cluster, and of a cluster that was
// recorded. It changes nothing, and knows neither agents nor incidents. It offers:
//
//   - changes: what differs between two states of an object, in words
//   - kube: the client: single objects, bounded lists, logs, watches
//   - kube/kinds: the one table of the kinds of objects
//   - kubetool: the read-only tools that agents and clients of ours get
//   - preflight: what a credential may do, and whether agents may use it
//   - rbac: the manifest of the least credential that investigations need
//   - snapshot: a recorded cluster: recording, reading and serving it
package cluster
