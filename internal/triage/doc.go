// Package triage is the room of what the investigation of an incident does beyond running an
// agent: what the agent is told, what its report has to say, and whether that is so. It offers:
//
//   - falsify: the tests that a report names against its own hypotheses
//   - prompt: everything that an agent is told
//   - report: the contract of the result: parsing, checking and rendering it
//   - runbook: what the people who run a system wrote for a case like this one
package triage
