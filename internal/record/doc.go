// Package record is the room of what is kept: in the database, in an incident's directory,
// in a run's journal. What is written here is still true after a crash. It offers:
//
//   - audit: the journal's requests as audit.jsonl, and whether a journal was changed
//   - evidence: the cluster's answers that a report may cite
//   - journal: the vocabulary of a run's journal
//   - replay: what a run was answered from outside, its cluster and model made of that, and
//     what two investigations differ in
//   - replay/tape: how the guards ask what is outside, so that it can be kept
//   - store: events, incidents, runs and notifications in SQL
//   - store/storetest: the suite that every database has to pass
//   - workspace: one directory for each incident
package record
