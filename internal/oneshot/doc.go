// Package oneshot is the room of the commands that need no server of their own: each starts
// what it needs, does one thing, and leaves nothing running. What is a file or two is here,
// named after its command: demo, guard, mcp, snapshot, tools, budget, eval, selftest. Beside
// them it offers:
//
//   - replay: an investigation made again from what it recorded
//   - skilltest: the evaluations of a skill, with tools that only say what they are told to
//   - triage: one investigation, or those of a whole cluster
package oneshot
