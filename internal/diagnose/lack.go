package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// lack is one thing that is needed and is missing, incomplete, full or out of reach.
// Several may stumble over the same: it is then the one root of all of them.
type lack struct {
	object nightcrier.Object
	// keys are those that are needed of a ConfigMap or Secret, as far as they are known.
	keys []string
	// partial is set when the object is there, and only the keys are missing.
	partial bool
	// pulls is set when it is a Secret that images are pulled with.
	pulls bool
}

// hostKind is the kind of what lies outside of the cluster, by its address.
const hostKind = "Host"

// hostStates say what is wrong with a host, by the cause that was found.
var hostStates = map[string]string{
	"dependency-auth-failed":     "refuses the credentials that it is given",
	"dependency-name-unresolved": "cannot be resolved",
	"dependency-refused":         "refuses connections",
	"dependency-timeout":         "does not answer",
	"image-pull-rate-limited":    "refuses because of too many pulls",
	"image-registry-unreachable": "cannot be reached from the nodes",
}

// describeState says what is wrong with it.
func (l *lack) describeState(cause string) string {
	switch {
	case l.object.Kind == hostKind:
		return hostStates[cause]
	case l.object.Kind == "ResourceQuota":
		return "has no room left"
	case l.partial:
		return "has no " + keysOf(l.keys)
	}
	return "does not exist"
}

func keysOf(keys []string) string {
	if len(keys) == 1 {
		return "key " + text.CutLine(keys[0], maxQuote)
	}
	return "keys " + text.CutLine(strings.Join(keys, ", "), maxQuote)
}

// repairAction is the first step: what to make, and, in who, what to correct instead.
func (l *lack) repairAction(who string) Step {
	o := l.object
	what := o.Kind + " " + o.Name
	in := ""
	if o.Namespace != "" {
		in = " in namespace " + o.Namespace
	}
	act := Step{Outcome: "what waits for it goes on by itself", Risk: "a wrong value starts it wrongly configured", Command: l.create()}
	switch {
	case o.Kind == hostKind:
		act.Action = "Check from inside the cluster that " + o.Name + " answers, and bring it back"
		act.Risk = "none: read only"
	case o.Kind == "ResourceQuota":
		act.Action = "Raise quota " + o.Name + " of namespace " + o.Namespace + ", or let " + who + " ask for less"
		act.Risk = "a larger quota takes room from others"
	case l.partial:
		act.Action = "Add " + keysOf(l.keys) + " to " + what + in + ", or correct the reference in " + who
	case len(l.keys) > 0:
		act.Action = "Create " + what + " with " + keysOf(l.keys) + in + ", or correct the reference in " + who
	default:
		act.Action = "Create " + what + in + ", or correct the reference in " + who
	}
	if r, ok := lackRisks[o.Kind]; ok {
		act.Risk = r
	}
	return act
}

// lackRisks are what may go wrong when a thing of a kind is made.
var lackRisks = map[string]string{
	"PersistentVolumeClaim": "a new claim is empty",
	"PriorityClass":         "a high priority makes other Pods give way",
	"RuntimeClass":          "the nodes must have the runtime that it names",
	"Service":               "a Service of that name without Pods behind it only changes the error",
	"ServiceAccount":        "the account may need rights that nobody has given it",
	"StorageClass":          "volumes of a class that nobody else knows",
}

// refutingTest is what would refute that it is lacking, "" where no command of ours shows it.
func (l *lack) refutingTest() nightcrier.Falsification {
	o := l.object
	t := testByGet(o.Namespace, strings.ToLower(o.Kind), o.Name)
	switch {
	case o.Kind == hostKind:
		return nightcrier.Falsification{}
	case o.Kind == "ResourceQuota":
		return t.decidesBetween("used plus one Pod is more than hard", "there is room for another Pod")
	case o.Kind == "Secret": // its data is not for us to print
		t = testByDescribe(nightcrier.Resource{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name})
	}
	if l.partial {
		return t.decidesBetween("it lacks "+keysOf(l.keys), "it has "+keysOf(l.keys))
	}
	return t.decidesBetween("it does not exist", "it exists")
}

// What the kubelet says is missing.
var (
	keyAbsent    = newPattern(`couldn't find key (\S{1,253}) in (ConfigMap|Secret) ([^/\s]{1,63})/(\S{1,253})`)
	itemAbsent   = newPattern(`for volume "([^"]{1,253})".{0,200}references non-existent (config|secret) key: (\S{1,253})`)
	objectAbsent = newPattern(`(?i)\b(configmap|secret|serviceaccount)s? "([^"]{1,253})" not found`)
)

// kindsSaid are kinds as the kubelet writes them.
var kindsSaid = map[string]string{"configmap": "ConfigMap", "secret": "Secret", "serviceaccount": "ServiceAccount"}

