// Package guard is the room of the only ways out of a sandbox. Each guard (data, kube, mcp,
// model) decides what may pass, holds the credential that the agent must not have, and
// writes down what was asked and answered. It offers:
//
//   - budget: what all runs spend on models, and whether one more call fits
//   - data: the way to a cluster's Prometheus and Loki
//   - deploy: the only way to change a cluster: tools that apply manifests, for `mcp --write`
//   - kept: keeps what a run asks of its cluster with the answers, or answers from that
//   - kube: the way to a cluster: it reads, and masks what comes back
//   - kube/attack: requests that the way to a cluster has to refuse
//   - mcp: the way to the tools of MCP servers that are not ours
//   - model: the way to a model
//   - price: what calls of a model cost
//   - readonly: what an agent may do, and whether a shell command only reads
//   - recorded: what was recorded of a cluster, served as a cluster behind its guard
//   - tools: our own tools, as an MCP server for an agent
//   - toolserver: an MCP server of others, as it is configured
package guard
