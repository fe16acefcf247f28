// Package triage is what the investigation of an incident does beyond running an agent: the
// facts that it is told, the tests and the checks of its report, and what people hear of it.
// These are actions of a run, and the report the contract of what its agent delivers.
//
// The room also offers:
//
//   - falsify: the tests that a report names against its own hypotheses
//   - prompt: everything that an agent is told
//   - report: the contract of the result: parsing, checking and rendering it
//   - runbook: what the people who run a system wrote for a case like this one
package triage