// lackSaid is what a message of the kubelet says that a Pod lacks, nil if it does not
// name it.
func lackSaid(p *Read[corev1.Pod], message string) *lack {
	ns := p.Object.Namespace
	if m := keyAbsent.FindStringSubmatch(message); m != nil {
		return &lack{object: nightcrier.Object{Kind: m[2], Namespace: m[3], Name: m[4]}, keys: []string{m[1]}, partial: true}
	}
	if m := itemAbsent.FindStringSubmatch(message); m != nil {
		for _, src := range sourcesOf(p) {
			if src.by == "volume "+m[1] && src.key == m[3] {
				return &lack{object: nightcrier.Object{Kind: src.kind, Namespace: ns, Name: src.name}, keys: []string{m[3]}, partial: true}
			}
		}
	}
	if m := objectAbsent.FindStringSubmatch(message); m != nil {
		o := nightcrier.Object{Kind: kindsSaid[strings.ToLower(m[1])], Namespace: ns, Name: m[2]}
		return &lack{object: o, keys: keysNamed(p, o)}
	}
	return nil
}

// keysNamed are the keys of a ConfigMap or Secret that a Pod names.
func keysNamed(p *Read[corev1.Pod], o nightcrier.Object) []string {
	var keys []string
	for _, src := range sourcesOf(p) {
		if src.kind == o.Kind && src.name == o.Name && src.key != "" && !slices.Contains(keys, src.key) {
			keys = append(keys, src.key)
		}
	}
	return keys
}

// lackOf is what src, of which lacks says that it is missing, comes to.
func lackOf(p *Read[corev1.Pod], cause string, src source) *lack {
	l := &lack{object: nightcrier.Object{Kind: src.kind, Namespace: p.Object.Namespace, Name: src.name}}
	if l.partial = cause == "missing-config-key"; l.partial {
		l.keys = []string{src.key}
	} else {
		l.keys = keysNamed(p, l.object)
	}
	return l
}

// joinLacks makes one finding of those that say of several objects that they lack the
// same: eleven workloads that wait for one ConfigMap are one fault, of the ConfigMap.
// What one alone lacks stays its own: its reference is as likely to be what is wrong.
func joinLacks(own, all []Finding) ([]Finding, []Finding) {
	type thing struct {
		cause  string
		object nightcrier.Object
	}
	members := map[thing][]Finding{}
	of := func(n Finding) thing { return thing{n.Cause, n.Lack.object} }
	for _, n := range slices.Concat(own, all) {
		if n.Lack == nil {
			continue
		}
		if has := members[of(n)]; !slices.ContainsFunc(has, func(o Finding) bool { return o.Object == n.Object && slices.Equal(o.Lack.keys, n.Lack.keys) }) {
			members[of(n)] = append(has, n)
		}
	}
	told := map[thing]bool{}
	collect := func(list []Finding) (out []Finding) {
		for _, n := range list {
			switch {
			case n.Lack == nil || len(objectsOf(members[of(n)])) < 2:
				out = append(out, n)
			case !told[of(n)]:
				told[of(n)] = true
				out = append(out, inCommon(members[of(n)]))
			}
		}
		return out
	}
	own = collect(own)
	return own, collect(all)
}

// objectsOf are the objects that findings are about, each once.
func objectsOf(list []Finding) []nightcrier.Object {
	var out []nightcrier.Object
	for _, n := range list {
		if !slices.Contains(out, n.Object) {
			out = append(out, n.Object)
		}
	}
	return out
}

// maxToldOfMany is how many of those that lack the same a sentence names, and how many
// of them a report cites.
const maxToldOfMany = 3

// inCommon is the finding about what several others lack.
func inCommon(members []Finding) Finding {
	n := members[0]
	l := *n.Lack
	l.keys = nil
	n.Observed, n.DependsOn, n.Behind, n.Affected = nil, nil, nil, objectsOf(members)
	for _, m := range members {
		if len(n.Observed) < maxToldOfMany {
			n.Observed = append(n.Observed, m.Observed[0])
		}
		if n.Confidence == nightcrier.Low || m.Confidence == nightcrier.High {
			n.Confidence = m.Confidence
		}
		for _, k := range m.Lack.keys {
			if !slices.Contains(l.keys, k) {
				l.keys = append(l.keys, k)
			}
		}
		n.Affected = uniteObjects(n.Affected, m.Affected)
	}
	who := objectsOf(members)
	slices.Sort(l.keys)
	slices.SortFunc(who, func(a, b nightcrier.Object) int { return cmp.Compare(a.String(), b.String()) })
	n.Affected = slices.DeleteFunc(n.Affected, func(o nightcrier.Object) bool { return o == l.object })
	n.Object, n.Lack, n.Joined, n.Weight = l.object, &l, members, n.Weight+len(who)
	n.Summary = fmt.Sprintf("%s %s; %d %s wait for it: %s.", l.object, l.describeState(n.Cause), len(who), nounOf(who), someOf(who))
	if t := l.refutingTest(); t.Command != "" {
		n.Test = t
	}
	n.Actions = []Step{l.repairAction("those that wait for it"), {
		Action:  "Find out since when it is so: what made " + l.object.String() + " before, and who removed or renamed it",
		Outcome: "tells a lost object from a wrong reference", Risk: "none: read only",
	}}
	return n
}

func nounOf(list []nightcrier.Object) string {
	if !slices.ContainsFunc(list, func(o nightcrier.Object) bool { return o.Kind != "PersistentVolumeClaim" }) {
		return "claims"
	}
	return "workloads"
}

// someOf names the first objects of a list, and says how many more there are.
func someOf(list []nightcrier.Object) string {
	var names []string
	for _, o := range list[:min(len(list), maxToldOfMany)] {
		names = append(names, o.String())
	}
	if more := len(list) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}
