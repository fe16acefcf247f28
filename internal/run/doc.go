// Package run executes runs: a durable workflow does the steps of a pipeline, as it was
// frozen when the run was admitted. A step is an action, which others hand in, or an
// agent's. How an agent is started, followed, tried again and asked again for what it
// did not deliver, and how a run ends, is here:
//
//	step*:  action | (launch → await)* → review → (launch → await)? → keep
//	run:    step* → finish → what is due after the end
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
//   - instruct: what the agent of a skill step is told
//   - pipeline: what a run executes, as it is written, checked and frozen
package run
