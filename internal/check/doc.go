// Package check is the room of what asks whether it is so: by attacks, and by cases whose
// cause is known. It offers:
//
//   - eval: diagnoses measured against their cases
//   - selftest: attacks from where an agent stands, and what stopped each
//   - selftest/probe: what of those attacks runs in processes of its own
package check
