package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/journal"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// Follow gives fn the worker's entries above from (the n of their key
// "worker#<attempt>/<n>"), as they come, and returns the result once the worker
// and the agent's whole tree are verified gone. A worker that died without a
// result is cleaned up after, and its result is lost. Ending ctx only detaches:
// the worker goes on. An error of fn ends Follow as well and is returned.
//
// The code of the error is NotFound when the worker was never started.
func Follow(ctx context.Context, dir string, from int64, fn func(nightcrier.JournalEntry) error) (nightcrier.AgentResult, error) {
	f := follower{dir: directory(dir), from: from, fn: fn}
	for {
		r, done, err := f.finished(ctx)
		if done || err != nil {
			return r, err
		}
		if err := f.attach(ctx); err != nil {
			return nightcrier.AgentResult{}, err
		}
		if err := pause(ctx); err != nil {
			return nightcrier.AgentResult{}, err
		}
	}
}

// pause keeps the loop from spinning while a worker starts or ends.
func pause(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return nightcrier.Errorf(nightcrier.Interrupted, "follow worker: %w", context.Cause(ctx))
	}
}

type follower struct {
	dir  directory
	from int64
	fn   func(nightcrier.JournalEntry) error
}

// finished returns the result when no worker is left: of a worker that ended as
// it should, or of one that it finds dead.
func (f *follower) finished(ctx context.Context) (nightcrier.AgentResult, bool, error) {
	var none nightcrier.AgentResult
	if err := ctx.Err(); err != nil {
		return none, false, nightcrier.Errorf(nightcrier.Interrupted, "follow worker: %w", context.Cause(ctx))
	}
	if ok, err := f.dir.exists(""); err != nil || !ok {
		return none, false, errors.Join(err, nightcrier.Errorf(nightcrier.NotFound, "no worker directory %s", f.dir))
	}
	lock, free, err := f.dir.lock()
	if err != nil || !free {
		return none, false, err // it lives
	}
	defer lock.Close()
	claimed, err := f.dir.exists("claim")
	if err != nil {
		return none, false, err
	}
	r, ended, err := f.dir.result()
	switch {
	case err != nil:
		return none, false, err
	case ended:
	case !claimed:
		return none, false, nightcrier.Errorf(nightcrier.NotFound, "the worker of %s was never started", f.dir)
	default:
		if r, err = bury(ctx, f.dir); err != nil {
			return none, false, err
		}
	}
	return r, true, f.rest()
}

// rest reads what is left of the spool from disk.
func (f *follower) rest() error {
	file, err := os.Open(f.dir.path("spool.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = readSpool(file, 0, f.give)
	return err
}

func (f *follower) give(e nightcrier.JournalEntry) error {
	n, err := entryNumber(e.Key)
	if err != nil || n <= f.from {
		return err
	}
	if err := f.fn(e); err != nil {
		return err
	}
	f.from = n
	return nil
}

// attach streams entries over the socket until the worker closes it. That it
// cannot be reached, or breaks off, is no error: the caller looks again.
func (f *follower) attach(ctx context.Context) error {
	conn, err := dial(ctx, f.dir)
	if err != nil {
		return nil
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(protocolRequest{V: SpecVersion, Op: "attach", From: f.from}); err != nil {
		return nil
	}
	dec := json.NewDecoder(bufio.NewReaderSize(conn, 64<<10))
	for {
		var a protocolAnswer
		if err := dec.Decode(&a); err != nil {
			return nil
		}
		switch a.Type {
		case "entry":
			if err := f.give(*a.Entry); err != nil {
				return err
			}
		case "error":
			return nightcrier.Errorf(nightcrier.Internal, "worker: %s", a.Text)
		}
	}
}

// sweepTimeout bounds how long a dead worker's agent may take to die.
const sweepTimeout = 30 * time.Second

// bury ends what is left of a dead worker's agent, verified, and writes the
// result that the worker could not. The caller holds the worker's lock.
func bury(ctx context.Context, d directory) (nightcrier.AgentResult, error) {
	var spec Spec
	if err := d.read("spec.json", &spec); err != nil {
		return nightcrier.AgentResult{}, err
	}
	var p pids
	if err := d.read("pid", &p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nightcrier.AgentResult{}, err
	}
	ids := []process.ID{p.Worker}
	if p.Init != nil {
		ids = append(ids, *p.Init)
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if err := process.Sweep(ctx, ids, spec.marks()...); err != nil {
		return nightcrier.AgentResult{}, err
	}
	if err := process.EndCgroups(ctx, append(p.Cgroups, process.CgroupsNamed(spec.boxName())...)); err != nil {
		return nightcrier.AgentResult{}, err
	}
	r := nightcrier.AgentResult{
		State: nightcrier.StateFailed, FailureClass: nightcrier.FailLost, TerminalEvent: "missing",
		FailureReason: "the worker died while the agent ran; the agent was ended", EndedAt: time.Now().UTC(),
	}
	return r, entomb(d, &spec, r)
}

// entomb adds the last transition to the dead worker's spool and writes its
// result. Doing it twice, after a crash in between, adds a second transition
// and no harm.
func entomb(d directory, spec *Spec, r nightcrier.AgentResult) error {
	s, err := openSpool(d, spec, time.Now)
	if err != nil {
		return err
	}
	last := nightcrier.State("")
	_, err = readSpool(s.file, 0, func(e nightcrier.JournalEntry) error {
		if e.Type == nightcrier.EntryState {
			if st, err := journal.Decode[journal.State](e); err == nil {
				last = st.To
			}
		}
		return nil
	})
	if err == nil && last == "" {
		last = nightcrier.StateCreated
		err = s.add(journal.OfState(journal.State{To: last}))
	}
	if err == nil && !last.Terminal() {
		err = s.add(journal.OfState(journal.State{From: last, To: r.State, Reason: r.FailureReason, FailureClass: r.FailureClass}))
	}
	if err = errors.Join(err, s.close()); err != nil {
		return err
	}
	return d.write("exit.json", r)
}

// Cancel asks the worker of dir to stop its agent: SIGINT, the spec's grace,
// then the whole tree dies. It returns when the worker has heard it; the end
// comes through Follow. A worker that ended before is no error.
func Cancel(ctx context.Context, dir, cause string) error {
	d := directory(dir)
	for {
		alive, err := Alive(dir)
		if err != nil || !alive {
			return err
		}
		err = sendCancel(ctx, d, cause)
		if err == nil {
			return nil
		}
		if !unreachable(err) {
			return nightcrier.Errorf(nightcrier.Internal, "cancel worker: %w", err)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, io.EOF)
}

func sendCancel(ctx context.Context, d directory, cause string) error {
	cause, _ = journal.Clip(cause, 1<<10)
	conn, err := dial(ctx, d)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(protocolRequest{V: SpecVersion, Op: "cancel", Cause: cause}); err != nil {
		return err
	}
	var a protocolAnswer
	return json.NewDecoder(conn).Decode(&a)
}
