// Package agent knows the agents that can do a step: how each is called, what
// it is given, how its output reads, and when it has succeeded. The files of
// an agent begin with its name; what they share is here.
//
// The room also offers:
//
//   - skill: the skills that are part of the product, and those of others
//   - worker: one attempt of one agent step, in a process of its own
package agent
