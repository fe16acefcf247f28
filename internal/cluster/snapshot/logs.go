package snapshot

import (
	"bufio"
	"bytes"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
)

// logFile is a log whose place is found when the Pods are known.
type logFile struct {
	name string
	text []byte
}

func (r *reader) readLog(name string) error {
	raw, err := r.readFile(name, maxFile)
	switch {
	case nightcrier.CodeOf(err) == nightcrier.Exhausted:
		return err
	case err != nil:
		r.noteMissed(name, err.Error())
	case bytes.Contains(raw, []byte("==== START logs for container ")):
		r.readDump(raw)
	default:
		r.logs = append(r.logs, logFile{name, lastBytes(raw, maxLog)})
	}
	return nil
}

// lastBytes keeps the end of a log, from the start of a line on.
func lastBytes(log []byte, most int) []byte {
	if len(log) <= most {
		return log
	}
	log = log[len(log)-most:]
	return log[bytes.IndexByte(log, '\n')+1:]
}

// dumped is the line by which `kubectl cluster-info dump` begins and ends a log.
var dumped = regexp.MustCompile(`^==== (START|END) logs for (?:init |ephemeral )?container (\S+) of pod ([^/\s]+)/(\S+) ====$`)

// readDump reads the logs of one Pod, all in one file.
func (r *reader) readDump(raw []byte) {
	var key logKey
	var text bytes.Buffer
	in := bufio.NewReader(bytes.NewReader(raw))
	for {
		line, err := in.ReadBytes('\n')
		if m := dumped.FindSubmatch(bytes.TrimSpace(line)); m != nil {
			if key != (logKey{}) {
				r.keepLog(key, text.Bytes())
			}
			key = logKey{}
			if string(m[1]) == "START" {
				key = logKey{namespace: string(m[3]), pod: string(m[4]), container: string(m[2])}
			}
			text.Reset()
		} else {
			text.Write(line)
		}
		if err != nil {
			break
		}
	}
	if key != (logKey{}) { // the dump was interrupted
		r.keepLog(key, text.Bytes())
	}
}

func (r *reader) keepLog(key logKey, text []byte) {
	r.snap.logs[key] = lastBytes(bytes.Clone(text), maxLog)
}

// maxNamesakes is in how many namespaces a Pod is looked for by its name alone.
const maxNamesakes = 20

// podNames finds Pods by their name.
type podNames struct {
	byKey  map[string]*object
	byName map[string][]*object
}

// placeLogs finds whose logs the files are.
func (r *reader) placeLogs() {
	slices.SortFunc(r.logs, func(a, b logFile) int { return strings.Compare(a.name, b.name) })
	pods := podNames{byKey: r.snap.ofKind("", "Pod").byName, byName: map[string][]*object{}}
	for _, o := range r.snap.ofKind("", "Pod").objects {
		if same := pods.byName[o.name]; len(same) < maxNamesakes {
			pods.byName[o.name] = append(same, o)
		}
	}
	for _, f := range r.logs {
		if key, err := pods.logOf(f.name); err != nil {
			r.noteMissed(f.name, err.Error())
		} else {
			r.snap.logs[key] = f.text
		}
	}
}

// logOf says whose log a file is, by its path: [logs/]NAMESPACE/POD/CONTAINER,
// or as people name them: POD, POD_CONTAINER, NAMESPACE_POD_CONTAINER.
func (p podNames) logOf(name string) (logKey, error) {
	name = strings.TrimSuffix(name, path.Ext(name))
	var previous bool
	for _, mark := range []string{".previous", "-previous", "_previous", ".prev"} {
		if rest, ok := strings.CutSuffix(name, mark); ok {
			name, previous = rest, true
			break
		}
	}
	parts := strings.Split(name, "/")
	strict := len(parts) >= 4 && parts[len(parts)-4] == "logs"
	for _, words := range [][]string{parts[max(0, len(parts)-3):], parts[max(0, len(parts)-2):], parts[len(parts)-1:], strings.Split(parts[len(parts)-1], "_")} {
		if key, ok := p.logNamed(words); ok {
			key.previous = previous
			return key, nil
		}
	}
	if strict { // of a Pod that is gone
		return logKey{parts[len(parts)-3], parts[len(parts)-2], parts[len(parts)-1], previous}, nil
	}
	return logKey{}, errors.New("it is not clear whose log this is: name it logs/NAMESPACE/POD/CONTAINER.log, with .previous before .log for the one before")
}

// logNamed reads words as [namespace] pod [container] of a Pod that is known.
func (p podNames) logNamed(words []string) (logKey, bool) {
	if len(words) > 1 {
		if o := p.byKey[objectKey(words[0], words[1])]; o != nil {
			if key, ok := logOfOne(words[1:], o); ok {
				return key, true
			}
		}
	}
	for _, o := range p.byName[words[0]] {
		if key, ok := logOfOne(words, o); ok {
			return key, true
		}
	}
	return logKey{}, false
}

// logOfOne reads words as a Pod and, perhaps, one of its containers.
func logOfOne(words []string, pod *object) (logKey, bool) {
	all, name := containerNames(pod.fields), ""
	switch {
	case len(words) == 1 && len(all) > 0:
		name = all[0]
	case len(words) == 2 && slices.Contains(all, words[1]):
		name = words[1]
	}
	return logKey{namespace: pod.namespace, pod: pod.name, container: name}, name != ""
}

// containerNames are the names of a Pod's containers, the ordinary ones first.
func containerNames(pod map[string]any) (names []string) {
	spec, _ := pod["spec"].(map[string]any)
	for _, part := range []string{"containers", "initContainers", "ephemeralContainers"} {
		list, _ := spec[part].([]any)
		for _, one := range list {
			if c, ok := one.(map[string]any); ok {
				if name, ok := c["name"].(string); ok {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
