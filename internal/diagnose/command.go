package diagnose

import (
	"strings"
	"unicode"

	"nightcrier.dev/nightcrier"
)

const notRun = "not-run"

// test is a falsification test that is being made.
type test string

// testByGet is a test by kubectl get.
func testByGet(ns, kind, name string) test {
	return newTest(ns, name, []string{"kubectl", "get", kind, name, "-o", "yaml"})
}

// testByList is a test by kubectl get of all objects of a kind.
func testByList(ns, kind string) test {
	return newTest(ns, kind, []string{"kubectl", "get", kind, "-o", "yaml"})
}

// testByDescribe is a test by kubectl describe.
func testByDescribe(r nightcrier.Resource) test {
	if !plainKind(r.Kind) {
		return ""
	}
	return newTest(r.Namespace, r.Name, []string{"kubectl", "describe", strings.ToLower(r.Kind), r.Name})
}

// newTest joins the words of a command. Names come from outside, so one that no
// API server would take makes it no command at all.
func newTest(ns, name string, words []string) test {
	if !plainName(name) || ns != "" && !plainName(ns) {
		return ""
	}
	if ns != "" {
		words = append(words, "-n", ns)
	}
	return test(strings.Join(words, " "))
}

func plainName(s string) bool {
	return (nightcrier.Resource{Kind: "X", Name: s}).Check() == nil && !strings.HasPrefix(s, "-")
}

// plainKind reports whether a kind is one word of ASCII letters and digits.
func plainKind(s string) bool {
	odd := func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	return s != "" && !strings.ContainsFunc(s, odd)
}

// decidesBetween says what the command shows if the hypothesis is true, and if not.
func (t test) decidesBetween(ifTrue, ifFalse string) nightcrier.Falsification {
	return nightcrier.Falsification{Command: string(t), IfTrue: ifTrue, IfFalse: ifFalse, Outcome: notRun}
}

// logsTest is the test that a container's own last words decide.
func logsTest(c container) nightcrier.Falsification {
	return testByLogs(c).decidesBetween("the last lines show the process itself failing", "the last lines show it asked to end, or nothing wrong")
}

// testByLogs is a test by the end of a container's log.
func testByLogs(c container) test {
	words := []string{"kubectl", "logs", c.pod.Object.Name}
	if plainName(c.status.Name) {
		words = append(words, "-c", c.status.Name)
	}
	if c.status.RestartCount > 0 {
		words = append(words, "--previous")
	}
	return newTest(c.pod.Object.Namespace, c.pod.Object.Name, append(words, "--tail=50"))
}
