package skill

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of what a repository may send, and of what is taken of it.
const (
	maxFetch      = 256 << 20
	maxMemory     = 1 << 30
	maxTree       = 64 << 20
	maxTreeFiles  = 5000
	fetchTime     = 2 * time.Minute
	maxGitList    = 8 << 20
	maxComplaint  = 2 << 10
	sizeLookEvery = 100 * time.Millisecond
)

// Store keeps commits of repositories below a directory, each once. It runs git
// and never checks anything out: the files are read as objects, so no hook, filter,
// link or submodule of a repository has a part in it.
type Store struct {
	// Dir holds what was fetched; it is made when needed.
	Dir string
	// Git is the program, "" for git.
	Git string
	// MaxBytes bounds what a repository may send, Time how long it may take; 0 is
	// 256 MiB, and two minutes.
	MaxBytes int64
	// MaxMemory bounds what each process of git may take, in bytes; 0 is 1 GiB.
	MaxMemory uint64
	Time      time.Duration
}

// kept is what stands beside a fetched tree.
type kept struct {
	Source    Source    `json:"source"`
	FetchedAt time.Time `json:"fetchedAt"`
	// Files are the digests of the files, by their path, and what tells that one was
	// changed here since.
	Files map[string]string `json:"files"`
}

const (
	keptFile = "source.json"
	treeDir  = "tree"
)

// homeOf is the directory of a source in the store.
func (s Store) homeOf(src Source) string {
	sum := sha256.Sum256([]byte(src.String()))
	return filepath.Join(s.Dir, hex.EncodeToString(sum[:16]))
}

// Open returns the directory that holds the source's files, after comparing them
// with what was fetched. It is a NotFound error when the source was not fetched
// yet, Invalid when its files were changed.
func (s Store) Open(src Source) (string, error) {
	home := s.homeOf(src)
	raw, err := os.ReadFile(filepath.Join(home, keptFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nightcrier.Errorf(nightcrier.NotFound, "%s is not here yet: run `nightcrier skills update`", src)
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(raw, &k)
	}
	tree := filepath.Join(home, treeDir)
	var files map[string]string
	if err == nil {
		files, err = digestFiles(tree)
	}
	if err != nil || k.Source != src || !sameFiles(files, k.Files) {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s is not what was fetched any more%s: remove %s and run `nightcrier skills update`", src, reasonSuffix(err), home)
	}
	return tree, nil
}

func reasonSuffix(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

func sameFiles(a, b map[string]string) bool { return len(compareDigests(a, b)) == 0 }

// compareDigests lists what was added, changed and removed, by path.
func compareDigests(before, after map[string]string) []string {
	var diff []string
	for name, sum := range after {
		switch was, ok := before[name]; {
		case !ok:
			diff = append(diff, name+" added")
		case was != sum:
			diff = append(diff, name+" changed")
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			diff = append(diff, name+" removed")
		}
	}
	slices.Sort(diff)
	return diff
}

// digestFiles reads all files of a tree. Their modes count, as far as git knows them.
func digestFiles(tree string) (map[string]string, error) {
	sums := map[string]string{}
	err := fs.WalkDir(os.DirFS(tree), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > maxTree {
			return fmt.Errorf("%s is not a file that was fetched", p)
		}
		data, err := os.ReadFile(filepath.Join(tree, p))
		sums[p] = digestFile(data, info.Mode()&0o100 != 0)
		return err
	})
	return sums, err
}

func digestFile(data []byte, executable bool) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x %t", sum, executable)
}

// Update is what fetching a source came to.
type Update struct {
	Source Source `json:"source"`
	// Fetched is false for what was here already.
	Fetched bool `json:"fetched"`
	// Before is the commit of the same place that was fetched last before this one,
	// "" for none; Changes are the files that differ from it.
	Before  string   `json:"before,omitempty"`
	Changes []string `json:"changes,omitempty"`
}

// Update fetches a source unless it is here. Its errors are Invalid for what a
// repository holds, Unreachable for what could not be fetched.
func (s Store) Update(ctx context.Context, src Source) (Update, error) {
	u := Update{Source: src}
	if err := src.Check(); err != nil || src.Git == "" {
		return u, err
	}
	if _, err := s.Open(src); nightcrier.CodeOf(err) != nightcrier.NotFound {
		return u, err
	}
	files, err := s.fetchSource(ctx, src)
	if err != nil {
		return u, err
	}
	u.Fetched = true
	if before, ok := s.lastFetched(src); ok {
		u.Before, u.Changes = before.Source.Commit, compareDigests(before.Files, files)
	}
	return u, nil
}

