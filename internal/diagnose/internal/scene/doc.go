// Package scene holds what one diagnosis has read, and answers questions about it.
//
// A Scene is the objects, Events and logs, each with where it was read. Facts are the part
// of it that is about one workload or one node. What a rule, or whoever reads or reports,
// wants to know of them is a question here: which Pods are behind a Service, what stands
// above a Pod, which Events are about an object, how a workload stands, what needs what.
//
// Here is also what a rule answers with: a Finding, what it saw, the command that would
// refute it and the steps that mend it. Nothing here reads a cluster, and no cause is known.
package scene
