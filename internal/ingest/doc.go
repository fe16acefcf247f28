// Package ingest is the room of how faults reach us: from what a source receives to a stored
// decision. Nothing that arrived is lost, and what is not worked on has a reason. It offers:
//
//   - detect: what of a cluster's objects is a fault
//   - dialect: the notifications of fault sources, as events of ours
//   - github: pull requests and comments, as GitHub tells of them
//   - intake: the stages from a payload to a stored decision
//   - mcp: the source that subscribes to a Kubernetes MCP server
//   - observe: one cluster, followed over its API
//   - watch: the source that looks by itself
//   - webhook: the source that others post to
package ingest
