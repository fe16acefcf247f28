package process

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
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/sandbox"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// Follow implements [backend.Backend].
func (b Backend) Follow(ctx context.Context, h backend.Handle, from int64, fn func(nightcrier.JournalEntry) error) (backend.Ended, error) {
	d, err := b.dirOf(h)
	if err != nil {
		return backend.Ended{}, err
	}
	f := follower{dir: d, name: h.ID, boxes: b.reaper(), from: from, fn: fn}
	for {
		r, done, err := f.finishedResult(ctx)
		if done || err != nil {
			return f.withLearned(r, err)
		}
		if err := f.attachToWorker(ctx); err != nil {
			return backend.Ended{}, err
		}
		if err := pauseFollowing(ctx); err != nil {
			return backend.Ended{}, err
		}
	}
}

// withLearned is the end of a worker, with what it has learned.
func (f *follower) withLearned(r nightcrier.AgentResult, err error) (backend.Ended, error) {
	if err != nil {
		return backend.Ended{}, err
	}
	learned, err := f.dir.ReadLearned()
	return backend.Ended{Result: r, Learned: learned, LearnedErr: err}, nil
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
	dir   workdir.Dir
	name  string // of the worker
	boxes sandbox.Reaper
	from  int64
	fn    func(nightcrier.JournalEntry) error
}

// finishedResult returns the result when no worker is left: of a worker that ended as
// it should, or of one that it finds dead.
func (f *follower) finishedResult(ctx context.Context) (nightcrier.AgentResult, bool, error) {
	var none nightcrier.AgentResult
	if err := ctx.Err(); err != nil {
		return none, false, nightcrier.Errorf(nightcrier.Interrupted, "follow worker: %w", context.Cause(ctx))
	}
	if ok, err := f.dir.HasFile(""); err != nil || !ok {
		return none, false, errors.Join(err, nightcrier.Errorf(nightcrier.NotFound, "no worker is known by that handle"))
	}
	lock, free, err := f.dir.LockWorker()
	if err != nil || !free {
		return none, false, err // it lives
	}
	defer lock.Close()
	claimed, err := f.dir.IsClaimed()
	if err != nil {
		return none, false, err
	}
	r, ended, err := f.dir.ReadResult()
	why := "the worker died while the agent ran; the agent was ended"
	switch {
	case errors.Is(err, workdir.ErrDamaged):
		why = "what came of the agent cannot be read: " + err.Error()
	case err != nil:
		return none, false, err
	case ended:
		return r, true, f.readRest()
	case !claimed:
		return none, false, nightcrier.Errorf(nightcrier.NotFound, "the worker was never started")
	}
	if r, err = reapWorker(ctx, f.dir, f.name, why, f.boxes); err != nil {
		return none, false, err
	}
	return r, true, f.readRest()
}

// readRest reads what is left of the spool of a worker that is gone, up to where it is damaged.
func (f *follower) readRest() error {
	err := f.readSpool()
	if !errors.Is(err, workdir.ErrDamaged) {
		return err
	}
	spool, err := workdir.OpenSpool(f.dir, specOf(f.dir, f.name), time.Now) // which cuts it off there, and says so
	if err != nil {
		return err
	}
	return errors.Join(spool.Close(), f.readSpool())
}

// readSpool reads the spool from disk.
func (f *follower) readSpool() error {
	if f.fn == nil {
		return nil
	}
	file, err := os.Open(f.dir.PathOf(workdir.SpoolFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = workdir.ReadSpool(file, 0, f.giveEntry)
	return err
}

func (f *follower) giveEntry(e nightcrier.JournalEntry) error {
	n, err := workdir.EntryNumber(e.Key)
	if err != nil || n <= f.from || f.fn == nil {
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
	conn, err := f.dir.DialWorker(ctx)
	if err != nil {
		return nil
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(workdir.Request{V: 1, Op: "attach", From: f.from}); err != nil {
		return nil
	}
	return f.readAnswers(ctx, conn)
}

// readAnswers gives on what a worker says, until it says no more.
func (f *follower) readAnswers(ctx context.Context, in io.Reader) error {
	dec := json.NewDecoder(bufio.NewReaderSize(in, 64<<10))
	for {
		var a workdir.Answer
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
	if err := f.readSpool(); err != nil && !errors.Is(err, workdir.ErrDamaged) {
		return err
	}
	select {
	case <-time.After(diskEvery):
	case <-ctx.Done():
	}
	return nil
}

// Cancel implements [backend.Backend].
func (b Backend) Cancel(ctx context.Context, h backend.Handle, cause string) error {
	d, err := b.dirOf(h)
	if err != nil {
		return err
	}
	for {
		alive, err := d.IsAlive()
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

func sendCancel(ctx context.Context, d workdir.Dir, cause string) error {
	conn, err := d.DialWorker(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(workdir.Request{V: 1, Op: "cancel", Cause: texts.CutBytes(cause, 1<<10)}); err != nil {
		return err
	}
	var a workdir.Answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return err
	}
	if a.Type != "ok" {
		return errors.New(a.Text)
	}
	return nil
}
