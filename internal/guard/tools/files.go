package tools

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/text"
)

const (
	// maxText bounds a result, in bytes: some 12,000 tokens.
	maxText = 48 << 10
	// maxFile is how much of a file is looked at, in bytes.
	maxFile = 64 << 20
	// maxEntries bounds a listing, and maxDepth how far down it looks.
	maxEntries = 1000
	maxDepth   = 6
)

// files are what may be read of a workspace. Each directory is opened by itself, so
// that no link in it leads to the rest of the workspace either.
type files struct {
	allowed []string
	dirs    map[string]*os.Root
	single  *os.Root // for files of the workspace itself
}

// openFiles opens what is there of the names; what is missing is left out.
func openFiles(workspace string, names []string) (*files, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "workspace: %w", err)
	}
	f := &files{dirs: map[string]*os.Root{}, single: root}
	for _, name := range names {
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && info.IsDir():
			if f.dirs[name], err = root.OpenRoot(name); err == nil {
				err = checkSameDirectory(f.dirs[name], info)
			}
		case err == nil && !info.Mode().IsRegular():
			err = errors.New("it is neither a file nor a directory")
		}
		if err != nil {
			f.close()
			return nil, nightcrier.Errorf(nightcrier.Invalid, "workspace: %s: %w", name, err)
		}
		f.allowed = append(f.allowed, name)
	}
	return f, nil
}

// checkSameDirectory checks that a directory is the one that was looked at, not one that a link
// of that name leads to.
func checkSameDirectory(dir *os.Root, info fs.FileInfo) error {
	opened, err := dir.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = errors.New("it is a link")
	}
	return err
}

func (f *files) close() error {
	err := f.single.Close()
	for _, d := range f.dirs {
		if d != nil {
			err = errors.Join(err, d.Close())
		}
	}
	return err
}

// fileTools are the reader and the list. What they refuse is told to Config.Denied.
func (s *Server) fileTools() []Tool {
	read := kubetool.Params{
		{Name: "path", Type: kubetool.String, Required: true, About: "Path of the file, relative to the workspace"},
		{Name: "from", Type: kubetool.Integer, Min: 1, Max: 10_000_000, Default: 1, About: "First line to show"},
		{Name: "lines", Type: kubetool.Integer, Min: 1, Max: 5000, Default: 1000, About: "How many lines"}}
	list := kubetool.Params{{Name: "path", Type: kubetool.String, Default: ".", About: "A directory, relative to the workspace"}}
	return []Tool{{
		Name: "read_file", Title: "Workspace: Read a file", Schema: read.Schema(), Call: s.onFiles("read_file", read, s.files.readFile),
		About: "Reads a text file of this investigation's workspace, such as context/initial_triage_report.md or .claude/skills/k8s-troubleshooter/SKILL.md. list_files names them.",
	}, {
		Name: "list_files", Title: "Workspace: List files", Schema: list.Schema(), Call: s.onFiles("list_files", list, s.files.listFiles),
		About: "Lists the files of this investigation's workspace that can be read, with their sizes.",
	}}
}

func (s *Server) onFiles(name string, params kubetool.Params, run func(context.Context, kubetool.Args) (string, error)) func(context.Context, json.RawMessage) (string, error) {
	return callWithArguments(name, params, func(ctx context.Context, a kubetool.Args) (string, error) {
		text, err := run(ctx, a)
		if nightcrier.CodeOf(err) == nightcrier.Refused {
			s.cfg.Denied(name, a.String("path"), err.Error())
		}
		return text, err
	})
}

// resolvePath finds where a path leads: into one of the directories, or to a file of the
// workspace itself.
func (f *files) resolvePath(path string) (*os.Root, string, error) {
	clean := filepath.Clean(path)
	if !filepath.IsLocal(clean) || strings.ContainsRune(path, 0) {
		return nil, "", refusedError(path)
	}
	top, rest, deeper := strings.Cut(filepath.ToSlash(clean), "/")
	root, name := f.dirs[top], rest
	switch {
	case !slices.Contains(f.allowed, top):
		return nil, "", refusedError(path)
	case root != nil && !deeper:
		name = "."
	case root == nil && deeper:
		return nil, "", unreadableError(path, syscall.ENOTDIR)
	case root == nil:
		root, name = f.single, top
	}
	if throughLink(root, name) {
		return nil, "", refusedError(path)
	}
	return root, name, nil
}

