// Package eval measures diagnoses: it runs cases whose cause is known and counts
// what was named right, what was left open and what was claimed without reason.
//
// A case is a directory that holds a snapshot of a cluster and a case.yaml, which
// says what a person who knows the answer would say.
package eval

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// CaseFile is the file that makes a directory a case.
const CaseFile = "case.yaml"

// Noise is the verdict expected of a case that is well and has warnings all the
// same. A report that calls it healthy is right as well.
const Noise nightcrier.Verdict = "noise"

// verdicts are what a case may expect.
var verdicts = []nightcrier.Verdict{
	nightcrier.VerdictFault, nightcrier.VerdictHealthy, nightcrier.VerdictRecovered, Noise, nightcrier.VerdictUndetermined,
}

// Case is one situation with a known answer.
type Case struct {
	// Name is the directory's, relative to the one that was loaded; Dir is its path.
	Name string `yaml:"-"`
	Dir  string `yaml:"-"`
	// About says in a sentence what the situation is.
	About string `yaml:"about"`
	// Target is KIND/NAME of what is asked about, "" for the whole namespace.
	Target string `yaml:"target,omitempty"`
	// Namespace is the target's; "" without a target asks about the whole cluster.
	Namespace string `yaml:"namespace,omitempty"`
	Expect    Expect `yaml:"expect"`
	// Forbidden are claims that would lead people astray: a cause, or a cause and
	// KIND/NAME.
	Forbidden []string `yaml:"forbidden,omitempty"`
	// From says what the snapshot was recorded from: node or apiserver.
	From string `yaml:"from,omitempty"`
}

// Expect is the right answer.
type Expect struct {
	Verdict nightcrier.Verdict `yaml:"verdict"`
	// Cause and Object (KIND/NAME or KIND/NAMESPACE/NAME) are set for faults.
	Cause  string `yaml:"cause,omitempty"`
	Object string `yaml:"object,omitempty"`
	// AlsoObjects, AlsoCauses and AlsoVerdicts are right as well.
	AlsoObjects  []string             `yaml:"alsoObjects,omitempty"`
	AlsoCauses   []string             `yaml:"alsoCauses,omitempty"`
	AlsoVerdicts []nightcrier.Verdict `yaml:"alsoVerdicts,omitempty"`
}

// Bounds of what is loaded.
const (
	maxCases    = 10_000
	maxCaseFile = 64 << 10
)

// Load finds all cases below dir, by name. Every case file that is wrong is named
// in one Invalid error, with the field; a directory without cases is Invalid too.
func Load(dir string) ([]Case, error) {
	var all []Case
	var wrong []error
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: no such file or directory", dir)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() || e.Name() != CaseFile:
			return nil
		case len(all) == maxCases:
			return nightcrier.Errorf(nightcrier.Exhausted, "%s holds more than %d cases", dir, maxCases)
		}
		c, err := readCase(dir, path)
		if err != nil {
			wrong = append(wrong, err)
			return nil
		}
		all = append(all, c)
		return nil
	})
	switch {
	case nightcrier.CodeOf(err) == nightcrier.Exhausted:
		return nil, err
	case err != nil:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "cases: %w", err)
	case len(wrong) > 0:
		return nil, errors.Join(wrong...)
	case len(all) == 0:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s holds no case: a case is a directory with a %s beside a snapshot", dir, CaseFile)
	}
	slices.SortFunc(all, func(a, b Case) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// readCase reads one case file.
func readCase(base, path string) (Case, error) {
	var c Case
	f, err := os.Open(path)
	if err != nil {
		return c, nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxCaseFile+1))
	switch {
	case err != nil:
		return c, nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	case len(raw) > maxCaseFile:
		return c, nightcrier.Errorf(nightcrier.Invalid, "%s is larger than %d bytes", path, maxCaseFile)
	}
	if err := strictyaml.Unmarshal(raw, &c); err != nil {
		return c, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", path, err)
	}
	c.Dir = filepath.Dir(path)
	if c.Name, err = filepath.Rel(base, c.Dir); err != nil || c.Name == "." {
		c.Name = filepath.Base(c.Dir)
	}
	if err := c.checkCase(); err != nil {
		return c, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", path, err)
	}
	return c, nil
}

