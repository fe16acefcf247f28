package budget

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
)

// dayFormat names days, in UTC, and their files.
const dayFormat = time.DateOnly

// day is what is known of one day's file. It is used by who holds the lock.
type day struct {
	name, path string
	file       *os.File
	offset     int64 // up to where it is read; a line begins there
	n          int64 // of the last record
	settled    int64 // records that a sum could stand for

	open      map[string]record // calls that are neither settled nor released
	waiting   map[string]record // tickets that are not used
	runs      map[string]Sum
	steps     map[Who]Sum // parts of runs
	incidents map[string]Sum
	clusters  map[string]Sum
	all       Sum
	// refused are the last reasons for which the limits of this day were said to be
	// reached: of a cluster by its name, and that of all.
	refused    map[string]string
	refusedAll string
}

// openDay opens a day's file; flags may say that it is made.
func openDay(path, name string, flags int) (*day, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|portable.NoFollow|flags, 0o600)
	if err == nil && flags&os.O_EXCL != 0 {
		err = giveToOwnerOf(f, filepath.Dir(path))
	}
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
	}
	return &day{
		name: name, path: path, file: f,
		open: map[string]record{}, waiting: map[string]record{}, runs: map[string]Sum{}, steps: map[Who]Sum{}, incidents: map[string]Sum{}, clusters: map[string]Sum{}, refused: map[string]string{},
	}, nil
}

// isReplaced reports whether another file stands in the place of this one.
func (d *day) isReplaced() bool {
	there, err := os.Stat(d.path)
	if err != nil {
		return true
	}
	ours, err := d.file.Stat()
	return err != nil || !os.SameFile(there, ours)
}

// readNewRecords reads what others have written since. A line that somebody's death cut is
// ended first: it counts when it is whole by chance, and otherwise says nothing, as
// its call was never allowed.
func (d *day) readNewRecords() error {
	info, err := d.file.Stat()
	if err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
	}
	if info.Size() == d.offset {
		return nil
	}
	if info.Size() < d.offset {
		return d.newDamageErrorf("it became shorter")
	}
	last := make([]byte, 1)
	if _, err := d.file.ReadAt(last, info.Size()-1); err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "budget: %w", err)
	}
	if last[0] != '\n' {
		if _, err := d.file.Write([]byte("\n")); err != nil {
			return nightcrier.Errorf(nightcrier.Exhausted, "budget: %w", err)
		}
	}
	return d.readRecords(bufio.NewReaderSize(io.NewSectionReader(d.file, d.offset, info.Size()+1-d.offset), 64<<10))
}

func (d *day) readRecords(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		skipped := 0
		for errors.Is(err, bufio.ErrBufferFull) { // longer than any record
			skipped += len(line)
			line, err = r.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return nightcrier.Errorf(nightcrier.Unreachable, "budget: read %s: %w", d.path, err)
		}
		if rec, ok := parseRecord(bytes.TrimSuffix(line, []byte("\n"))); ok && skipped == 0 {
			if err := d.applyRecord(rec); err != nil {
				return err
			}
		}
		d.offset += int64(skipped + len(line))
	}
}

// applyRecord counts one record. What no version of ours writes is no reason to go on
// spending.
func (d *day) applyRecord(r record) error {
	if r.N != d.n+1 {
		return d.newDamageErrorf("record %d follows record %d", r.N, d.n)
	}
	if r.Tokens < 0 || r.Money < 0 || r.Calls < 0 {
		return d.newDamageErrorf("record %d is negative", r.N)
	}
	was, known := d.open[r.Call]
	switch {
	case r.Op == opReserve && !known:
		d.open[r.Call] = r
		delete(d.waiting, r.Ticket)
		d.updateSums(r.Who, func(s Sum) Sum { return Sum{s.Calls + 1, s.Spent, s.Held.plusAmount(r.Amount)} })
	case r.Op == opSettle && known:
		delete(d.open, r.Call)
		d.settled++
		d.updateSums(was.Who, func(s Sum) Sum { return Sum{s.Calls, s.Spent.plusAmount(r.Amount), s.Held.minusAmount(was.Amount)} })
	case r.Op == opRelease && known:
		delete(d.open, r.Call)
		d.settled++
		d.updateSums(was.Who, func(s Sum) Sum { return Sum{s.Calls - 1, s.Spent, s.Held.minusAmount(was.Amount)} })
	case r.Op == opWait:
		d.waiting[r.Call] = r
	case r.Op == opRefuse && r.Scope == perClusterDay:
		d.refused[r.Cluster] = r.Reason
	case r.Op == opRefuse && r.Scope == perDay:
		d.refusedAll = r.Reason
	case r.Op == opRefuse: // its own report says so
	case r.Op == opSum:
		d.updateSums(r.Who, func(s Sum) Sum { return Sum{s.Calls + r.Calls, s.Spent.plusAmount(r.Amount), s.Held} })
	default:
		return d.newDamageErrorf("record %d (%.20q) does not fit what stands before it, or a newer version wrote it", r.N, r.Op)
	}
	d.n = r.N
	return nil
}

func (d *day) updateSums(w Who, with func(Sum) Sum) {
	d.runs[w.Run] = with(d.runs[w.Run])
	d.steps[w] = with(d.steps[w])
	d.incidents[w.Incident] = with(d.incidents[w.Incident])
	d.clusters[w.Cluster] = with(d.clusters[w.Cluster])
	d.all = with(d.all)
}

func (d *day) newDamageErrorf(format string, args ...any) error {
	why := nightcrier.Errorf(nightcrier.Internal, format, args...)
	return nightcrier.Errorf(nightcrier.Internal, "the budget's record %s is damaged, so no call of a model is allowed: %w; move the file away to go on, what was spent that day is then not counted", d.path, why)
}

// appendRecord writes one record behind the others. The file was just refreshed.
func (d *day) appendRecord(r record) error {
	r.N = d.n + 1
	line, err := r.encodeLine()
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "budget: %w", err)
	}
	if _, err := d.file.Write(line); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "budget: the record cannot be written, so the call is not allowed: %w", err)
	}
	d.offset += int64(len(line))
	return d.applyRecord(r)
}

// summaryRecords are the records that say the same in fewer lines: one for what is settled
// of each step, and those of open calls as they are.
func (d *day) summaryRecords(now time.Time) []record {
	var list []record
	held := map[Who]int64{}
	for _, r := range d.open {
		held[r.Who]++
	}
	for who, s := range d.steps {
		if calls := s.Calls - held[who]; calls > 0 || s.Spent != (Amount{}) {
			list = append(list, record{At: now, Op: opSum, Who: who, Amount: s.Spent, Calls: max(calls, 0)})
		}
	}
	slices.SortFunc(list, func(a, b record) int { return compareWho(a.Who, b.Who) })
	calls := slices.SortedFunc(maps.Values(d.open), func(a, b record) int { return int(a.N - b.N) })
	list = append(list, calls...)
	for i := range list {
		list[i].N = int64(i + 1)
	}
	return list
}
