package workspace

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// abandoned is how long an open incident must be silent before its workspace
// counts as given up, when nobody claims it: longer than any agent may run.
const abandoned = 24 * time.Hour

// Sweep removes the workspaces whose incident ended longer than retention ago,
// except those that keep claims. A retention of 0 keeps all. It returns the ids
// of the removed ones and the bytes freed. What cannot be removed is named in
// the error and does not stop the rest.
func (r *Root) Sweep(ctx context.Context, now time.Time, retention time.Duration, keep func(id string) bool) (removed []string, freed int64, err error) {
	names, err := listNames(r.fs, ".")
	if err != nil {
		return nil, 0, opError("list the workspaces in "+r.path, err)
	}
	var failed []error
	for _, name := range names {
		if ctx.Err() != nil {
			return removed, freed, errors.Join(append(failed, ctx.Err())...)
		}
		id, gone := r.condemnedName(name, now, retention, keep)
		if gone == "" {
			continue
		}
		n, err := r.removeWorkspace(name, gone, id)
		freed += n
		if err != nil {
			failed = append(failed, opError("remove "+name, err))
		} else if id != "" {
			removed = append(removed, id)
		}
	}
	return removed, freed, errors.Join(failed...)
}

// condemnedName returns the name under which the entry is to be removed, "" for one
// that stays, and the id when the entry is a workspace.
func (r *Root) condemnedName(name string, now time.Time, retention time.Duration, keep func(string) bool) (id, gone string) {
	if rest, ok := strings.CutPrefix(name, gonePrefix); ok {
		if nightcrier.ValidID(rest) {
			return "", name
		}
		return "", ""
	}
	if rest, ok := strings.CutPrefix(name, newPrefix); ok {
		if nightcrier.ValidID(rest) && now.Sub(r.modifiedTime(name)) > abandoned {
			return "", gonePrefix + rest
		}
		return "", ""
	}
	id, ok := strings.CutPrefix(name, dirPrefix)
	if !ok || !nightcrier.ValidID(id) || retention <= 0 || keep != nil && keep(id) {
		return "", ""
	}
	if info, err := r.fs.Lstat(name); err != nil || !info.IsDir() || !r.isExpired(name, now, retention) {
		return "", ""
	}
	return id, gonePrefix + id
}

// isExpired decides by the incident's own record; without one by the time of the
// last change.
func (r *Root) isExpired(name string, now time.Time, retention time.Duration) bool {
	dir, err := r.fs.OpenRoot(name)
	if err != nil {
		return now.Sub(r.modifiedTime(name)) > retention
	}
	defer dir.Close()
	w := Workspace{id: name, fs: dir}
	inc, err := w.ReadIncident()
	if err != nil {
		return now.Sub(r.modifiedTime(name)) > retention
	}
	if inc.Status.Open() {
		return now.Sub(r.modifiedTime(path.Join(name, incidentFile))) > max(retention, abandoned)
	}
	if inc.CompletedAt.IsZero() {
		return now.Sub(r.modifiedTime(path.Join(name, incidentFile))) > retention
	}
	return now.Sub(inc.CompletedAt) > retention
}

func (r *Root) modifiedTime(name string) time.Time {
	info, err := r.fs.Lstat(name)
	if err != nil {
		return time.Now()
	}
	return info.ModTime()
}

// removeWorkspace renames first, so that nobody meets half a workspace.
func (r *Root) removeWorkspace(name, gone, id string) (int64, error) {
	if id != "" {
		if target, err := r.fs.Readlink(id); err == nil && target == dirPrefix+id {
			if err := r.fs.Remove(id); err != nil {
				return 0, err
			}
		}
	}
	if name != gone {
		if err := r.fs.Rename(name, gone); err != nil {
			return 0, err
		}
	}
	return removeTree(r.fs, gone)
}
