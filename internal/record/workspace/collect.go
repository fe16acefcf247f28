package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
)

// Limits of what is taken from an agent.
const (
	maxFiles     = 1000
	maxDepth     = 8
	maxFileBytes = 64 << 20
	maxAllBytes  = 256 << 20
	maxRefusals  = 100
)

// ours are the names in output that an agent can never write, in lower case:
// some file systems fold it.
var ours = map[string]bool{
	"report.json": true, "final-report.md": true, "agent.log": true, "audit.jsonl": true, "evidence": true,
}

// foreign is the reason for what the sandbox made under a user that we have no
// power over.
const foreign = "belongs to another user"

// reportFile is the agent's report, in output.
const reportFile = "investigation.md"

// Collection is what an agent left.
type Collection struct {
	// Artifacts are its files in output other than the report, sorted by path.
	Artifacts []nightcrier.Artifact
	// Refused are the entries that stay in the scratch directory, at most
	// a hundred of them; the last then says how many more there are.
	Refused []Refusal
}

// Refusal says why something an agent left was not taken.
type Refusal struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Collect moves what the agent left in its scratch directory to output. Call it
// when the agent's process tree is verified gone. Only regular files with a
// single link, plain names and bounded sizes are moved, and none of our own
// names. After a crash in the middle a second call finishes the first.
func (w *Workspace) Collect() (Collection, error) {
	c := collector{root: w.fs}
	if err := c.moveBelow(scratch, "output", 0); err != nil {
		return Collection{}, opError("collect the output of incident "+w.id, err)
	}
	artifacts, err := listArtifacts(w.fs)
	if err != nil {
		return Collection{}, opError("catalogue the output of incident "+w.id, err)
	}
	if more := c.refusals - len(c.refused); more > 0 {
		c.refused = append(c.refused, Refusal{Path: "output", Reason: fmt.Sprintf("%d more entries were not taken", more)})
	}
	return Collection{Artifacts: artifacts, Refused: c.refused}, nil
}

// Uncollected reads a file that Collect would take from the scratch directory,
// and leaves it there; NotFound when it would take none.
func (w *Workspace) Uncollected(name string) ([]byte, error) {
	if err := checkRel(name); err != nil {
		return nil, err
	}
	rel := path.Join(scratch, name)
	info, err := w.fs.Lstat(rel)
	if err == nil && (&collector{}).refuseFile(info) != "" {
		err = fs.ErrNotExist
	}
	var data []byte
	if err == nil {
		data, err = readRegular(w.fs, rel)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = fs.ErrNotExist
	}
	return data, opError("read "+name+", which the agent of incident "+w.id+" left", err)
}

// LeftNames lists the regular files that an agent left, by their names in output: those that
// were collected, and those that were not yet.
func (w *Workspace) LeftNames() (names []string, err error) {
	for _, dir := range []string{scratch, "output"} {
		err = errors.Join(err, walkFiles(w.fs, dir, func(rel string, info fs.FileInfo) error {
			name := strings.TrimPrefix(rel, dir+"/")
			top, _, _ := strings.Cut(name, "/")
			if info.Mode().IsRegular() && !ours[strings.ToLower(top)] && len(names) < maxFiles {
				names = append(names, name)
			}
			return nil
		}))
	}
	return names, opError("list what the agent of incident "+w.id+" left", err)
}

type collector struct {
	root     *os.Root
	files    int
	bytes    int64
	refused  []Refusal
	refusals int
}

func (c *collector) addRefusal(rel, reason string) {
	c.refusals++
	if len(c.refused) < maxRefusals {
		c.refused = append(c.refused, Refusal{Path: strings.ToValidUTF8(rel, "�"), Reason: reason})
	}
}

