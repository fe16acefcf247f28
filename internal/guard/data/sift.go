package data

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// Lines that are looked through here are fetched in pages, from the newest back. A page
// that is too large is asked for again in half the size.
const (
	pageLines = 1000
	leastPage = 50
	maxPages  = 10
)

// sieve looks through masked lines for those that pass some filters.
type sieve struct {
	filters []lineFilter
	want    int

	looked  int                // lines so far
	kept    map[string]*stream // by their labels
	passed  int
	oldest  int64           // of all that were looked at
	atEdge  map[string]bool // the lines of that moment, which may come again
	reached bool            // there are no more lines
}

// siftLines asks for lines until enough of them pass the filters, and returns these in the
// form that Loki answers in. Each page is a question of its own on record.
func (g *Guard) siftLines(ctx context.Context, asked question, q Query, filters []lineFilter) (s *sieve, finish func(journal.Request) error, err error) {
	s = &sieve{filters: filters, want: q.Limit, kept: map[string]*stream{}, oldest: q.End.UnixNano()}
	size := pageLines
	for page := 0; ; page++ {
		asked.options.Set("limit", strconv.Itoa(size))
		body, done, err := g.askQuestion(ctx, asked)
		if nightcrier.CodeOf(err) == nightcrier.Exhausted && size/2 >= leastPage && page < maxPages {
			size /= 2
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		end, err := s.readPage(body, size)
		if err != nil {
			return nil, nil, errors.Join(err, done(journal.Request{Status: http.StatusOK, Bytes: int64(len(body))}))
		}
		if s.reached || s.passed >= s.want || page+1 >= maxPages {
			return s, done, nil
		}
		if err := done(journal.Request{Status: http.StatusOK, Bytes: int64(len(body))}); err != nil {
			return nil, nil, nightcrier.Errorf(nightcrier.Exhausted, "the answer cannot be put on record, so it is not told: %w", err)
		}
		asked.options.Set("end", strconv.FormatInt(end, 10))
	}
}

// readPage takes in a page, and returns where the one before it ends.
func (s *sieve) readPage(body []byte, size int) (end int64, err error) {
	r, err := decodeResult(Loki, body)
	var all []stream
	if err == nil && (r.Data.Type != "streams" || json.Unmarshal(r.Data.Result, &all) != nil) {
		err = nightcrier.Errorf(nightcrier.Unreachable, "what %s answers is not what its API promises: no lines", Loki)
	}
	if err != nil {
		return 0, err
	}
	before, edge := s.oldest, s.atEdge
	got := 0
	for _, st := range all {
		key, err := json.Marshal(st.Labels)
		if err != nil {
			return 0, err
		}
		for _, v := range st.Values {
			at, err := momentOf(v)
			if err != nil {
				return 0, err
			}
			got++
			line := fmt.Sprintf("%s %s", key, v[1])
			if at == before && edge[line] {
				continue // it came with the page behind this one
			}
			if at < s.oldest {
				s.oldest, s.atEdge = at, map[string]bool{}
			}
			if at == s.oldest && s.atEdge != nil {
				s.atEdge[line] = true
			}
			s.looked++
			s.addIfPassing(string(key), st.Labels, v)
		}
	}
	s.reached = got < size
	if s.oldest == before {
		return s.oldest, nil // more lines of one moment than a page holds
	}
	return s.oldest + 1, nil
}

// momentOf is when a line was written, in nanoseconds.
func momentOf(v []json.RawMessage) (int64, error) {
	var at string
	if len(v) >= 2 && json.Unmarshal(v[0], &at) == nil {
		if n, err := strconv.ParseInt(at, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, nightcrier.Errorf(nightcrier.Unreachable, "what %s answers is not what its API promises: a line of another form", Loki)
}

// addIfPassing keeps a line that passes.
func (s *sieve) addIfPassing(key string, labels map[string]string, v []json.RawMessage) {
	var line string
	if json.Unmarshal(v[1], &line) != nil || slices.ContainsFunc(s.filters, func(f lineFilter) bool { return !f.keepsLine(line) }) {
		return
	}
	if s.kept[key] == nil {
		s.kept[key] = &stream{Labels: labels}
	}
	s.kept[key].Values = append(s.kept[key].Values, v)
	s.passed++
}

// encodeBody returns an answer with the newest lines that passed, as many as are wanted.
func (s *sieve) encodeBody() ([]byte, error) {
	from := s.oldestWanted()
	result := []map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(s.kept)) {
		st := s.kept[key]
		values := slices.DeleteFunc(st.Values, func(v []json.RawMessage) bool {
			at, err := momentOf(v)
			return err != nil || at < from
		})
		if len(values) > 0 {
			result = append(result, map[string]any{"stream": st.Labels, "values": values})
		}
	}
	return json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "streams", "result": result}})
}

// oldestWanted is the moment of the oldest line that is wanted.
func (s *sieve) oldestWanted() int64 {
	var all []int64
	for _, st := range s.kept {
		for _, v := range st.Values {
			at, _ := momentOf(v) // it was read before
			all = append(all, at)
		}
	}
	if len(all) <= s.want {
		return 0
	}
	slices.SortFunc(all, func(a, b int64) int { return cmp.Compare(b, a) })
	return all[s.want-1]
}

// describeReach says how far was looked.
func (s *sieve) describeReach() string {
	said := fmt.Sprintf("%s of the %s that were looked at passed the filters", text.CountNoun(s.passed, "line"), text.CountNoun(s.looked, "line"))
	if !s.reached {
		said += ", back to " + time.Unix(0, s.oldest).UTC().Format(time.RFC3339Nano) + "; older ones were not looked at: set end to that, or select fewer streams"
	}
	return said
}
