// Package sandbox is the contract between the worker and what confines its agent.
// Package process implements Sandbox and Reaper; package sandboxtest has the suite that each must
// pass, and scripted ones for tests of what stands above. Attaching to an agent that works
// and collecting what it left are no part of it (decision 38).
//
// The room also offers:
//
//   - process: an agent confined on this machine, by the kernel
//   - sandboxtest: the suite that each implementation has to pass
package sandbox
