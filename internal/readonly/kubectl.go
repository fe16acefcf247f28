package readonly

import (
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// everyVerb are the options of all kubectl commands. None names another cluster,
// credential or identity, writes a file, or shows what is sent.
var everyVerb = set(value, "n namespace request-timeout")

// reading are the options of the commands that read, by their verbs. Whatever
// takes a file, an address or a raw path is not among them.
var reading = map[string]flags{
	"get": set(nothing, "A all-namespaces ignore-not-found no-headers show-kind show-labels show-managed-fields allow-missing-template-keys server-print").
		with(set(value, "o output l selector field-selector L label-columns sort-by chunk-size template subresource")).
		with(set(following, "w watch watch-only output-watch-events")),
	"describe": set(nothing, "A all-namespaces show-events").with(set(value, "l selector chunk-size")),
	"logs": set(nothing, "all-containers all-pods ignore-errors p previous prefix timestamps").
		with(set(value, "c container l selector limit-bytes max-log-requests since since-time tail pod-running-timeout")).
		with(set(following, "f follow")),
	"events": set(nothing, "A all-namespaces no-headers allow-missing-template-keys show-managed-fields").
		with(set(value, "for o output types template chunk-size")).
		with(set(following, "w watch")),
	"top": set(nothing, "A all-namespaces containers no-headers sum show-capacity use-protocol-buffers").
		with(set(value, "l selector field-selector sort-by")),
	"explain": set(nothing, "recursive").with(set(value, "api-version o output")),
	"api-resources": set(nothing, "namespaced no-headers cached").
		with(set(value, "api-group categories o output sort-by verbs")),
	"api-versions": {},
	"version":      set(nothing, "client").with(set(value, "o output")),
}

// kubectl checks its arguments. bounded allows to follow what happens.
func (k Checker) kubectl(args []word, bounded bool) error {
	verb, rest, err := k.verb(args)
	if err != nil {
		return err
	}
	options, operands, err := everyVerb.with(reading[verb]).parse("kubectl "+verb, rest)
	if err != nil {
		return err
	}
	for _, o := range options {
		if err := allowedOption(verb, o, bounded); err != nil {
			return err
		}
	}
	for _, w := range operands {
		if w.glob >= 0 && !tolerant(w.text, w.glob) {
			return refuse("kubectl %s: %q is a pattern: kubectl has none, list all and filter", verb, text.CutRunes(w.text, maxEchoed))
		}
	}
	if verb == "top" && (len(operands) == 0 || !slices.Contains([]string{"pod", "pods", "po", "node", "nodes", "no"}, operands[0].text)) {
		return refuse("kubectl top shows pods or nodes")
	}
	return nil
}

// verb finds the command; only a namespace may stand before it.
func (k Checker) verb(args []word) (verb string, rest []word, err error) {
	for i := 0; i < len(args); i++ {
		said := args[i].text
		switch {
		case args[i].glob >= 0:
			return "", nil, refuse("kubectl: %q is a pattern", text.CutRunes(said, maxEchoed))
		case said == "-n" || said == "--namespace":
			i++
		case strings.HasPrefix(said, "--namespace=") || strings.HasPrefix(said, "-n"):
		case strings.HasPrefix(said, "-"):
			return "", nil, refuse("kubectl: options stand after the command; the option %s is not available before it", text.CutRunes(said, maxEchoed))
		case !k.Policy.May(said) || reading[said] == nil:
			return "", nil, refuse("kubectl %s is not available: this investigation may only use kubectl %s", text.CutRunes(said, maxEchoed), strings.Join(k.Policy.Verbs, ", "))
		default:
			// What stands before the verb is checked with what follows it.
			return said, slices.Concat(args[:i], args[i+1:]), nil
		}
	}
	return "", nil, refuse("kubectl needs a command: %s", strings.Join(k.Policy.Verbs, ", "))
}

func allowedOption(verb string, o option, bounded bool) error {
	switch {
	case o.kind == following && o.value != "false" && !bounded:
		return refuse("kubectl %s -%s does not end: leave it out, or bound it as timeout 30 kubectl %s …", verb, o.name, verb)
	case o.kind != value && o.value != "true" && o.value != "false":
		return refuse("kubectl %s: -%s is true or false", verb, o.name)
	case (o.name == "o" || o.name == "output") && !allowedOutput(o.value):
		return refuse("kubectl %s: the output %q is not available: use json, yaml, wide, name, jsonpath=… or custom-columns=…", verb, text.CutRunes(o.value, maxEchoed))
	}
	return nil
}

// allowedOutput leaves out the formats that read a file.
func allowedOutput(format string) bool {
	kind, _, _ := strings.Cut(format, "=")
	return slices.Contains([]string{"", "json", "yaml", "wide", "name", "jsonpath", "jsonpath-as-json", "custom-columns", "go-template",
		"plaintext", "plaintext-openapiv2"}, kind)
}
