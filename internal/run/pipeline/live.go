package pipeline

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// Live is a directory of pipelines that is read anew when something in it has changed.
type Live struct {
	dir    string
	report func(Problem)

	mu    sync.Mutex
	stamp string
	now   *Library
}

// Open reads a directory, and says each time that it does so what is wrong in it.
func Open(dir string, report func(Problem)) *Live {
	l := &Live{dir: dir, report: report}
	l.Library()
	return l
}

// Library returns the pipelines as they are in the directory: all as they were, or all as
// they are.
func (l *Live) Library() *Library {
	l.mu.Lock()
	defer l.mu.Unlock()
	stamp := l.stampDir() // before it is read: what changes meanwhile is read the next time
	if l.now != nil && stamp == l.stamp {
		return l.now
	}
	library, problems := Load(l.dir)
	for _, p := range problems {
		l.report(p)
	}
	l.now, l.stamp = library, stamp
	return library
}

// stampDir is a text that changes with the files of the directory.
func (l *Live) stampDir() string {
	if l.dir == "" {
		return ""
	}
	files := os.DirFS(l.dir)
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range entries[:min(len(entries), maxFiles)] {
		if info, err := fs.Stat(files, e.Name()); err == nil { // what a link leads to
			fmt.Fprintln(&b, e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}
