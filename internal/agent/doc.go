// Package agent knows the agents that can do a step: how each is called, what
// it is given, how its output reads, and when it has succeeded. The files of
// an agent begin with its name; what they share is here.
//
// The room also offers:
//
//   - backend: the contract of where agents run
//   - backend/process: workers as processes of this machine
//   - backend/backendtest: the suite that each backend has to pass
//   - knowledge: what is known of services and of stages of work
//   - loop: our own agents, which ask a model and call tools
//   - skill: the skills that are part of the product, and those of others
//   - worker: one attempt of one agent step, beside the sandbox
package agent
