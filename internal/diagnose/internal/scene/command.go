package scene

import (
	"strings"
	"unicode"

	"nightcrier.dev/nightcrier"
)

const notRun = "not-run"

// Test is a falsification test that is being made.
type Test string

// GetTest is a test by kubectl get.
func GetTest(ns, kind, name string) Test {
	return NewTest(ns, name, []string{"kubectl", "get", kind, name, "-o", "yaml"})
}

// ListTest is a test by kubectl get of all objects of a kind.
func ListTest(ns, kind string) Test {
	return NewTest(ns, kind, []string{"kubectl", "get", kind, "-o", "yaml"})
}

// DescribeTest is a test by kubectl describe.
func DescribeTest(o nightcrier.Object) Test {
	if !plainKind(o.Kind) {
		return ""
	}
	return NewTest(o.Namespace, o.Name, []string{"kubectl", "describe", strings.ToLower(o.Kind), o.Name})
}

// NewTest joins the words of a command. Names come from outside, so one that no
// API server would take makes it no command at all.
func NewTest(ns, name string, words []string) Test {
	if !IsPlainName(name) || ns != "" && !IsPlainName(ns) {
		return ""
	}
	if ns != "" {
		words = append(words, "-n", ns)
	}
	return Test(strings.Join(words, " "))
}

// IsPlainName reports whether a name is one that an API server takes and no flag.
func IsPlainName(s string) bool {
	return (nightcrier.Resource{Kind: "X", Name: s}).Check() == nil && !strings.HasPrefix(s, "-")
}

// plainKind reports whether a kind is one word of ASCII letters and digits.
func plainKind(s string) bool {
	odd := func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	return s != "" && !strings.ContainsFunc(s, odd)
}

// DecidesBetween says what the command shows if the hypothesis is true, and if not.
func (t Test) DecidesBetween(ifTrue, ifFalse string) nightcrier.Falsification {
	return nightcrier.Falsification{Command: string(t), IfTrue: ifTrue, IfFalse: ifFalse, Outcome: notRun}
}

// LastWordsTest is the test that a container's own last words decide.
func LastWordsTest(c Container) nightcrier.Falsification {
	return LogsTest(c).DecidesBetween("the last lines show the process itself failing", "the last lines show it asked to end, or nothing wrong")
}

// LogsTest is a test by the end of a container's log.
func LogsTest(c Container) Test {
	words := []string{"kubectl", "logs", c.Pod.Object.Name}
	if IsPlainName(c.Status.Name) {
		words = append(words, "-c", c.Status.Name)
	}
	if c.Status.RestartCount > 0 {
		words = append(words, "--previous")
	}
	return NewTest(c.Pod.Object.Namespace, c.Pod.Object.Name, append(words, "--tail=50"))
}

// NamespaceFlag is how kubectl is told a namespace, "" for cluster-wide objects.
func NamespaceFlag(ns string) string {
	if ns == "" {
		return ""
	}
	return " -n " + ns
}

// Step is something to do about a finding.
type Step struct {
	Action, Outcome, Risk string
	// Do is by which kind of command it is done, to On: the object to mend unless it is
	// set.
	Do Deed
	On nightcrier.Object
	// Command is the command where none of a kind would do.
	Command string
}

// Deed is a kind of command. None of them deletes or stops anything: what does is
// described, and left to whoever has read its risk.
type Deed int

// The deeds. The first two change nothing; edit shows the object in an editor, where
// nothing is changed unless it is saved.
const (
	DoLook Deed = iota
	DoReadLog
	DoEdit
	DoResume
	DoUncordon
	DoScale
	DoUndo
	DoRestart
)

// Command is the command by which a person does it to o, "" where there is none.
func (d Deed) Command(o nightcrier.Object) string {
	kind := strings.ToLower(o.Kind)
	switch {
	case o.Kind == HostKind || o.Kind == ClusterKind || o.Kind == nightcrier.AlertKind: // none of the API's
		return ""
	case d == DoLook:
		return kubectl(o, "describe")
	case d == DoReadLog && logged[o.Kind]:
		return kubectl(o, "logs", "--all-containers", "--tail=50")
	case d == DoEdit:
		return kubectl(o, "edit")
	case d == DoResume && o.Kind == "Deployment":
		return kubectl(o, "rollout resume")
	case d == DoResume && (kind == "cronjob" || kind == "job"):
		return kubectl(o, "patch", `-p '{"spec":{"suspend":false}}'`)
	case d == DoUncordon && o.Kind == "Node":
		return string(NewTest("", o.Name, []string{"kubectl", "uncordon", o.Name}))
	case d == DoScale && (kind == "deployment" || kind == "statefulset" || kind == "replicaset"):
		return kubectl(o, "scale", "--replicas=1")
	case d == DoUndo && (kind == "deployment" || kind == "statefulset" || kind == "daemonset"):
		return kubectl(o, "rollout undo")
	case d == DoRestart && (kind == "deployment" || kind == "statefulset" || kind == "daemonset"):
		return kubectl(o, "rollout restart")
	}
	return ""
}

// logged are the kinds whose logs kubectl finds by their name.
var logged = map[string]bool{"Pod": true, "Deployment": true, "StatefulSet": true, "DaemonSet": true, "ReplicaSet": true, "Job": true}

// kubectl is a command about o, "" where its kind or name is none that an API server
// would take: they come from outside, and a person runs this in a shell.
func kubectl(o nightcrier.Object, verb string, flags ...string) string {
	if !plainKind(o.Kind) {
		return ""
	}
	words := []string{"kubectl", verb, strings.ToLower(o.Kind) + "/" + o.Name}
	line := NewTest(o.Namespace, o.Name, words)
	if line == "" {
		return ""
	}
	return strings.Join(append([]string{string(line)}, flags...), " ")
}

// create is the command that makes what is lacking. It names files that are not there,
// so that nothing is made unless a person has put in what belongs there. Where kubectl
// makes no such object the command lists those that exist.
func (l *Lack) create() string {
	o := l.Object
	what := map[string]string{
		"ConfigMap": "configmap", "Secret": "secret generic", "ServiceAccount": "serviceaccount", "PriorityClass": "priorityclass",
	}[o.Kind]
	switch {
	case l.partial || o.Kind == "ResourceQuota":
		return DoEdit.Command(o)
	case o.Kind == HostKind || !plainKind(o.Kind):
		return ""
	case what == "":
		return string(NewTest(o.Namespace, o.Name, []string{"kubectl", "get", strings.ToLower(o.Kind)}))
	case l.Pulls:
		what = "secret docker-registry"
	}
	line := string(NewTest(o.Namespace, o.Name, []string{"kubectl", "create", what, o.Name}))
	switch {
	case line == "":
	case l.Pulls:
		line += " --from-file=.dockerconfigjson=FILE"
	case o.Kind == "PriorityClass":
		line += " --value=NUMBER"
	case o.Kind == "ConfigMap" || o.Kind == "Secret":
		line += fromFiles(l.Keys)
	}
	return line
}

// maxKeys is how many keys a command names.
const maxKeys = 5

// fromFiles are the flags that take each key from a file.
func fromFiles(keys []string) string {
	var flags string
	for i, k := range keys {
		if i == maxKeys || !plainKey(k) {
			return " --from-file=DIRECTORY"
		}
		flags += " --from-file=" + k + "=FILE"
	}
	if flags == "" {
		return " --from-file=DIRECTORY"
	}
	return flags
}

// plainKey reports whether a ConfigMap or a Secret can have such a key.
func plainKey(k string) bool {
	return k != "" && len(k) <= 253 && strings.Trim(k, "-._0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == ""
}
