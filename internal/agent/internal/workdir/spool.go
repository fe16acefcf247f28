package workdir

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// Spool is the worker's part of the journal, on disk. Entries are numbered from
// 1 in their Key; Seq is the store's to give.
type Spool struct {
	spec *backend.Spec
	now  func() time.Time

	mu      sync.Mutex
	file    *os.File
	n       int64
	written int64         // bytes
	changed chan struct{} // closed and replaced with every entry
	closed  bool
	err     error // the first failure of the disk
}

// OpenSpool opens dir's spool to append to. What a crash left of a line that was being written is
// cut off, and so is all that is behind a damaged line; of that an entry tells.
func OpenSpool(d Dir, spec *backend.Spec, now func() time.Time) (*Spool, error) {
	f, err := os.OpenFile(d.PathOf(SpoolFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	s := &Spool{spec: spec, now: now, file: f, changed: make(chan struct{})}
	end, err := ReadSpool(f, 0, func(e nightcrier.JournalEntry) error {
		s.n, _ = EntryNumber(e.Key)
		return nil
	})
	damaged := errors.Is(err, ErrDamaged)
	if err == nil || damaged {
		err = errors.Join(f.Truncate(end), seekTo(f, end))
	}
	s.written = end
	if err == nil && damaged {
		err = s.AppendItem(journal.OfLog(journal.Log{Stream: "worker", Level: "warn", Text: "what the worker recorded after this cannot be read: the file was damaged"}))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func seekTo(f *os.File, to int64) error {
	_, err := f.Seek(to, io.SeekStart)
	return err
}

// AppendItem appends an item. State changes and errors are on disk when it returns.
// Once the disk has failed it does nothing but return that failure.
func (s *Spool) AppendItem(item journal.Item) error {
	data, err := item.JSON()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	line, err := json.Marshal(nightcrier.JournalEntry{
		Run: s.spec.RunID, Time: s.now().UTC().Truncate(time.Microsecond), Step: s.spec.Step, Attempt: s.spec.Attempt,
		Type: item.Type, Data: data, Key: entryKey(s.spec.Attempt, s.n+1),
	})
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "encode journal entry: %w", err)
	}
	_, err = s.file.Write(append(line, '\n'))
	if err == nil && (item.Type == nightcrier.EntryState || item.Type == nightcrier.EntryError) {
		err = s.file.Sync()
	}
	if err != nil {
		s.err = nightcrier.Errorf(nightcrier.Exhausted, "worker's spool: %w", err)
		return s.err
	}
	s.n++
	s.written += int64(len(line)) + 1
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// Close ends the spool; readers get what there is and then end.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.changed)
	s.changed = make(chan struct{})
	return errors.Join(s.file.Sync(), s.file.Close())
}

// CurrentProgress returns how far the spool is, whether it is complete, and a channel
// that is closed when that changes.
func (s *Spool) CurrentProgress() (bytes int64, closed bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written, s.closed, s.changed
}

// ReadEntries calls fn for each entry that was appended so far.
func (s *Spool) ReadEntries(fn func(nightcrier.JournalEntry) error) error {
	_, err := ReadSpool(s.file, 0, fn)
	return err
}

func entryKey(attempt int, n int64) string { return fmt.Sprintf("worker#%d/%d", attempt, n) }

// EntryNumber returns the n of "worker#<attempt>/<n>".
func EntryNumber(key string) (int64, error) {
	_, n, ok := strings.Cut(key, "/")
	if !ok || !strings.HasPrefix(key, "worker#") {
		return 0, nightcrier.Errorf(nightcrier.Invalid, "journal key %q is not a worker's", key)
	}
	return strconv.ParseInt(n, 10, 64)
}

// ReadSpool calls fn for each whole entry from offset on and returns the offset
// behind the last one. What is no entry is damaged.
func ReadSpool(r io.ReaderAt, offset int64, fn func(nightcrier.JournalEntry) error) (int64, error) {
	br := bufio.NewReaderSize(io.NewSectionReader(r, offset, 1<<62), 64<<10)
	for {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return offset, nil // what is left is half a line
		}
		if err != nil {
			return offset, err
		}
		var e nightcrier.JournalEntry
		err = json.Unmarshal(bytes.TrimSpace(line), &e)
		if err == nil {
			_, err = EntryNumber(e.Key)
		}
		if err != nil {
			return offset, nightcrier.Errorf(nightcrier.Internal, "worker's spool at byte %d: %w: %w", offset, ErrDamaged, err)
		}
		if err := fn(e); err != nil {
			return offset, err
		}
		offset += int64(len(line))
	}
}
