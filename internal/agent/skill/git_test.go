package skill

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
)

// repository is a real git repository in a directory.
type repository struct {
	*testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("SKIPPED ALOUD: git is not installed")
	}
	r := repository{t, filepath.Join(t.TempDir(), "skills repo")}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r repository) git(args ...string) string {
	r.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repository) write(name, text string, mode fs.FileMode) {
	r.Helper()
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		r.Fatal(err)
	}
}

// commit commits all files and returns its id.
func (r repository) commit() string {
	r.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message=x")
	return r.git("rev-parse", "HEAD")
}

func (r repository) at(commit, dir string) Source {
	return Source{Git: "file://" + strings.ReplaceAll(r.dir, " ", "%20"), Commit: commit, Dir: dir}
}

// A pack of some kilobytes unpacks to hundreds of megabytes: git is not let.
func TestAPackThatUnpacksWithoutEndIsRefused(t *testing.T) {
	r := newRepository(t)
	r.write("SKILL.md", "---\nname: x\n---\n", 0o600)
	r.write("zeros", "", 0o600)
	if err := os.Truncate(filepath.Join(r.dir, "zeros"), 300<<20); err != nil {
		t.Fatal(err)
	}
	src := r.at(r.commit(), "")
	store := Store{Dir: filepath.Join(t.TempDir(), "skills"), MaxMemory: 200 << 20}
	_, err := store.Update(t.Context(), src)
	if nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "200 MiB of memory") {
		t.Errorf("fetched: %v", err)
	}
}

func TestACommitIsFetchedOnceAndUsedOffline(t *testing.T) {
	r := newRepository(t)
	r.write("skills/"+Troubleshooter+"/SKILL.md", "---\nversion: 1.0.0\nallowed-tools: Bash\n---\nfirst\n", 0o644)
	r.write("skills/"+Troubleshooter+"/scripts/incident_triage.sh", "#!/bin/sh\n", 0o755)
	first := r.commit()
	r.write("skills/"+Troubleshooter+"/SKILL.md", "second\n", 0o644)
	r.write("skills/payments/SKILL.md", "new\n", 0o644)
	second := r.commit()
	store := Store{Dir: filepath.Join(t.TempDir(), "skills")}
	src := r.at(first, "")

	if _, err := Open(Options{Sources: []Source{src}, Fetched: store}); nightcrier.CodeOf(err) != nightcrier.NotFound || !strings.Contains(err.Error(), "nightcrier skills update") {
		t.Errorf("before the update: %v", err)
	}
	u, err := store.Update(t.Context(), src)
	if err != nil || !u.Fetched || u.Before != "" {
		t.Fatalf("%+v %v", u, err)
	}
	later := r.at(second, "")
	if u, err = store.Update(t.Context(), later); err != nil || u.Before != first {
		t.Fatalf("%+v %v", u, err)
	}
	want := []string{"skills/" + Troubleshooter + "/SKILL.md changed", "skills/payments/SKILL.md added"}
	if diff := cmp.Diff(want, u.Changes); diff != "" {
		t.Error(diff)
	}

	if err := os.RemoveAll(r.dir); err != nil { // from here on it is offline
		t.Fatal(err)
	}
	if u, err = store.Update(t.Context(), src); err != nil || u.Fetched {
		t.Errorf("what is here is not fetched again: %+v %v", u, err)
	}
	l, err := Open(Options{Sources: []Source{src}, Fetched: store})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Find(Troubleshooter)
	if err != nil || s.Version != "1.0.0" || string(s.files[0].data) != "---\nversion: \"1.0.0\"\n---\nfirst\n" {
		t.Errorf("%+v %v", s, err)
	}
	if path := l.TriageScript(Troubleshooter); filepath.Base(path) != "incident_triage.sh" {
		t.Errorf("its script: %q", path)
	}
	if _, err := l.Find("payments"); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("a later commit's skill: %v", err)
	}
}

func TestADirectoryOfARepository(t *testing.T) {
	r := newRepository(t)
	r.write("deep/er/x/SKILL.md", "x", 0o644)
	r.write("other/huge", "not wanted", 0o644)
	src, store := r.at(r.commit(), "deep/er"), Store{Dir: t.TempDir()}
	if _, err := store.Update(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	dir, err := store.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	if files, err := digestFiles(dir); err != nil || len(files) != 1 || files["x/SKILL.md"] == "" {
		t.Errorf("%v %v", files, err)
	}
	src.Dir = "nowhere"
	if _, err := store.Update(t.Context(), src); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestWhatWasFetchedMayNotChange(t *testing.T) {
	r := newRepository(t)
	r.write("x/SKILL.md", "x", 0o644)
	src, store := r.at(r.commit(), ""), Store{Dir: t.TempDir()}
	for name, change := range map[string]func(file string) error{
		"content":    func(file string) error { return os.WriteFile(file, []byte("y"), 0o600) },
		"mode":       func(file string) error { return os.Chmod(file, 0o700) },
		"a new file": func(file string) error { return os.WriteFile(file+"2", nil, 0o600) },
		"a link":     func(file string) error { return os.Symlink("/etc/passwd", file+"2") },
		"removed":    os.Remove,
	} {
		if _, err := store.Update(t.Context(), src); err != nil {
			t.Fatal(err)
		}
		dir, err := store.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(filepath.Join(dir, "x", "SKILL.md")); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(src); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), filepath.Dir(dir)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := store.Update(t.Context(), src); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: an update passes over it: %v", name, err)
		}
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
	}
}

