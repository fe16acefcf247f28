package kubetool

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/text"
)

// grepLines is how many lines are searched when something is looked for.
const grepLines = 10000

var logsTool = Tool{
	Name: "kubernetes_logs", Title: "Kubernetes: Logs",
	About: "The last lines of a container's log, or of its previous instance's (the one that crashed). grep searches the last 10000 lines for a fixed string, in any case.",
	Params: Params{
		{Name: "name", Type: String, Required: true, About: "Name of the Pod"},
		{Name: "namespace", Type: String, Default: "default", About: "Namespace of the Pod"},
		{Name: "container", Type: String, About: "Container, init container or ephemeral container; needed when the Pod has several"},
		{Name: "previous", Type: Boolean, About: "The log of the instance before the present one"},
		{Name: "tail", Type: Integer, Min: 1, Max: 2000, Default: 100, About: "How many lines"},
		{Name: "grep", Type: String, About: "Only lines that hold this text"}},
	Output: SchemaOf[Log](nil), run: showLogs,
}

func showLogs(ctx context.Context, r *reading, a Args) error {
	pod := nightcrier.Resource{Kind: "Pod", Namespace: a.String("namespace"), Name: a.String("name")}
	if err := pod.Check(); err != nil {
		return err
	}
	container, err := r.chooseContainer(ctx, pod, a.String("container"))
	if err != nil {
		return err
	}
	tail, search := a.Int("tail"), a.String("grep")
	read := tail
	if search != "" {
		read = grepLines
	}
	text, err := r.readLog(ctx, logQuery(pod, container, a.Bool("previous"), read))
	if err != nil {
		return err
	}
	lines := nonEmpty(text)
	r.writeTextf("log of container %s of %s%s: ", container, pod, previousWord(a.Bool("previous")))
	if search != "" {
		found := linesWith(lines, search)
		r.writeTextf("%d of the last %d lines hold %q", len(found), len(lines), shortLine(search, 100))
		lines = found
	} else {
		r.writeTextf("the last %d lines", len(lines))
	}
	if len(lines) > tail {
		lines = lines[len(lines)-tail:]
		r.writeTextf(", of which the last %d are shown", tail)
	}
	r.writeTextf("\n%s", Fence(newestLines(lines, r.set.cfg.MaxText-1024)))
	shown, cut := fittingLast(lines, r.set.cfg.MaxText)
	r.data = &Log{Pod: pod.Name, Namespace: pod.Namespace, Container: container, Previous: a.Bool("previous"), Lines: shown, Basis: Basis{Truncated: cut}}
	return nil
}

func previousWord(previous bool) string {
	if previous {
		return " (previous instance)"
	}
	return ""
}

func logQuery(pod nightcrier.Resource, container string, previous bool, tail int) query {
	values := url.Values{
		"container": {container}, "tailLines": {strconv.Itoa(tail)}, "limitBytes": {strconv.Itoa(maxLog)},
	}
	if previous {
		values.Set("previous", "true")
	}
	path := kinds.MustNamed("Pod").Path(pod.Namespace) + "/" + url.PathEscape(pod.Name) + "/log"
	return query{path: path, values: values, accept: "text/plain, */*", max: maxLog + 4096, kind: "log"} // a server may end its cut at a rune
}

// chooseContainer checks the container that was named, or finds the only one.
func (r *reading) chooseContainer(ctx context.Context, res nightcrier.Resource, named string) (string, error) {
	doc, err := r.readMasked(ctx, query{path: kinds.MustNamed("Pod").Path(res.Namespace) + "/" + url.PathEscape(res.Name), accept: acceptJSON, max: maxObject})
	if err != nil {
		return "", err
	}
	var pod corev1.Pod
	if err := convertInto(doc, &pod); err != nil {
		return "", err
	}
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	if named == "" && len(names) == 1 {
		return names[0], nil
	}
	if note := pod.Annotations["kubectl.kubernetes.io/default-container"]; named == "" && note != "" {
		named = note
	}
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	for _, n := range names {
		if n == named {
			return n, nil
		}
	}
	if named == "" {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s has several containers: name one of %s with container", res, strings.Join(names, ", "))
	}
	return "", nightcrier.Errorf(nightcrier.Invalid, "%s has no container %q%s; it has %s", res, shortLine(named, 63), text.SuggestName(" (did you mean %s?)", named, names), joinOrElse(names, "none"))
}

func nonEmpty(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return strings.Split(strings.TrimRight(text, "\n"), "\n")
}

func linesWith(lines []string, text string) []string {
	var found []string
	for _, l := range lines {
		if strings.Contains(strings.ToLower(l), strings.ToLower(text)) {
			found = append(found, l)
		}
	}
	return found
}

// newestLines joins lines, without the oldest when they are more than limit bytes
// together: in a log the end matters.
func newestLines(lines []string, limit int) string {
	size, from := 0, len(lines)
	for from > 0 && size+len(lines[from-1])+1 <= limit {
		from--
		size += len(lines[from]) + 1
	}
	said := strings.Join(lines[from:], "\n")
	if from == len(lines) && from > 0 { // one line alone is too long
		last := lines[from-1]
		return "(a line of " + strconv.Itoa(len(last)) + " bytes, cut)\n" + text.KeepBytes(last, limit)
	}
	if from > 0 {
		return "(" + strconv.Itoa(from) + " earlier lines are cut; use tail or grep)\n" + said
	}
	return said
}