// lastFetched returns what was fetched last of the same place.
func (s Store) lastFetched(src Source) (last kept, found bool) {
	dir := os.DirFS(s.Dir)
	all, _ := fs.Glob(dir, "*/"+keptFile) // none where nothing was fetched
	for _, name := range all {
		var k kept
		raw, err := fs.ReadFile(dir, name)
		if err != nil || json.Unmarshal(raw, &k) != nil || k.Source.Git != src.Git || k.Source.Dir != src.Dir || k.Source.Commit == src.Commit {
			continue
		}
		if !found || k.FetchedAt.After(last.FetchedAt) {
			last, found = k, true
		}
	}
	return last, found
}

// fetchSource gets the commit, takes its files out, and puts them in their place at once.
func (s Store) fetchSource(ctx context.Context, src Source) (map[string]string, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "skills: %w", err)
	}
	work, err := os.MkdirTemp(s.Dir, ".fetch-")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "skills: %w", err)
	}
	defer os.RemoveAll(work)
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(s.Time, fetchTime), nightcrier.Errorf(nightcrier.Unreachable, "it took longer than %s", cmp.Or(s.Time, fetchTime)))
	defer cancel()
	g := git{program: cmp.Or(s.Git, "git"), repo: filepath.Join(work, "repo.git"), max: cmp.Or(s.MaxBytes, maxFetch), memory: cmp.Or(s.MaxMemory, maxMemory)}
	if err := g.getCommit(ctx, src); err != nil {
		return nil, fmt.Errorf("skills: %s: %w", src, err)
	}
	ready := filepath.Join(work, "ready")
	if err := g.takeOut(ctx, src, filepath.Join(ready, treeDir)); err != nil {
		return nil, fmt.Errorf("skills: %s: %w", src, err)
	}
	files, err := digestFiles(filepath.Join(ready, treeDir))
	if err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(kept{Source: src, FetchedAt: time.Now().UTC(), Files: files}, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(ready, keptFile), raw, 0o600)
	}
	if err == nil {
		err = os.Rename(ready, s.homeOf(src))
	}
	if _, here := s.Open(src); err != nil && here != nil { // another update may have been quicker
		return nil, nightcrier.Errorf(nightcrier.Invalid, "skills: %w", err)
	}
	return files, nil
}

// git is a bare repository that is filled once and read.
type git struct {
	program, repo string
	max           int64  // bytes on disk
	memory        uint64 // bytes that each of its processes may take
}

// getCommit makes the repository and fetches the one commit into it.
func (g git) getCommit(ctx context.Context, src Source) error {
	if _, err := g.runGit(ctx, nil, "init", "--quiet", "--bare", "--template=", "--", g.repo); err != nil {
		return err
	}
	if err := g.fetchCommit(ctx, src); err != nil {
		return err
	}
	id, err := g.runGit(ctx, nil, "rev-parse", "--verify", "--end-of-options", src.Commit+"^{commit}")
	if got := strings.TrimSpace(string(id)); err != nil || got != src.Commit {
		return nightcrier.Errorf(nightcrier.Invalid, "%s is not a commit of it%s", src.Commit, reasonSuffix(err))
	}
	return nil
}

func (g git) fetchCommit(ctx context.Context, src Source) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go g.watchSize(ctx, stop)
	_, err := g.runGit(ctx, nil, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--end-of-options", src.Git, src.Commit)
	if size := treeSize(g.repo); err == nil && size > g.max {
		return g.tooLarge()
	}
	if err != nil && outOfMemory.MatchString(err.Error()) {
		return nightcrier.Errorf(nightcrier.Invalid, "it does not unpack within %d MiB of memory: use a smaller repository, or a path", g.memory>>20)
	}
	if err != nil && ctx.Err() == nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "%w; check the URL, the commit, and that this machine may read it", err)
	}
	return err
}

// outOfMemory is what git says where it gets no more.
var outOfMemory = regexp.MustCompile(`(?i)out of memory|cannot allocate memory|mmap failed|unable to create thread`)

func (g git) tooLarge() error {
	return nightcrier.Errorf(nightcrier.Invalid, "it sends more than %d MiB: use a smaller repository, or a path", g.max>>20)
}

// watchSize ends a fetch that brings too much: git has no bound of its own.
func (g git) watchSize(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(sizeLookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if treeSize(g.repo) > g.max {
				stop(g.tooLarge())
				return
			}
		}
	}
}