func (c *Case) checkCase() error {
	fault := c.Expect.Verdict == nightcrier.VerdictFault
	switch {
	case c.Expect.Verdict == "":
		return errors.New("expect.verdict is missing")
	case !slices.Contains(verdicts, c.Expect.Verdict):
		return fmt.Errorf("expect.verdict %q is not one of %s", c.Expect.Verdict, joinVerdicts(verdicts))
	case fault && c.Expect.Cause == "":
		return errors.New("expect.cause is missing: a fault has one; `nightcrier eval --list-causes` lists them")
	case fault && c.Expect.Object == "":
		return errors.New("expect.object is missing: a fault has one, as KIND/NAME")
	case !fault && (c.Expect.Cause != "" || c.Expect.Object != ""):
		return fmt.Errorf("expect.cause and expect.object make no sense with the verdict %s", c.Expect.Verdict)
	case strings.ContainsAny(c.Namespace, `/\`) || strings.HasPrefix(c.Namespace, "."): // it becomes a directory
		return fmt.Errorf("namespace %.64q is no name of a namespace", c.Namespace)
	case c.From != "" && c.From != "node" && c.From != "apiserver":
		return fmt.Errorf("from %q is neither node nor apiserver", c.From)
	}
	for _, v := range c.Expect.AlsoVerdicts {
		if !slices.Contains(verdicts, v) {
			return fmt.Errorf("expect.alsoVerdicts: %q is not one of %s", v, joinVerdicts(verdicts))
		}
	}
	if c.Target != "" {
		if _, err := c.parseObject(c.Target); err != nil {
			return fmt.Errorf("target: %w", err)
		}
	}
	for _, o := range append([]string{c.Expect.Object}, c.Expect.AlsoObjects...) {
		if _, err := c.parseObject(o); o != "" && err != nil {
			return fmt.Errorf("expect.object: %w", err)
		}
	}
	for _, f := range c.Forbidden {
		if _, _, err := c.parseClaim(f); err != nil {
			return fmt.Errorf("forbidden: %w", err)
		}
	}
	return nil
}

func joinVerdicts(list []nightcrier.Verdict) string {
	var s []string
	for _, v := range list {
		s = append(s, string(v))
	}
	return strings.Join(s, ", ")
}

// parseObject reads KIND/NAME, which is in the case's namespace, or
// KIND/NAMESPACE/NAME. Whether a kind has a namespace is for matches to decide.
func (c *Case) parseObject(s string) (nightcrier.Object, error) {
	part := strings.Split(s, "/")
	o := nightcrier.Object{Kind: part[0], Namespace: c.Namespace, Name: part[len(part)-1]}
	if len(part) == 3 {
		o.Namespace = part[1]
	}
	if len(part) < 2 || len(part) > 3 || slices.Contains(part, "") {
		return o, fmt.Errorf("%q is neither KIND/NAME nor KIND/NAMESPACE/NAME", s)
	}
	return o, nil
}

// parseClaim reads a forbidden claim: a cause, or a cause and an object.
func (c *Case) parseClaim(s string) (cause string, of *nightcrier.Object, err error) {
	cause, object, has := strings.Cut(s, " ")
	if cause == "" {
		return "", nil, errors.New("an entry is empty")
	}
	if !has {
		return cause, nil, nil
	}
	o, err := c.parseObject(object)
	return cause, &o, err
}

// isMeantObject reports whether got is the object that is meant. A got object without a
// namespace is cluster-wide, whatever the case's namespace is.
func isMeantObject(meant, got nightcrier.Object) bool {
	return strings.EqualFold(meant.Kind, got.Kind) && meant.Name == got.Name && (got.Namespace == "" || meant.Namespace == got.Namespace)
}

// Asked is what a case asks about: its target, its namespace, or the cluster.
func (c *Case) Asked() (kind, name string) {
	switch {
	case c.Target != "":
		kind, name, _ = strings.Cut(c.Target, "/")
		return kind, name
	case c.Namespace != "":
		return "Namespace", c.Namespace
	}
	return "Cluster", "cluster"
}
