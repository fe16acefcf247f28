// Package evidence keeps what was read during a run, so that a report can cite
// it and anybody can look it up later. Every item is a blob named by its digest
// and a line of an append-only index that gives it a short id: E1, E2, …
//
// A directory survives the death of its process at any point: a blob is complete
// before its line is written, and a torn last line is cut off when the directory
// is opened. It is not forced to disk item by item, since whoever reads a cluster
// waits for it: what a loss of power takes is noticed by its digest.
package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Limits of one run's evidence.
const (
	// MaxBytes is the most of one body that is kept; the rest is cut off and
	// the item says so.
	MaxBytes = 4 << 20
	// MaxItems is the most items that a run may record.
	MaxItems = 5000
	// MaxTotal is the most bytes that a run may record.
	MaxTotal = 128 << 20
	// MaxSource is the most bytes of a source that are kept.
	MaxSource = 1024
)

const (
	indexName  = "index.jsonl"
	maxIndex   = 16 << 20
	dirPerm    = 0o700
	blobPerm   = 0o600
	blobSuffix = ".blob"
)

// ErrFull is in the chain of a Record that a limit of the run's evidence refused:
// what was read is not kept, and nothing is wrong with the disk.
var ErrFull = errors.New("the evidence of this run is full")

// Item is one thing that was read.
type Item struct {
	ID string `json:"id"`
	// Kind says what the body is: event, object, list, watch, log, version, api,
	// review, error, metrics, lines, computed, tool.
	Kind string `json:"kind"`
	// Source says how it was read, e.g. "kubectl get pod cart-1 -n shop -o json".
	Source string    `json:"source"`
	At     time.Time `json:"at"`
	SHA256 string    `json:"sha256"`
	Bytes  int64     `json:"bytes"`
	// Truncated is set when the body was larger than MaxBytes.
	Truncated bool `json:"truncated,omitempty"`
}

// Recorder keeps the evidence of one run. It is safe for concurrent use.
type Recorder struct {
	// Now is the clock of new items, time.Now unless set before the first.
	Now func() time.Time

	root *os.Root

	mu    sync.Mutex // guards what follows
	index *os.File
	size  int64 // of the index
	items []Item
	known map[read]string // the ids of items
	blobs map[string]bool // the digests that are complete
	total int64
}

// read is what makes two items the same.
type read struct{ kind, source, sum string }

// Open opens, and makes if needed, the evidence directory at path. It must be
// outside an agent's reach.
func Open(path string) (*Recorder, error) {
	if err := os.MkdirAll(path, dirPerm); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "evidence directory: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "evidence directory: %w", err)
	}
	r := &Recorder{Now: time.Now, root: root, known: map[read]string{}, blobs: map[string]bool{}}
	if err := r.openIndex(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return r, nil
}

// Close releases the directory; what was recorded stays.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.index.Sync(), r.index.Close(), r.root.Close())
}

// openIndex reads the index and cuts off what a crash left unfinished.
func (r *Recorder) openIndex() error {
	f, err := r.root.OpenFile(indexName, os.O_RDWR|os.O_CREATE, blobPerm)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "evidence index: %w", err)
	}
	if err := r.readIndex(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Truncate(r.size); err != nil {
		return errors.Join(nightcrier.Errorf(nightcrier.Internal, "evidence index: %w", err), f.Close())
	}
	r.index = f
	return nil
}

// readIndex fills items from the complete lines of f.
func (r *Recorder) readIndex(f *os.File) error {
	in := bufio.NewReader(io.LimitReader(f, maxIndex))
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // a line without its end was never acknowledged
		}
		if err != nil {
			return nightcrier.Errorf(nightcrier.Internal, "evidence index: %w", err)
		}
		var it Item
		if err := json.Unmarshal(line, &it); err != nil || it.ID != idOf(len(r.items)) {
			return nightcrier.Errorf(nightcrier.Internal, "evidence index: line %d is damaged; the run's evidence cannot be trusted", len(r.items)+1)
		}
		r.countItem(it, len(line))
	}
}

