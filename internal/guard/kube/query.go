package kube

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/mask"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// check says whether the value of an option may pass.
type check func(value string) bool

// dropped marks options that are accepted and have no effect here.
var dropped = map[string]bool{"pretty": true, "timeout": true}

// Options of each kind of read. What is not listed is refused: an option that
// is not known may do anything.
var (
	getOptions = map[string]check{
		"resourceVersion": isDigits, "includeObject": oneOf("None", "Metadata", "Object"),
	}
	listOptions = mergeChecks(getOptions, map[string]check{
		"labelSelector": labelSelector, "fieldSelector": fieldSelector,
		"limit": isDigits, "continue": isToken,
		"resourceVersionMatch": oneOf("Exact", "NotOlderThan"),
		"timeoutSeconds":       isDigits, "allowWatchBookmarks": isBoolean, "sendInitialEvents": isBoolean,
	})
	logOptions = map[string]check{
		"container": isLabel, "previous": isBoolean, "timestamps": isBoolean, "follow": isBoolean,
		"sinceSeconds": isDigits, "sinceTime": isRFC3339, "tailLines": isDigits, "limitBytes": isDigits,
		"stream": oneOf("All"), // of one alone, lines are missing between others
	}
	openAPIOptions = map[string]check{"hash": isToken}
	healthOptions  = map[string]check{"verbose": isBoolean}
)

// of says for which verb an option of lists and watches means something.
var of = map[string]string{
	"limit": verbList, "continue": verbList,
	"timeoutSeconds": verbWatch, "allowWatchBookmarks": verbWatch, "sendInitialEvents": verbWatch,
}

func mergeChecks(a, b map[string]check) map[string]check {
	all := make(map[string]check, len(a)+len(b))
	for _, m := range []map[string]check{a, b} {
		maps.Copy(all, m)
	}
	return all
}

// allowedOptions are those that the read may have.
func (p *parts) allowedOptions() map[string]check {
	switch {
	case p.class == classOpenAPI:
		return openAPIOptions
	case p.class == classHealth:
		return healthOptions
	case p.class != classResource:
		return nil
	case p.subresource == "log":
		return logOptions
	case p.verb == verbGet:
		return getOptions
	}
	return listOptions
}

// parseQuery reads the options. Keys are written plainly and stand once.
func (p *parts) parseQuery(query string) error {
	seen := map[string]bool{}
	for piece := range strings.SplitSeq(query, "&") {
		if query == "" {
			break
		}
		key, raw, ok := strings.Cut(piece, "=")
		if !ok || !hasOnlyBytes(key, isAlphanumeric) {
			return newDenialf("query", "the query has a piece that is not key=value with a plain key")
		}
		if seen[key] {
			return newDenialf("query", "the query has %s twice", texts.CutBytes(key, maxEchoed))
		}
		seen[key] = true
		if err := p.readOption(key, raw); err != nil {
			return err
		}
	}
	p.query = slices.DeleteFunc(p.query, func(o option) bool { return of[o.key] != "" && of[o.key] != p.verb })
	return nil
}

func (p *parts) readOption(key, raw string) error {
	value, err := url.QueryUnescape(raw)
	if err != nil || len(value) > maxTarget || !hasOnlyBytes(value, isPrintable) || strings.Contains(raw, ";") {
		return newDenialf("query", "the value of %s is not readable", texts.CutBytes(key, maxEchoed))
	}
	switch {
	case dropped[key]:
		return nil
	case key == "watch" && p.class == classResource && p.name == "":
		switch value {
		case "True": // as Python's clients write it; what goes out is ours
			value = "true"
		case "False":
			value = "false"
		}
		if !isBoolean(value) {
			return newDenialf("query", "watch is true or false")
		}
		if isTrue(value) {
			p.verb = verbWatch
		}
		return nil
	case key == "insecureSkipTLSVerifyBackend" && value == "false":
		return nil
	}
	ok, known := p.allowedOptions()[key]
	if !known {
		return newDenialf("query", "the option %s is not passed with this request", texts.CutBytes(key, maxEchoed))
	}
	if !ok(value) {
		return newDenialf("query", "the value of %s is not one that the guard passes", texts.CutBytes(key, maxEchoed))
	}
	if key == "labelSelector" {
		if err := checkLabels(value); err != nil {
			return err
		}
	}
	p.setOption(key, value)
	return nil
}

// checkLabels refuses a selector that compares what a label of a secret's name holds.
func checkLabels(selector string) error {
	label, err := mask.SelectsBySecret(selector)
	switch {
	case err != nil:
		return newDenialf("query", "the value of labelSelector is no selector of labels, such as app=cart,tier!=cache")
	case label != "":
		return newDenialf("selector", "nothing is selected by what the label %s holds: its name speaks of a secret. Leave it out, and look at the labels: there it is masked", label)
	}
	return nil
}

// maxEchoed bounds what of a request is said in its refusal, in bytes.
const maxEchoed = 64

func isPrintable(c byte) bool { return c >= ' ' && c < 0x7f }

// escapeValue writes a value the way it is read again.
func escapeValue(value string) string {
	if hasOnlyBytes(value, func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("-._", c) >= 0 }) {
		return value
	}
	return url.QueryEscape(value)
}

func isDigits(s string) bool {
	return s != "" && len(s) <= 19 && hasOnlyBytes(s, func(c byte) bool { return c >= '0' && c <= '9' })
}

// parseNumber reads what isDigits accepted; what is too large for it is as large as can be.
func parseNumber(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // on overflow it returns the largest number
	return n
}

func isBoolean(s string) bool { return s == "true" || s == "false" || s == "1" || s == "0" }

func isTrue(s string) bool { return s == "true" || s == "1" }

func isToken(s string) bool {
	return s != "" && hasOnlyBytes(s, func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("-_=+/", c) >= 0 })
}

func isRFC3339(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func oneOf(values ...string) check {
	return func(s string) bool { return slices.Contains(values, s) }
}

func labelSelector(s string) bool {
	return hasOnlyBytes(s, func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("-._/=!,()<> ", c) >= 0 })
}

// selectable are the fields that may be asked for. A selector on any other, such
// as a field of a custom resource, would tell by yes and no what masking hides.
var selectable = []string{
	"metadata.name", "metadata.namespace",
	"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
	"spec.unschedulable", "spec.signerName", "spec.clusterIP", "spec.type",
	"status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName", "status.successful", "status.replicas",
	"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
	"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
	"regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid",
	"regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath",
	"reason", "reportingComponent", "reportingController", "source", "type",
}

func fieldSelector(s string) bool {
	if s == "" {
		return true
	}
	for term := range strings.SplitSeq(s, ",") {
		field, value, ok := strings.Cut(term, "=")
		field, value = strings.TrimSuffix(field, "!"), strings.TrimPrefix(value, "=")
		if !ok || !slices.Contains(selectable, field) || !hasOnlyBytes(value, fieldByte) {
			return false
		}
	}
	return true
}

func fieldByte(c byte) bool { return pathByte(c) || strings.IndexByte("/{}[] ", c) >= 0 }
