package falsify

import (
	"regexp"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/text"
)

// maxCommand bounds a command, in bytes.
const maxCommand = 2000

// question is one read that a command asks for.
type question struct {
	verb             string // get, describe, logs, events, top
	kind, name, ns   string
	everywhere       bool // all namespaces
	labels, fields   string
	jsonpath         string
	container        string
	previous         bool
	tail             int64
	aboutKind, about string // of events
	eventType        string
}

// Readable says why a command would not be run as a test, nil when it would. A
// command without a namespace is taken to look into ns.
func Readable(command, ns string) error {
	_, err := parseCommand(command, ns)
	return err
}

// parseCommand reads a kubectl command of the few forms that only read, and that mean
// the same without a shell and without kubectl. ns is where a command without a
// namespace looks. The error says what is not taken.
func parseCommand(command, ns string) (question, error) {
	words, err := splitWords(command)
	if err != nil {
		return question{}, err
	}
	if len(words) < 2 || words[0] != "kubectl" {
		return question{}, refuseCommand("it is not a kubectl command")
	}
	q := question{tail: 100}
	args, err := q.parseFlags(words[1:])
	if err != nil {
		return question{}, err
	}
	if len(args) == 0 {
		return question{}, refuseCommand("it names no verb")
	}
	q.verb, args = args[0], args[1:]
	switch q.verb {
	case "get", "describe":
		err = q.parseObject(args)
	case "logs":
		err = q.parsePod(args)
	case "events":
		err = q.parseEvents(args)
	case "top":
		err = q.parseUsage(args)
	default:
		err = refuseCommand("kubectl %s is none of get, describe, logs, events and top", text.CutBytes(q.verb, 40))
	}
	if err != nil {
		return question{}, err
	}
	return q.withNamespace(ns)
}

func refuseCommand(format string, args ...any) error {
	return nightcrier.Errorf(nightcrier.Refused, format, args...)
}