// throughLink reports whether a part of the path is a link: none is followed, and
// where one leads out of root, root would not follow it either.
func throughLink(root *os.Root, name string) bool {
	for at := name; at != "."; at = filepath.Dir(at) {
		if info, err := root.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

func refusedError(path string) error {
	return nightcrier.Errorf(nightcrier.Refused, "%.200q is not open to you: list_files names what is", path)
}

// unreadableError says what kept a file from being read, without the paths of this machine.
func unreadableError(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nightcrier.Errorf(nightcrier.NotFound, "there is no %.200q: list_files names what is there", path)
	}
	return nightcrier.Errorf(nightcrier.Invalid, "%.200q cannot be read: %w", path, err)
}

// readFile is the tool read_file.
func (f *files) readFile(_ context.Context, a kubetool.Args) (string, error) {
	path := a.String("path")
	file, err := f.openFile(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := showLines(io.LimitReader(file, maxFile), a.Int("from"), a.Int("lines"))
	if err != nil {
		return "", unreadableError(path, err)
	}
	return text, nil
}

// openFile opens a regular file. What it is, is asked of what was opened: the name may
// have come to mean something else.
func (f *files) openFile(path string) (*os.File, error) {
	root, name, err := f.resolvePath(path)
	if err != nil {
		return nil, err
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe does not hold us up
	if err != nil {
		return nil, unreadableError(path, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
		if info.IsDir() {
			err = errors.New("it is a directory: list_files shows it")
		}
	}
	if err != nil {
		file.Close()
		return nil, unreadableError(path, err)
	}
	return file, nil
}

// showLines shows lines of a text, and how to get the rest. A line that is too long by
// itself is cut.
func showLines(r io.Reader, from, count int) (string, error) {
	in := bufio.NewReaderSize(r, maxText)
	var said strings.Builder
	line, shown := 1, 0
	for ; ; line++ {
		part, cut, err := oneLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		end := errors.Is(err, io.EOF)
		if end && len(part) == 0 {
			break
		}
		if line >= from {
			if shown == count || shown > 0 && said.Len()+len(part) > maxText {
				fmt.Fprintf(&said, "\n(lines %d to %d are shown; go on with from: %d)\n", from, line-1, line)
				return text.MarkHidden(said.String()), nil
			}
			said.Write(part)
			if cut {
				fmt.Fprintf(&said, " (line %d goes on behind these %d bytes)\n", line, len(part))
			}
			shown++
		}
		if end {
			break
		}
	}
	switch {
	case shown > 0:
		return text.MarkHidden(said.String()), nil
	case line == 1:
		return "(the file is empty)\n", nil
	}
	return "", nightcrier.Errorf(nightcrier.Invalid, "the file has %d lines; there is nothing from line %d on", line-1, from)
}

// oneLine reads a line, of which it returns as much as the buffer holds.
func oneLine(in *bufio.Reader) (line []byte, cut bool, err error) {
	line, err = in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, false, err
	}
	line = slices.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) {
		err = nil // the next read says so
	}
	return line, true, err
}

// listFiles is the tool list_files.
func (f *files) listFiles(_ context.Context, a kubetool.Args) (string, error) {
	path := a.String("path")
	starts := []string{path}
	if filepath.Clean(path) == "." {
		starts = f.allowed
	}
	var l listing
	for _, start := range starts {
		root, name, err := f.resolvePath(start)
		if err != nil {
			return "", err
		}
		prefix := filepath.ToSlash(filepath.Clean(start))
		if err := l.walk(root, name, prefix); err != nil {
			return "", unreadableError(path, err)
		}
	}
	if l.count == 0 {
		return "(no files)\n", nil
	}
	return text.MarkHidden(l.text.String()), nil
}

// listing is the text of list_files.
type listing struct {
	text  strings.Builder
	count int
	full  bool
}

// walk adds the regular files below name, shown below prefix. Links are not followed.
func (l *listing) walk(root *os.Root, name, prefix string) error {
	return fs.WalkDir(root.FS(), filepath.ToSlash(name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || l.full {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(path, filepath.ToSlash(name)), "/")
		if d.IsDir() {
			if strings.Count(rel, "/") >= maxDepth {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			l.add(strings.TrimSuffix(prefix+"/"+rel, "/"), d)
		}
		return nil
	})
}

func (l *listing) add(path string, d fs.DirEntry) {
	info, err := d.Info()
	if err != nil {
		return // it is gone
	}
	if l.count == maxEntries || l.text.Len() > maxText {
		l.full = true
		l.text.WriteString("(there are more: name a directory)\n")
		return
	}
	l.count++
	fmt.Fprintf(&l.text, "%10d  %q\n", info.Size(), path)
}

// OfWorkspace are the names of the tools that read what an agent was given, and nothing else.
var OfWorkspace = []string{"read_file", "list_files", "read_result"}
