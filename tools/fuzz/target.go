package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// target is one fuzz test.
type target struct{ dir, name string }

func (t target) String() string { return t.dir + "." + t.name }

var fuzzTest = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// find lists the fuzz tests below root, in the order of their files.
func find(root string, wanted *regexp.Regexp) ([]target, error) {
	var targets []target
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range fuzzTest.FindAllSubmatch(source, -1) {
			if t := (target{filepath.Dir(path), string(m[1])}); wanted.MatchString(t.String()) {
				targets = append(targets, t)
			}
		}
		return nil
	})
	return targets, err
}

// result is what a slice came to.
type result struct {
	executions, interesting int64
	output                  []byte
}

// minimize bounds how long one input is made smaller. By go test's own minute a test of
// large inputs spends its whole slice on that and tries nothing new.
const minimize = time.Second

// fuzz runs the test for about as long as it is given; starting it takes time as well.
func (t target) fuzz(ctx context.Context, slice time.Duration, workers int) (result, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", slice.String(),
		"-fuzzminimizetime", minimize.String(), "-parallel", strconv.Itoa(workers), "./"+t.dir)
	out, err := cmd.CombinedOutput()
	r := result{output: out}
	// A slice that ends while an input is made smaller ends so, and found nothing.
	if bytes.Contains(out, []byte("\n    context deadline exceeded\n")) && !bytes.Contains(out, []byte("Failing input written")) {
		err = nil
	}
	for _, m := range progress.FindAllSubmatch(out, -1) {
		r.executions, _ = strconv.ParseInt(string(m[1]), 10, 64) // digits by the pattern
		r.interesting, _ = strconv.ParseInt(string(m[2]), 10, 64)
	}
	return r, err
}

// progress is how go test tells of a fuzz test under way.
var progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)

// maxKept bounds an input that is kept, in bytes: a corpus is for code paths, not sizes.
const maxKept = 4 << 10

// keep copies the smallest inputs that go test has found interesting to the test's own
// corpus, until that has n files. It returns how many are new.
func (t target) keep(n int) (int, error) {
	cache, err := t.cache()
	if err != nil {
		return 0, err
	}
	own := filepath.Join(t.dir, "testdata", "fuzz", t.name)
	there, err := inputs(own)
	if err != nil {
		return 0, err
	}
	found, err := inputs(cache)
	if err != nil {
		return 0, err
	}
	kept := 0
	for _, f := range found {
		if len(there)+kept >= n {
			break
		}
		text, err := os.ReadFile(filepath.Join(cache, f.name))
		if err != nil {
			return kept, err
		}
		if len(text) > maxKept {
			break // they are in order of size
		}
		dest := filepath.Join(own, f.name)
		if old, err := os.ReadFile(dest); err == nil && bytes.Equal(old, text) {
			continue
		}
		if err := os.MkdirAll(own, 0o755); err != nil {
			return kept, err
		}
		if err := os.WriteFile(dest, text, 0o644); err != nil {
			return kept, err
		}
		kept++
	}
	return kept, nil
}

// cache is where go test keeps what it found interesting.
func (t target) cache() (string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}", "./"+t.dir).Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", t.dir, err)
	}
	root, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOCACHE: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "fuzz", strings.TrimSpace(string(out)), t.name), nil
}

type input struct {
	name string
	size int64
}

// inputs lists a corpus, the smallest first; one that is not there is empty.
func inputs(dir string) ([]input, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var all []input
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		all = append(all, input{e.Name(), info.Size()})
	}
	slices.SortFunc(all, func(a, b input) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name)) })
	return all, nil
}
