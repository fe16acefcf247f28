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
	texts "nightcrier.dev/nightcrier/internal/text"
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
		r, done, err := f.finishedResult(ctx)
		if done || err != nil {
			return r, err
		}
		if err := f.attachToWorker(ctx); err != nil {
			return nightcrier.AgentResult{}, err
		}
		if err := pauseFollowing(ctx); err != nil {
			return nightcrier.AgentResult{}, err
		}
	}
}

// pauseFollowing keeps the loop from spinning while a worker starts or ends.
func pauseFollowing(ctx context.Context) error {
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

// finishedResult returns the result when no worker is left: of a worker that ended as
// it should, or of one that it finds dead.
func (f *follower) finishedResult(ctx context.Context) (nightcrier.AgentResult, bool, error) {
	var none nightcrier.AgentResult
	if err := ctx.Err(); err != nil {
		return none, false, nightcrier.Errorf(nightcrier.Interrupted, "follow worker: %w", context.Cause(ctx))
	}
	if ok, err := f.dir.hasFile(""); err != nil || !ok {
		return none, false, errors.Join(err, nightcrier.Errorf(nightcrier.NotFound, "no worker directory %s", f.dir))
	}
	lock, free, err := f.dir.lockWorker()
	if err != nil || !free {
		return none, false, err // it lives
	}
	defer lock.Close()
	claimed, err := f.dir.hasFile("claim")
	if err != nil {
		return none, false, err
	}
	r, ended, err := f.dir.readResult()
	switch {
	case err != nil:
		return none, false, err
	case ended:
	case !claimed:
		return none, false, nightcrier.Errorf(nightcrier.NotFound, "the worker of %s was never started", f.dir)
	default:
		if r, err = buryWorker(ctx, f.dir, f.dir.newReaper()); err != nil {
			return none, false, err
		}
	}
	return r, true, f.readRest()
}

// readRest reads what is left of the spool from disk.
func (f *follower) readRest() error {
	file, err := os.Open(f.dir.pathOf("spool.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = readSpool(file, 0, f.giveEntry)
	return err
}

func (f *follower) giveEntry(e nightcrier.JournalEntry) error {
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

// attachToWorker streams entries over the socket until the worker closes it. That it
// cannot be reached, or breaks off, is no error: the caller looks again.
func (f *follower) attachToWorker(ctx context.Context) error {
	conn, err := dialWorker(ctx, f.dir)
	if err != nil {
		return nil
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(protocolRequest{V: 1, Op: "attach", From: f.from}); err != nil {
		return nil
	}
	return f.readAnswers(ctx, conn)
}

// readAnswers gives on what a worker says, until it says no more.
func (f *follower) readAnswers(ctx context.Context, in io.Reader) error {
	dec := json.NewDecoder(bufio.NewReaderSize(in, 64<<10))
	for {
		var a protocolAnswer
		if err := dec.Decode(&a); err != nil {
			return nil
		}
		switch {
		case a.Type == "entry" && a.Entry != nil:
			if err := f.giveEntry(*a.Entry); err != nil {
				return err
			}
		case a.Type == "error":
			return f.fromDisk(ctx)
		}
	}
}

// diskEvery is how often the spool of a worker is read that refuses to stream it.
const diskEvery = time.Second

// fromDisk reads what a worker of another version has spooled: it does not stream to
// us, and all that it has to say is on disk.
func (f *follower) fromDisk(ctx context.Context) error {
	if err := f.readRest(); err != nil {
		return err
	}
	select {
	case <-time.After(diskEvery):
	case <-ctx.Done():
	}
	return nil
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
		if !isUnreachable(err) {
			return nightcrier.Errorf(nightcrier.Internal, "cancel worker: %w", err)
		}
		if err := pauseFollowing(ctx); err != nil {
			return err
		}
	}
}

func isUnreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, io.EOF)
}

func sendCancel(ctx context.Context, d directory, cause string) error {
	conn, err := dialWorker(ctx, d)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(protocolRequest{V: 1, Op: "cancel", Cause: texts.CutBytes(cause, 1<<10)}); err != nil {
		return err
	}
	var a protocolAnswer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return err
	}
	if a.Type != "ok" {
		return errors.New(a.Text)
	}
	return nil
}