// moveBelow moves the files below from to the same place below to.
func (c *collector) moveBelow(from, to string, depth int) error {
	entries, err := listNames(c.root, from)
	if depth > 0 && errors.Is(err, fs.ErrPermission) {
		c.addRefusal(strings.TrimPrefix(from, scratch+"/"), foreign)
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range entries {
		if err := c.visitEntry(path.Join(from, name), path.Join(to, name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) visitEntry(from, to string, depth int) error {
	info, err := c.root.Lstat(from)
	if err != nil {
		return err
	}
	shown := strings.TrimPrefix(from, scratch+"/")
	if reason := refuseName(path.Base(from), depth); reason != "" {
		c.addRefusal(shown, reason)
		return nil
	}
	if info.IsDir() {
		if depth == 0 && strings.EqualFold(shown, reportFile) {
			c.addRefusal(shown, "the report is not a file")
			return nil
		}
		if depth+1 >= maxDepth {
			c.addRefusal(shown, fmt.Sprintf("deeper than %d directories", maxDepth))
			return nil
		}
		return c.moveBelow(from, to, depth+1)
	}
	if reason := c.refuseFile(info); reason != "" {
		c.addRefusal(shown, reason)
		return nil
	}
	return c.moveFile(from, to, shown, info.Size())
}

// moveFile takes one file; a directory in the way is a refusal, not a failure.
func (c *collector) moveFile(from, to, shown string, size int64) error {
	if info, err := c.root.Lstat(to); err == nil && !info.Mode().IsRegular() {
		c.addRefusal(shown, "something else has this name in output")
		return nil
	}
	if err := c.root.MkdirAll(path.Dir(to), 0o700); err != nil {
		if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrExist) {
			c.addRefusal(shown, "a file in output has the name of its directory")
			return nil
		}
		return err
	}
	if err := c.root.Chmod(from, 0o600); errors.Is(err, fs.ErrPermission) {
		c.addRefusal(shown, foreign)
		return nil
	} else if err != nil {
		return err
	}
	if err := c.root.Rename(from, to); err != nil {
		return err
	}
	c.files++
	c.bytes += size
	return nil
}

func (c *collector) refuseFile(info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return "a symbolic link"
	case !info.Mode().IsRegular():
		return "not a regular file"
	case countLinks(info) > 1:
		return "has another hard link"
	case info.Size() > maxFileBytes:
		return fmt.Sprintf("larger than %d MiB", maxFileBytes>>20)
	case c.files >= maxFiles:
		return fmt.Sprintf("more than %d files", maxFiles)
	case c.bytes+info.Size() > maxAllBytes:
		return fmt.Sprintf("more than %d MiB in all", maxAllBytes>>20)
	}
	return ""
}

// refuseName keeps names out that would bend a terminal, a command line or our
// own files.
func refuseName(name string, depth int) string {
	switch {
	case depth == 0 && ours[strings.ToLower(name)]:
		return "this name is written by nightcrier alone"
	case !utf8.ValidString(name):
		return "the name is not UTF-8"
	case strings.HasPrefix(name, "-"):
		return "the name begins with a dash"
	case IsBeingWritten(name):
		return "the name is reserved"
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }):
		return "the name holds a character that is not printable"
	}
	return ""
}

// listArtifacts lists the agent's files in output with their digests.
func listArtifacts(root *os.Root) ([]nightcrier.Artifact, error) {
	var found []nightcrier.Artifact
	err := walkFiles(root, "output", func(rel string, info fs.FileInfo) error {
		top, _, _ := strings.Cut(strings.TrimPrefix(rel, "output/"), "/")
		if ours[strings.ToLower(top)] || top == reportFile || !info.Mode().IsRegular() || len(found) >= maxFiles {
			return nil
		}
		sum, err := digestFile(root, rel)
		found = append(found, nightcrier.Artifact{Path: rel, Bytes: info.Size(), SHA256: sum})
		return err
	})
	sort.Slice(found, func(i, j int) bool { return found[i].Path < found[j].Path })
	return found, err
}

func digestFile(root *os.Root, rel string) (string, error) {
	f, err := root.OpenFile(rel, os.O_RDONLY|portable.NoFollow, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxAllBytes)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// listNames returns the sorted names in a directory that is not a link.
func listNames(root *os.Root, dir string) ([]string, error) {
	info, err := root.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, nightcrier.Errorf(nightcrier.Refused, "%s is not a directory", dir)
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		if err := root.Chmod(dir, 0o700); err != nil {
			return nil, err
		}
	}
	d, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	sort.Strings(names)
	return names, err
}
