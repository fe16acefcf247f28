package diagnose

import (
	"strings"

	"nightcrier.dev/nightcrier"
)

// Step is something to do about a finding.
type Step struct {
	Action, Outcome, Risk string
	// Do is by which kind of command it is done, to On: the object to mend unless it is
	// set.
	Do deed
	On nightcrier.Object
	// Command is the command where none of a kind would do.
	Command string
}

// deed is a kind of command. None of them deletes or stops anything: what does is
// described, and left to whoever has read its risk.
type deed int

// The deeds. The first two change nothing; edit shows the object in an editor, where
// nothing is changed unless it is saved.
const (
	doLook deed = iota
	doReadLog
	doEdit
	doResume
	doUncordon
	doScale
	doUndo
)

// command is the command by which a person does it to o, "" where there is none.
func (d deed) command(o nightcrier.Object) string {
	kind := strings.ToLower(o.Kind)
	switch {
	case o.Kind == hostKind || o.Kind == clusterKind || o.Kind == nightcrier.AlertKind: // none of the API's
		return ""
	case d == doLook:
		return kubectl(o, "describe")
	case d == doReadLog && logged[o.Kind]:
		return kubectl(o, "logs", "--all-containers", "--tail=50")
	case d == doEdit:
		return kubectl(o, "edit")
	case d == doResume && o.Kind == "Deployment":
		return kubectl(o, "rollout resume")
	case d == doResume && (kind == "cronjob" || kind == "job"):
		return kubectl(o, "patch", `-p '{"spec":{"suspend":false}}'`)
	case d == doUncordon && o.Kind == "Node":
		return string(newTest("", o.Name, []string{"kubectl", "uncordon", o.Name}))
	case d == doScale && (kind == "deployment" || kind == "statefulset" || kind == "replicaset"):
		return kubectl(o, "scale", "--replicas=1")
	case d == doUndo && (kind == "deployment" || kind == "statefulset" || kind == "daemonset"):
		return kubectl(o, "rollout undo")
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
	line := newTest(o.Namespace, o.Name, words)
	if line == "" {
		return ""
	}
	return strings.Join(append([]string{string(line)}, flags...), " ")
}

// create is the command that makes what is lacking. It names files that are not there,
// so that nothing is made unless a person has put in what belongs there. Where kubectl
// makes no such object the command lists those that exist.
func (l *lack) create() string {
	o := l.object
	what := map[string]string{
		"ConfigMap": "configmap", "Secret": "secret generic", "ServiceAccount": "serviceaccount", "PriorityClass": "priorityclass",
	}[o.Kind]
	switch {
	case l.partial || o.Kind == "ResourceQuota":
		return doEdit.command(o)
	case o.Kind == hostKind || !plainKind(o.Kind):
		return ""
	case what == "":
		return string(newTest(o.Namespace, o.Name, []string{"kubectl", "get", strings.ToLower(o.Kind)}))
	case l.pulls:
		what = "secret docker-registry"
	}
	line := string(newTest(o.Namespace, o.Name, []string{"kubectl", "create", what, o.Name}))
	switch {
	case line == "":
	case l.pulls:
		line += " --from-file=.dockerconfigjson=FILE"
	case o.Kind == "PriorityClass":
		line += " --value=NUMBER"
	case o.Kind == "ConfigMap" || o.Kind == "Secret":
		line += fromFiles(l.keys)
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
