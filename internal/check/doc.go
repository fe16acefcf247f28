// Package check is the room of what asks whether it is so: by looking at what a server would
// need, by attacks, and by cases whose cause is known. It offers:
//
//   - doctor: everything that a server would need, looked at
//   - eval: diagnoses measured against their cases
//   - selftest: attacks from where an agent stands, and what stopped each
//   - selftest/probe: what of those attacks runs in processes of its own
package check