// Nothing that a repository holds or is configured to do runs, nor what the
// machine's configuration of git would add.
func TestNothingOfARepositoryRuns(t *testing.T) {
	r := newRepository(t)
	home := t.TempDir()
	canary := filepath.Join(home, "ran")
	evil := filepath.Join(home, "evil.sh")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\ntouch "+canary+"\nexec cat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := "[filter \"evil\"]\n\tsmudge = " + evil + "\n\tclean = " + evil + "\n\tprocess = " + evil + "\n\trequired = true\n" +
		"[core]\n\thooksPath = " + home + "/hooks\n\tfsmonitor = " + evil + "\n\tsshCommand = " + evil + "\n\tgitProxy = " + evil + "\n[credential]\n\thelper = " + evil + "\n" +
		"[init]\n\ttemplateDir = " + home + "/template\n[uploadpack]\n\tpackObjectsHook = " + evil + "\n[transfer]\n\tfsckObjects = false\n"
	for _, hook := range []string{"hooks/post-checkout", "hooks/reference-transaction", "hooks/post-index-change", "template/hooks/reference-transaction"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(home, hook)), 0o700), os.Link(evil, filepath.Join(home, hook))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r.write("x/SKILL.md", "as committed", 0o644)
	r.write("x/.gitattributes", "* filter=evil export-ignore ident diff=evil merge=evil\n", 0o644)
	r.write(".gitattributes", "* filter=evil\nx/** export-ignore\n", 0o644)
	r.write(".githooks/post-checkout", "#!/bin/sh\ntouch "+canary+"\n", 0o755)
	src := r.at(r.commit(), "x")
	for _, c := range []string{"uploadpack.packObjectsHook", "core.fsmonitor", "core.sshCommand", "core.alternateRefsCommand"} {
		r.git("config", c, evil)
	}
	t.Setenv("HOME", home)
	t.Setenv("GIT_SSH_COMMAND", evil)
	t.Setenv("GIT_EXTERNAL_DIFF", evil)
	t.Setenv("GIT_TEMPLATE_DIR", home+"/template")
	store := Store{Dir: t.TempDir()}
	if _, err := store.Update(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	dir, err := store.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "x", "SKILL.md")); err == nil {
		t.Errorf("the directory is the whole repository: %s", text)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "SKILL.md")); err != nil || string(text) != "as committed" {
		t.Errorf("%q %v", text, err)
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("something of it ran")
	}
}

