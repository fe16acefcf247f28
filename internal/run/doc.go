// Package run executes runs, as durable workflows. What it knows is how an agent is
// started, followed, tried again and asked again for what it did not deliver, and how
// a run ends; what is done beside that is in actions, and what is to be delivered in
// contracts, which others hand in:
//
//	actions → (launch → await)* → review → (launch → await)? → actions → finish → actions
//
// Each part is a checkpoint. A server that dies goes on at the first one that
// is not finished, so every one is written to be safe when it is repeated: the
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
