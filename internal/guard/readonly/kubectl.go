package readonly

import (
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// everyVerb are the options of all kubectl commands. None names another cluster,
// credential or identity, writes a file, or shows what is sent.
var everyVerb = newFlags(value, "n namespace request-timeout")

// reading are the options of the commands that read, by their verbs. Whatever
// takes a file, an address or a raw path is not among them.
var reading = map[string]flags{
	"get": newFlags(nothing, "A all-namespaces ignore-not-found no-headers show-kind show-labels show-managed-fields allow-missing-template-keys server-print").
		withFlags(newFlags(value, "o output l selector field-selector L label-columns sort-by chunk-size template subresource")).
		withFlags(newFlags(following, "w watch watch-only output-watch-events")),
	"describe": newFlags(nothing, "A all-namespaces show-events").withFlags(newFlags(value, "l selector chunk-size")),
	"logs": newFlags(nothing, "all-containers all-pods ignore-errors p previous prefix timestamps").
		withFlags(newFlags(value, "c container l selector limit-bytes max-log-requests since since-time tail pod-running-timeout")).
		withFlags(newFlags(following, "f follow")),
	"events": newFlags(nothing, "A all-namespaces no-headers allow-missing-template-keys show-managed-fields").
		withFlags(newFlags(value, "for o output types template chunk-size")).
		withFlags(newFlags(following, "w watch")),
	"top": newFlags(nothing, "A all-namespaces containers no-headers sum show-capacity use-protocol-buffers").
		withFlags(newFlags(value, "l selector field-selector sort-by")),
	"explain": newFlags(nothing, "recursive").withFlags(newFlags(value, "api-version o output")),
	"api-resources": newFlags(nothing, "namespaced no-headers cached").
		withFlags(newFlags(value, "api-group categories o output sort-by verbs")),
	"api-versions": {},
	"version":      newFlags(nothing, "client").withFlags(newFlags(value, "o output")),
}

// checkKubectl checks its arguments. bounded allows to follow what happens.
func (k Checker) checkKubectl(args []word, bounded bool) error {
	verb, rest, err := k.findVerb(args)
	if err != nil {
		return err
	}
	options, operands, err := everyVerb.withFlags(reading[verb]).parseArguments("kubectl "+verb, rest)
	if err != nil {
		return err
	}
	for _, o := range options {
		if err := allowedOption(verb, o, bounded); err != nil {
			return err
		}
	}
	for _, w := range operands {
		if w.glob >= 0 && !mayStayUnquoted(w.text, w.glob) {
			return newRefusalf("kubectl %s: %q is a pattern: kubectl has none, list all and filter", verb, text.CutRunes(w.text, maxEchoed))
		}
	}
	if verb == "top" && (len(operands) == 0 || !slices.Contains([]string{"pod", "pods", "po", "node", "nodes", "no"}, operands[0].text)) {
		return newRefusalf("kubectl top shows pods or nodes")
	}
	return nil
}

// findVerb finds the command; only a namespace may stand before it.
func (k Checker) findVerb(args []word) (verb string, rest []word, err error) {
	for i := 0; i < len(args); i++ {
		said := args[i].text
		switch {
		case args[i].glob >= 0:
			return "", nil, newRefusalf("kubectl: %q is a pattern", text.CutRunes(said, maxEchoed))
		case said == "-n" || said == "--namespace":
			i++
		case strings.HasPrefix(said, "--namespace=") || strings.HasPrefix(said, "-n"):
		case strings.HasPrefix(said, "-"):
			return "", nil, newRefusalf("kubectl: options stand after the command; the option %s is not available before it", text.CutRunes(said, maxEchoed))
		case !k.Policy.May(said) || reading[said] == nil:
			return "", nil, newRefusalf("kubectl %s is not available: this investigation may only use kubectl %s", text.CutRunes(said, maxEchoed), strings.Join(k.Policy.Verbs, ", "))
		default:
			// What stands before the verb is checked with what follows it.
			return said, slices.Concat(args[:i], args[i+1:]), nil
		}
	}
	return "", nil, newRefusalf("kubectl needs a command: %s", strings.Join(k.Policy.Verbs, ", "))
}

func allowedOption(verb string, o option, bounded bool) error {
	switch {
	case o.kind == following && o.value != "false" && !bounded:
		return newRefusalf("kubectl %s -%s does not end: leave it out, or bound it as timeout 30 kubectl %s …", verb, o.name, verb)
	case o.kind != value && o.value != "true" && o.value != "false":
		return newRefusalf("kubectl %s: -%s is true or false", verb, o.name)
	case (o.name == "o" || o.name == "output") && !allowedOutput(o.value):
		return newRefusalf("kubectl %s: the output %q is not available: use json, yaml, wide, name, jsonpath=… or custom-columns=…", verb, text.CutRunes(o.value, maxEchoed))
	}
	return nil
}

// allowedOutput leaves out the formats that read a file.
func allowedOutput(format string) bool {
	kind, _, _ := strings.Cut(format, "=")
	return slices.Contains([]string{"", "json", "yaml", "wide", "name", "jsonpath", "jsonpath-as-json", "custom-columns", "go-template",
		"plaintext", "plaintext-openapiv2"}, kind)
}
