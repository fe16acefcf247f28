package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/text"
)

// The files of a workspace that are read or compared.
const (
	ReportFile   = "output/report.json"
	IncidentFile = "incident.json"
	auditFile    = "output/audit.jsonl"
	evidenceDir  = "output/evidence"
	indexFile    = evidenceDir + "/index.jsonl"
	modelFile    = "logs/model.jsonl"
)

// maxFile bounds a file that is read whole.
const maxFile = 160 << 20

// Record is what an investigation left behind: a workspace, read only. All of it is
// taken for what anybody may have written.
type Record struct {
	dir  string
	root *os.Root
	// Doubts are what is wrong with it: it may not be what was recorded.
	Doubts []string

	audit []audit.Record
	items []evidence.Item
	// blobs are what was kept, by digest: nil for what is gone or another.
	blobs map[string][]byte
}

// Open opens the workspace in dir. It is a NotFound error when there is none.
func Open(dir string) (*Record, error) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "there is no workspace in %s: it was never made, or its retention is over", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "workspace %s: %w", dir, err)
	}
	r := &Record{dir: dir, root: root}
	if err := errors.Join(r.readAudit(), r.readItems(), r.checkCalls()); err != nil {
		return nil, errors.Join(nightcrier.Errorf(nightcrier.Invalid, "the record in %s cannot be read: %w", dir, err), root.Close())
	}
	r.checkEvidence()
	return r, nil
}

// Close releases the directory.
func (r *Record) Close() error { return r.root.Close() }

// Dir is the workspace's path.
func (r *Record) Dir() string { return r.dir }

// File reads a file; nil when there is none. Only regular files are read, and no
// link is followed.
func (r *Record) File(rel string) ([]byte, error) { return r.readFile(rel, maxFile) }

// readFile is File for one that is no larger.
func (r *Record) readFile(rel string, most int64) ([]byte, error) {
	f, err := r.root.OpenFile(filepath.FromSlash(rel), os.O_RDONLY|portable.NoFollow, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rel, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", rel, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", rel)
	case info.Size() > most:
		return nil, fmt.Errorf("%s is larger than %d MiB", rel, most>>20)
	}
	raw, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rel, err)
	}
	return append([]byte{}, raw...), nil
}

// List lists a directory of the record, given by its names from the top, and returns its path. No
// link leads there.
func (r *Record) List(names ...string) (dir string, entries []fs.DirEntry, err error) {
	at := ""
	for _, name := range names {
		at = path.Join(at, name)
		info, err := r.root.Lstat(at)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no directory", at)
		}
		if err != nil {
			return "", nil, err
		}
	}
	entries, err = fs.ReadDir(r.root.FS(), at)
	return filepath.Join(r.dir, at), entries, err
}

// Tape reads the tape of a step. It is a NotFound error when there is none.
func (r *Record) Tape(step string) (*Player, error) {
	raw, err := r.File(File(step))
	switch {
	case err != nil:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	case raw == nil:
		return nil, nightcrier.Errorf(nightcrier.NotFound, "%s is missing: what that step learned was not recorded", File(step))
	}
	return Read(raw, step)
}

// readAudit reads what was asked of the cluster, and holds it against its own chain
// and the report's head.
func (r *Record) readAudit() error {
	raw, err := r.File(auditFile)
	if err != nil || raw == nil {
		return err
	}
	_, problems, err := audit.Verify(bytes.NewReader(raw), r.auditHead())
	if err != nil {
		return err
	}
	for _, p := range problems {
		r.addDoubtf("%s: %s", auditFile, p)
	}
	for line := range bytes.Lines(raw) {
		var rec audit.Record
		if json.Unmarshal(line, &rec) == nil && len(r.audit) < maxEntries {
			r.audit = append(r.audit, rec)
		}
	}
	return nil
}

