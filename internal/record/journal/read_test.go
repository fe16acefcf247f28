package journal

import (
	"context"
	"errors"
	"testing"

	"nightcrier.dev/nightcrier"
)

// pages is a journal whose entries are numbers alone.
type pages struct{ entries, reads int }

func (p *pages) Journal(_ context.Context, _ string, from int64, limit int) (list []nightcrier.JournalEntry, err error) {
	p.reads++
	for seq := from; seq <= int64(p.entries) && len(list) < limit; seq++ {
		list = append(list, nightcrier.JournalEntry{Seq: seq})
	}
	return list, nil
}

func TestEachEntryReadsAllPages(t *testing.T) {
	for _, c := range []struct {
		entries, reads int
		from           int64
	}{{0, 1, 1}, {3, 1, 1}, {3, 1, 3}, {pageSize, 2, 1}, {2*pageSize + 1, 3, 1}, {pageSize + 1, 1, 2 + pageSize/2}} {
		p, want := &pages{entries: c.entries}, c.from
		err := EachEntry(t.Context(), p, "r", c.from, func(e nightcrier.JournalEntry) error {
			if e.Seq != want {
				t.Errorf("%+v: entry %d, want %d", c, e.Seq, want)
			}
			want++
			return nil
		})
		if err != nil || want != max(int64(c.entries)+1, c.from) || p.reads != c.reads {
			t.Errorf("%+v: ends before %d after %d reads, %v", c, want, p.reads, err)
		}
	}
}

func TestEachEntryEndsWithWhatFails(t *testing.T) {
	full, n := errors.New("full"), 0
	err := EachEntry(t.Context(), &pages{entries: 9}, "r", 1, func(nightcrier.JournalEntry) error {
		if n++; n == 4 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || n != 4 {
		t.Errorf("%v after %d entries", err, n)
	}
}