func treeSize(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // files of git come and go
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// entry is one file of a commit.
type entry struct {
	path, object string
	size         int64
	executable   bool
}

// takeOut writes the files of the source's directory below dir.
func (g git) takeOut(ctx context.Context, src Source, dir string) error {
	entries, err := g.listEntries(ctx, src)
	if err != nil {
		return err
	}
	var ids bytes.Buffer
	for _, e := range entries {
		ids.WriteString(e.object + "\n")
	}
	raw, err := g.runGit(ctx, &ids, "cat-file", "--batch")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	objects := bufio.NewReader(bytes.NewReader(raw))
	for _, e := range entries {
		data, err := nextObject(objects, e)
		if err == nil {
			err = writeFile(root, e, data)
		}
		if err != nil {
			return nightcrier.Errorf(nightcrier.Invalid, "%s: %w", e.path, err)
		}
	}
	return nil
}

// listEntries lists the files, with paths below the source's directory.
func (g git) listEntries(ctx context.Context, src Source) ([]entry, error) {
	from := src.Commit
	if src.Dir != "" {
		from += ":" + src.Dir
	}
	list, err := g.runGit(ctx, nil, "ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", from)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "directory %q cannot be read: %w", src.Dir, err)
	}
	var entries []entry
	var total int64
	for line := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		e, err := parseEntry(line)
		if err != nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "%w: name a directory without it in dir", err)
		}
		if total += e.size; total > maxTree || len(entries) >= maxTreeFiles {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "it holds more than %d files or %d MiB: name a smaller directory in dir", maxTreeFiles, maxTree>>20)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// parseEntry reads "MODE TYPE OBJECT SIZE\tPATH". Only regular files are files.
func parseEntry(line string) (entry, error) {
	about, name, _ := strings.Cut(line, "\t")
	words := strings.Fields(about)
	if len(words) != 4 || !filepath.IsLocal(name) || path.Clean(name) != name {
		return entry{}, fmt.Errorf("%.200q is no file that can be kept", name)
	}
	size, err := strconv.ParseInt(words[3], 10, 64)
	if mode := words[0]; err != nil || words[1] != "blob" || mode != "100644" && mode != "100755" {
		return entry{}, fmt.Errorf("%.200q is a link or a submodule", name)
	}
	return entry{path: name, object: words[2], size: size, executable: words[0] == "100755"}, nil
}

// lfsPointer is how a file begins whose content is elsewhere.
var lfsPointer = []byte("version https://git-lfs.github.com/spec/")

// nextObject reads one object as `git cat-file --batch` writes it.
func nextObject(r *bufio.Reader, e entry) ([]byte, error) {
	head, err := r.ReadString('\n')
	if want := fmt.Sprintf("%s blob %d\n", e.object, e.size); err != nil || head != want {
		return nil, fmt.Errorf("git answered %.100q", head)
	}
	data := make([]byte, e.size+1)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	data = data[:e.size]
	if bytes.HasPrefix(data, lfsPointer) {
		return nil, errors.New("its content is in Git LFS, which is not fetched")
	}
	return data, nil
}

func writeFile(root *os.Root, e entry, data []byte) error {
	mode := fs.FileMode(0o600)
	if e.executable {
		mode = 0o700
	}
	if dir := path.Dir(e.path); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return root.WriteFile(e.path, data, mode)
}

// gitConfig is set for every command: nothing of a repository or of this machine's
// configuration runs a program.
var gitConfig = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.symlinks=false", "credential.helper=",
	"fetch.fsckObjects=true", "gc.auto=0", "maintenance.auto=false", "protocol.ext.allow=never", "advice.detachedHead=false",
}

// runGit runs git with these arguments and returns what it printed, bounded.
func (g git) runGit(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	var all []string
	for _, c := range gitConfig {
		all = append(all, "-c", c)
	}
	if args[0] != "init" {
		all = append(all, "--git-dir="+g.repo)
	}
	cmd := exec.CommandContext(ctx, g.program, append(all, args...)...)
	cmd.Env, cmd.Stdin, cmd.Dir = gitEnv(), stdin, filepath.Dir(g.repo)
	portable.OwnGroup(cmd) // with its helpers
	cmd.WaitDelay = time.Second
	stdout, stderr := &text.Head{Max: maxGitList}, &text.Head{Max: maxComplaint}
	if args[0] == "cat-file" {
		stdout.Max = maxTree + maxGitList
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Start()
	if err == nil {
		if e := limitMemory(cmd.Process.Pid, g.memory); e != nil && !errors.Is(e, syscall.ESRCH) {
			_ = cmd.Cancel()
			err = nightcrier.Errorf(nightcrier.Internal, "bound the memory of git: %w", e)
		}
		err = errors.Join(err, cmd.Wait())
	}
	switch {
	case err == nil && stdout.Cut:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "git %s prints more than %d MiB", args[0], stdout.Max>>20)
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return nil, nightcrier.Errorf(nightcrier.Invalid, "git is not installed: install it, or use a path")
	case err != nil:
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, text.CutRunes(text.FoldLine(string(stderr.Kept)), maxValue))
	}
	return stdout.Kept, nil
}

// gitPasses are the variables of ours that git gets: where things are, how the
// network is reached, and the keys of ssh.
var gitPasses = []string{
	"PATH", "HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}

func gitEnv() []string {
	env := []string{
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ALLOW_PROTOCOL=https:http:ssh:file", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LFS_SKIP_SMUDGE=1", "GIT_ATTR_NOSYSTEM=1",
		"GIT_SSH_COMMAND=ssh -o BatchMode=yes", "LC_ALL=C",
	}
	for _, name := range gitPasses {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