// countItem counts an item whose line of that length stands in the index.
func (r *Recorder) countItem(it Item, line int) {
	r.items = append(r.items, it)
	r.known[read{it.Kind, it.Source, it.SHA256}] = it.ID
	r.blobs[it.SHA256] = true
	r.size += int64(line)
	r.total += it.Bytes
}

func idOf(i int) string { return "E" + strconv.Itoa(i+1) }

// Record keeps body and returns its id. The same body from the same source
// keeps the id it has, so that a step that is repeated after a crash cites what
// it cited before. A run that has recorded too much gets an Exhausted error.
func (r *Recorder) Record(kind, source string, body []byte) (string, error) {
	it := Item{Kind: kind, Source: text.CutBytes(source, MaxSource)}
	if it.Truncated = len(body) > MaxBytes; it.Truncated {
		body = body[:MaxBytes]
	}
	it.SHA256, it.Bytes = text.DigestOf(body), int64(len(body))

	r.mu.Lock()
	defer r.mu.Unlock()
	if id := r.known[read{it.Kind, it.Source, it.SHA256}]; id != "" {
		return id, nil
	}
	if len(r.items) >= MaxItems || r.total+it.Bytes > MaxTotal {
		return "", nightcrier.Errorf(nightcrier.Exhausted, "%w: %d items, %d bytes", ErrFull, len(r.items), r.total)
	}
	if err := r.writeBlob(it.SHA256, body); err != nil {
		return "", nightcrier.Errorf(nightcrier.Exhausted, "evidence blob: %w", err)
	}
	it.ID, it.At = idOf(len(r.items)), r.Now().UTC()
	if err := r.appendItem(it); err != nil {
		return "", nightcrier.Errorf(nightcrier.Exhausted, "evidence index: %w", err)
	}
	return it.ID, nil
}

// writeBlob writes a blob under its digest's name. One that the index does not
// name may be half of it, from a process that died.
func (r *Recorder) writeBlob(sum string, body []byte) error {
	if r.blobs[sum] {
		return nil
	}
	f, err := r.root.OpenFile(sum+blobSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, blobPerm)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	return errors.Join(err, f.Close())
}

// appendItem adds a line to the index; a failed write leaves the index as it was.
func (r *Recorder) appendItem(it Item) error {
	line, err := json.Marshal(it)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := r.index.WriteAt(line, r.size); err != nil {
		return errors.Join(err, r.index.Truncate(r.size))
	}
	r.countItem(it, len(line))
	return nil
}

// Load returns the body of an item. NotFound when there is no such id; an
// Internal error when the blob is gone or is not what was recorded.
func (r *Recorder) Load(id string) ([]byte, error) {
	it, ok := r.Item(id)
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "evidence %q was not recorded in this run", text.CutBytes(id, 16))
	}
	f, err := r.root.Open(it.SHA256 + blobSuffix)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "evidence %s: %w", id, err)
	}
	defer f.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(f, MaxBytes+1)); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "evidence %s: %w", id, err)
	}
	if text.DigestOf(body.Bytes()) != it.SHA256 {
		return nil, nightcrier.Errorf(nightcrier.Internal, "evidence %s was changed after it was recorded", id)
	}
	return body.Bytes(), nil
}

// Item returns the item of that id, and whether there is one.
func (r *Recorder) Item(id string) (Item, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(id) < 2 || id[0] != 'E' {
		return Item{}, false
	}
	n, err := strconv.Atoi(id[1:])
	if err != nil || n < 1 || n > len(r.items) || idOf(n-1) != id {
		return Item{}, false
	}
	return r.items[n-1], true
}

// Items returns what was recorded, oldest first.
func (r *Recorder) Items() []Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Item(nil), r.items...)
}
