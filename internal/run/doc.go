// Package run is the investigation of one incident, as a durable workflow:
//
//	prepare → (launch → await)* → review → (launch → await)? → test → check → finish → notify
//
// Each step is a checkpoint. A server that dies goes on at the first step that
// is not finished, so every step is written to be safe when it is repeated: the
// workspace is completed, the worker is started once by its claim, journal
// entries carry keys, the end of a run is one guarded transaction, and a
// notification is recorded before it is sent.
//
// The room also offers:
//
//   - admit: which queued run goes next, and when
//   - engine: durable workflows
//   - engine/enginetest: the suite that the engine has to pass
//   - pipeline: what a run executes, as it is written, checked and frozen
package run