func TestHostileRepositories(t *testing.T) {
	r := newRepository(t)
	r.write("ok/SKILL.md", "x", 0o644)
	base := r.commit()
	link := func(target, name string) func() {
		return func() {
			r.write("x/SKILL.md", "x", 0o644)
			if err := os.Symlink(target, filepath.Join(r.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		make func()
		want string
	}{
		"a link to a file":      {link("/etc/passwd", "x/notes"), "is a link or a submodule"},
		"a link to a directory": {link("/etc", "x/references"), "is a link or a submodule"},
		"a link upwards":        {link("../../..", "x/up"), "is a link or a submodule"},
		"a submodule":           {func() { r.git("update-index", "--add", "--cacheinfo", "160000,"+base+",x/sub") }, "is a link or a submodule"},
		"a pointer to LFS":      {func() { r.write("x/big", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 0o644) }, "Git LFS"},
		"too many files": {func() {
			blob := r.git("hash-object", "-w", "ok/SKILL.md")
			var list strings.Builder
			for i := range maxTreeFiles + 1 {
				list.WriteString("100644 " + blob + "\tx/d" + strings.Repeat("n", i%200) + "/" + string(rune('a'+i%26)) + strings.Repeat("m", i/200) + "\n")
			}
			cmd := exec.Command("git", "update-index", "--add", "--index-info")
			cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(list.String())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}, "more than 5000 files"},
		"a directory called .git": {func() {
			blob := r.git("hash-object", "-w", "ok/SKILL.md")
			tree := strings.NewReader("100644 blob " + blob + "\tconfig\n")
			outer := func(in *strings.Reader) string {
				cmd := exec.Command("git", "mktree")
				cmd.Dir, cmd.Stdin = r.dir, in
				out, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimSpace(string(out))
			}
			inner := outer(tree)
			top := outer(strings.NewReader("040000 tree " + outer(strings.NewReader("040000 tree "+inner+"\t.git\n")) + "\tx\n"))
			r.git("update-ref", "refs/heads/main", r.git("commit-tree", top, "-m", "x"))
		}, ".git"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				r.git("update-ref", "refs/heads/main", base)
				r.git("reset", "--quiet", "--hard")
				r.git("clean", "-fdq")
			}()
			c.make()
			if name != "a directory called .git" {
				r.git("add", "--ignore-removal", ".")
				r.git("commit", "--quiet", "--message=x")
			}
			store := Store{Dir: t.TempDir()}
			_, err := store.Update(t.Context(), r.at(r.git("rev-parse", "HEAD"), ""))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(store.Dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestARepositoryThatSendsTooMuch(t *testing.T) {
	r := newRepository(t)
	noise := make([]byte, 4<<20)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	r.write("x/SKILL.md", "x", 0o644)
	r.write("elsewhere/huge", string(noise), 0o644)
	src := r.at(r.commit(), "x")
	if _, err := (Store{Dir: t.TempDir(), MaxBytes: 1 << 20}).Update(t.Context(), src); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "more than 1 MiB") {
		t.Errorf("%v", err)
	}
}

// Only a commit can be pinned to: other objects are other things under the same form.
func TestPinsThatAreNoCommit(t *testing.T) {
	r := newRepository(t)
	r.write("x/SKILL.md", "x", 0o644)
	r.commit()
	r.git("tag", "--annotate", "--message=x", "v1")
	for name, id := range map[string]string{
		"a tag":     r.git("rev-parse", "v1"),
		"a tree":    r.git("rev-parse", "HEAD^{tree}"),
		"a blob":    r.git("rev-parse", "HEAD:x/SKILL.md"),
		"not there": strings.Repeat("a", 40),
	} {
		if _, err := (Store{Dir: t.TempDir()}).Update(t.Context(), r.at(id, "")); err == nil || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A git that is cancelled ends with what it started; one that takes too long, at
// the bound of time.
func TestAGitThatHangsIsEnded(t *testing.T) {
	dir := t.TempDir()
	program, alive := filepath.Join(dir, "git"), filepath.Join(dir, "alive")
	if err := errors.Join(syscall.Mkfifo(alive, 0o600), os.WriteFile(program, []byte("#!/bin/sh\n(echo up; exec sleep 1000) > "+alive+" & wait\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	store := Store{Dir: filepath.Join(dir, "skills"), Git: program}
	src := Source{Git: "file:///x", Commit: strings.Repeat("a", 40)}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		_, err := store.Update(ctx, src)
		ended <- err
	}()
	child, err := os.Open(alive) // waits until the child writes
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	if _, err := child.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	cancel(enough)
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if _, err := io.ReadAll(child); err != nil { // ends when nobody can write any more
		t.Error(err)
	}

	store.Time = time.Nanosecond
	if _, err := store.Update(t.Context(), src); nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), "longer than 1ns") {
		t.Errorf("%v", err)
	}
	store.Time, store.Git = 0, filepath.Join(dir, "none")
	if _, err := store.Update(t.Context(), src); err == nil {
		t.Error("without git")
	}
}

func TestSourceCheck(t *testing.T) {
	id := strings.Repeat("0a", 20)
	for line, want := range map[string]string{
		"/srv/skills":                               "",
		"https://example.com/s.git#" + id:           "",
		"https://example.com/s.git#" + id + ":a/b":  "",
		"ssh://git@example.com:22/s.git#" + id:      "",
		"file:///srv/s.git#" + id:                   "",
		"https://example.com/s.git":                 "not pinned",
		"https://example.com/s.git#main":            "not pinned",
		"https://example.com/s.git#" + id[:39]:      "not pinned",
		"https://example.com/s.git#" + id + ":../x": "not a directory",
		"https://example.com/s.git#" + id + ":/x":   "not a directory",
		"https://u:p@example.com/s.git#" + id:       "holds a user or password",
		"https://token@example.com/s.git#" + id:     "holds a user or password",
		"ssh://u:p@example.com/s.git#" + id:         "holds a user or password",
		"ssh://-oProxyCommand=x/s.git#" + id:        "names no host",
		"ssh://-x@example.com/s.git#" + id:          "user or password",
		"ext://sh -c x#" + id:                       "",
		"git://example.com/s.git#" + id:             "must begin with",
		"git@example.com:s.git#" + id:               "write it as ssh://",
		"https:///s.git#" + id:                      "names no host",
		"file://host/s.git#" + id:                   "three slashes",
		"https://example.com/s.git?x=y#" + id:       "more than scheme, host and path",
		"https://example.com/s\n.git#" + id:         "not a URL",
		"":                                          "neither a path",
	} {
		s, err := ParseSource(line)
		switch {
		case line == "ext://sh -c x#"+id:
			if err == nil {
				t.Errorf("%s is taken", line)
			}
		case want == "" && (err != nil || s.String() != line):
			t.Errorf("%s: %v, %s", line, err, s)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	for _, s := range []Source{{Path: "/x", Git: "https://x/y", Commit: id}, {Commit: id}, {Dir: "x"}, {Git: "ext::sh -c x", Commit: id}, {Git: "--upload-pack=x", Commit: id}, {Git: "https://h/x", Commit: id, Dir: "--output=x/../y"}} {
		if s.Check() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}