// splitWords takes a command apart at its blanks, as a shell does with words that mean
// nothing to it; whatever a shell would do more with is refused.
func splitWords(command string) ([]string, error) {
	if len(command) > maxCommand {
		return nil, refuseCommand("it is longer than %d bytes", maxCommand)
	}
	var words []string
	var word strings.Builder
	quote, begun := rune(0), false
	for _, c := range strings.TrimSpace(command) {
		switch {
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && c == ' ':
			if begun {
				words, begun = append(words, word.String()), false
				word.Reset()
			}
		case c < ' ', c == 0x7f, quote != '\'' && strings.ContainsRune("$`\\", c), quote == 0 && strings.ContainsRune("|&;<>()#*?~", c):
			return nil, refuseCommand("%q means something to a shell, and there is none", c)
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, refuseCommand("a quote is left open")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// parseFlags takes the known flags out of words and returns the rest.
func (q *question) parseFlags(words []string) ([]string, error) {
	var rest []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w == "-" || !strings.HasPrefix(w, "-") {
			rest = append(rest, w)
			continue
		}
		name, value, has := cutFlag(w)
		if isSwitch(name) {
			if has && value != "true" {
				return nil, refuseCommand("flag %s=%s is not taken", name, text.CutBytes(value, 40))
			}
			q.setSwitch(name)
			continue
		}
		if !has {
			if i++; i == len(words) {
				return nil, refuseCommand("flag %s has no value", text.CutBytes(name, 40))
			}
			value = words[i]
		}
		if err := q.setFlag(name, value); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// cutFlag splits --name=value, -n=value and -nvalue; the short form comes as its
// first letter.
func cutFlag(w string) (name, value string, has bool) {
	name, value, has = strings.Cut(w, "=")
	if !strings.HasPrefix(w, "--") && len(name) > 2 {
		return w[:2], strings.TrimPrefix(w[2:], "="), true
	}
	return name, value, has
}

// isSwitch tells flags without a value. Those that only change how kubectl prints
// are taken, since nothing is printed.
func isSwitch(name string) bool {
	switch name {
	case "-A", "--all-namespaces", "-p", "--previous", "--ignore-not-found", "--no-headers", "--show-labels", "--timestamps", "--show-events",
		"--show-kind", "--containers":
		return true
	}
	return false
}

func (q *question) setSwitch(name string) {
	switch name {
	case "-A", "--all-namespaces":
		q.everywhere = true
	case "-p", "--previous":
		q.previous = true
	}
}

func (q *question) setFlag(name, value string) error {
	switch name {
	case "-n", "--namespace":
		q.ns = value
	case "-l", "--selector":
		q.labels = value
		return checkSelector(value)
	case "--field-selector":
		q.fields = value
	case "-c", "--container":
		q.container = value
	case "--types":
		q.eventType = value
	case "--for":
		q.aboutKind, q.about, _ = strings.Cut(value, "/")
	case "--sort-by": // the order decides nothing
	case "--tail":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 {
			return refuseCommand("--tail=%s is not a number of lines", text.CutBytes(value, 40))
		}
		q.tail = min(n, maxLines)
	case "-o", "--output":
		return q.parseForm(value)
	default:
		return refuseCommand("flag %s is not taken", text.CutBytes(name, 40))
	}
	return nil
}

// checkSelector refuses a selector that compares what a label of a secret's name holds.
func checkSelector(selector string) error {
	label, err := mask.SelectsBySecret(selector)
	switch {
	case err != nil:
		return refuseCommand("its selector cannot be read")
	case label != "":
		return refuseCommand("it selects by the label %s, whose name speaks of a secret", text.CutBytes(label, 40))
	}
	return nil
}

// parseForm reads -o. All forms but one are the whole object.
func (q *question) parseForm(value string) error {
	form, expr, _ := strings.Cut(value, "=")
	switch form {
	case "json", "yaml", "wide", "name", "custom-columns":
	case "jsonpath":
		if q.jsonpath = expr; expr == "" {
			return refuseCommand("-o jsonpath has no expression")
		}
		return checkJSONPath(expr)
	default:
		return refuseCommand("-o %s is not taken", text.CutBytes(form, 40))
	}
	return nil
}

var (
	unionRE = regexp.MustCompile(`\[[^?\]][^\]]*,`)
	rangeRE = regexp.MustCompile(`\brange\b`)
)

// checkJSONPath refuses the jsonpath expressions whose work grows with a power of the
// answer, or of the expression: nothing stops one once it runs.
func checkJSONPath(expr string) error {
	switch {
	case unionRE.MatchString(expr):
		return refuseCommand("its jsonpath takes several elements by one pair of brackets")
	case strings.Count(expr, "..") > 1:
		return refuseCommand("its jsonpath descends everywhere more than once")
	case len(rangeRE.FindAllString(expr, 2)) > 1:
		return refuseCommand("its jsonpath has a range within a range")
	}
	return nil
}

// parseObject reads KIND, KIND NAME and KIND/NAME.
func (q *question) parseObject(args []string) error {
	switch len(args) {
	case 0:
		return refuseCommand("it names no kind")
	case 1:
		q.kind, q.name, _ = strings.Cut(args[0], "/")
	case 2:
		q.kind, q.name = args[0], args[1]
	default:
		return refuseCommand("it names several objects; one is read for each test")
	}
	switch {
	case strings.ContainsAny(q.kind+q.name, ",/"):
		return refuseCommand("it names several kinds or objects; one is read for each test")
	case q.name != "" && (q.labels != "" || q.fields != ""):
		return refuseCommand("it names an object and selects some")
	case q.verb == "describe" && q.name == "":
		return refuseCommand("it describes no object by its name")
	}
	return nil
}

func (q *question) parsePod(args []string) error {
	if len(args) != 1 || q.labels != "" || q.everywhere {
		return refuseCommand("the log of one Pod is read, by its name")
	}
	kind, name, has := strings.Cut(args[0], "/")
	if !has {
		kind, name = "pod", args[0]
	}
	if k, _ := kinds.Meant(kind); k.Name != "Pod" {
		return refuseCommand("the log of one Pod is read, by its name; kubectl would choose one of %s's", text.CutBytes(args[0], 80))
	}
	q.kind, q.name = "Pod", name
	return nil
}

func (q *question) parseEvents(args []string) error {
	if len(args) > 0 {
		return refuseCommand("events are read of a namespace, or with --for KIND/NAME")
	}
	q.kind = "Event"
	selected := selectorList(q.fields)
	if q.about != "" {
		kind, _ := kinds.Meant(q.aboutKind)
		selected = append(selected, "involvedObject.kind="+kind.Name, "involvedObject.name="+q.about)
	}
	if q.eventType != "" {
		selected = append(selected, "type="+q.eventType)
	}
	q.fields = strings.Join(selected, ",")
	return nil
}

func selectorList(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func (q *question) parseUsage(args []string) error {
	if len(args) != 2 {
		return refuseCommand("usage is read of one Pod or Node, by its name")
	}
	switch kind, _ := kinds.Meant(args[0]); kind.Name {
	case "Pod":
		q.kind = "PodMetrics"
	case "Node":
		q.kind = "NodeMetrics"
	default:
		return refuseCommand("usage is read of one Pod or Node, by its name")
	}
	q.name = args[1]
	return nil
}

// withNamespace says where the question looks, and checks what becomes part of a request.
func (q question) withNamespace(ns string) (question, error) {
	kind, _ := kinds.Meant(q.kind)
	q.kind = kind.Name
	switch {
	case kind.ClusterWide, q.kind == "NodeMetrics", q.everywhere:
		q.ns = ""
	case q.ns == "":
		q.ns = ns
	}
	check := nightcrier.Resource{Kind: q.kind, Namespace: q.ns, Name: q.name}
	if q.name == "" {
		check.Name = "any"
	}
	if q.everywhere && q.name != "" {
		return q, refuseCommand("one object is in one namespace")
	}
	if err := check.Check(); err != nil {
		return q, refuseCommand("%w", err)
	}
	return q, nil
}