// auditHead is what the report says is the hash of the audit's last line.
func (r *Record) auditHead() string {
	var rep nightcrier.Report
	raw, err := r.File(ReportFile)
	if err != nil || raw == nil || json.Unmarshal(raw, &rep) != nil {
		return ""
	}
	return rep.AuditHead
}

func (r *Record) addDoubtf(format string, args ...any) {
	if len(r.Doubts) < 20 {
		r.Doubts = append(r.Doubts, fmt.Sprintf(format, args...))
	}
}

// readItems reads the index of the evidence.
func (r *Record) readItems() error {
	raw, err := r.File(indexFile)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(raw) {
		var it evidence.Item
		if err := json.Unmarshal(line, &it); err != nil || it.ID != fmt.Sprintf("E%d", len(r.items)+1) || !digestForm.MatchString(it.SHA256) {
			r.addDoubtf("%s: line %d is damaged; what follows is not read", indexFile, len(r.items)+1)
			return nil
		}
		if len(r.items) == evidence.MaxItems {
			return nil
		}
		r.items = append(r.items, it)
	}
	return nil
}

// digestForm is how a blob is named: nothing else becomes part of a path.
var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// itemBody is what was kept as an item, nil when it is gone or was changed, of which there is a
// doubt already. Whoever asks for it again gets the same bytes.
func (r *Record) itemBody(it evidence.Item) []byte { return r.blobs[it.SHA256] }

// readBlobs reads what was kept, each once: no more than a run keeps.
func (r *Record) readBlobs() {
	r.blobs = map[string][]byte{}
	room := evidence.MaxTotal
	for _, it := range r.items {
		if _, read := r.blobs[it.SHA256]; read {
			continue
		}
		raw, err := r.readFile(evidenceDir+"/"+it.SHA256+".blob", evidence.MaxBytes)
		if err != nil || raw == nil || len(raw) > room || text.DigestOf(raw) != it.SHA256 {
			raw = nil
		}
		r.blobs[it.SHA256], room = raw, room-len(raw)
	}
}

// checkEvidence holds each piece of evidence against its digest, and that against the
// one which the audit's chain has of it.
func (r *Record) checkEvidence() {
	r.readBlobs()
	kept := map[string]evidence.Item{}
	for _, it := range r.items {
		kept[it.ID] = it
		if r.itemBody(it) == nil {
			r.addDoubtf("evidence %s is gone, or was changed after it was recorded", it.ID)
		}
	}
	for _, a := range r.audit {
		it, ok := kept[a.Evidence]
		switch {
		case !ok || a.SHA256 == "" || a.SHA256 == it.SHA256:
		case it.Truncated || a.Bytes > it.Bytes && (a.Verb == "watch" || a.Subresource == "log"): // the digest is of more than was kept
		default:
			r.addDoubtf("evidence %s is not what %s says was answered in line %d", it.ID, auditFile, a.Seq)
		}
	}
}

// SeedEvidence puts the first n items into an evidence directory: those that earlier
// runs of the incident had kept, after which a run's own are numbered.
func (r *Record) SeedEvidence(dir string, n int) error {
	if n < 0 || n > len(r.items) {
		return nightcrier.Errorf(nightcrier.Invalid, "%s has %d items, and %d were there when the run began", indexFile, len(r.items), n)
	}
	if n == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "evidence: %w", err)
	}
	var index strings.Builder
	written := map[string]bool{}
	for _, it := range r.items[:n] {
		line, err := json.Marshal(it)
		if err != nil {
			return nightcrier.Errorf(nightcrier.Internal, "evidence: %w", err)
		}
		index.Write(append(line, '\n'))
		if body := r.itemBody(it); body != nil && !written[it.SHA256] {
			written[it.SHA256] = true
			if err := os.WriteFile(filepath.Join(dir, it.SHA256+".blob"), body, 0o600); err != nil {
				return nightcrier.Errorf(nightcrier.Exhausted, "evidence: %w", err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(indexFile)), []byte(index.String()), 0o600); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "evidence: %w", err)
	}
	return nil
}
