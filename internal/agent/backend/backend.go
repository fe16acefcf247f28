// Package backend is the contract of where agents run: what is asked of a worker, the process
// beside the sandbox that does one attempt of one agent step, and of whoever starts it. What a
// worker does is package worker; a backend starts it as a process of this machine (package
// process), or, one day, in a container or a Pod. Package backendtest is what each must pass.
package backend

import (
	"context"

	"nightcrier.dev/nightcrier"
)

// Backend starts workers, which no end of the server that asked disturbs, and finds them again.
//
// It keeps no state in the server: a Backend that is made anew, by a server that starts after
// another died, knows all workers that are there. It may be used by many goroutines, and by two
// servers at once while one takes over from the other.
//
// What caller and worker share is the directory Spec.Workspace, which the caller hands over with
// a launch and takes back with the worker's end, and for some the directories Spec.BudgetDir and
// Spec.Record. Each other path in a Spec is one of where the agent runs. Nothing else is shared:
// no file system, no process table, no loopback; the secrets go over a channel that leaves no
// copy. An agent runs once a launch, and a worker keeps its bounds by itself, also where nobody
// follows it.
type Backend interface {
	// Launch makes sure that the worker of an attempt was started, and returns its handle when
	// it has claimed the attempt. An attempt is named by Spec.RunID and Spec.Attempt: whoever
	// asks again, after any crash or at the same time, gets the same handle, and the agent is
	// started once. What is asked for then is what was asked for first.
	//
	// Its errors say that no agent runs and none will, unless ctx ended: then Launch is asked
	// again. The code is Invalid when the spec was refused, Exhausted when there is no room.
	Launch(ctx context.Context, spec Spec, secrets Secrets) (Handle, error)

	// Follow gives fn the worker's entries above from, the n of their key
	// "worker#<attempt>/<n>", in order and as they come, and returns how it ended once the
	// worker and its agent's whole tree are verified gone. A worker that died without a word
	// is cleaned up after and is FailLost, to whoever asks and however often. A nil fn is told
	// of no entry. Ending ctx only detaches; an error of fn does so too, and is returned.
	//
	// The code is NotFound when the worker was never started, or was destroyed.
	Follow(ctx context.Context, h Handle, from int64, fn func(nightcrier.JournalEntry) error) (Ended, error)

	// Cancel asks the worker to stop its agent: SIGINT, the spec's grace, then the whole tree
	// dies. It returns when the worker has heard it; the end comes through Follow. The first
	// cause counts. Of a worker that has ended, or that nobody knows, there is nothing to
	// cancel, which is no error.
	Cancel(ctx context.Context, h Handle, cause string) error

	// List returns the workers of an owner that were not destroyed, in whatever state, and what
	// dead ones left behind whose record is gone.
	List(ctx context.Context, owner string) ([]Owned, error)

	// Destroy ends a worker at once, with all that runs for it, and forgets it: its entries,
	// its result and what was made for it are gone, but for the workspace. An error means that
	// something is not verified gone, and Destroy is to be asked again. A worker that nobody
	// knows is gone already, which is no error.
	Destroy(ctx context.Context, h Handle) error
}

// Handle names a worker to the backend that launched it, and to nobody else: what stands in it
// is the backend's business. It is stored as JSON, and outlives the server. The code of what is
// asked with a handle of another backend, or one that is none, is Invalid.
type Handle struct {
	Backend string `json:"backend"`
	ID      string `json:"id"`
}

// Ended is how a worker ended.
type Ended struct {
	Result nightcrier.AgentResult
	// Learned is what it has learned of its run's secrets, sealed by Secrets.MaskKey; nil when
	// there is no word of it, as of a worker that died.
	Learned []byte
	// LearnedErr is why Learned could not be read, which is no reason to do without the result.
	LearnedErr error
}

// Owned is what List tells of a worker.
type Owned struct {
	Handle Handle
	// RunID and Attempt are those of its spec.
	RunID   string
	Attempt int
	// Alive says that the worker lives, and so sees to its agent's end.
	Alive bool
	// Processes counts what runs for it; of a worker that does not live, what it left behind,
	// which ends when somebody follows or destroys it.
	Processes int
}
