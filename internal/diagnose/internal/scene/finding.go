package scene

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Cause is one entry of the published list.
type Cause struct {
	// ID is the kebab-case name that reports and evaluations use.
	ID string `json:"cause"`
	// Category is Pod, Service, Storage, Node, Network, Helm or Cluster.
	Category string `json:"category"`
	Meaning  string `json:"meaning"`

	// Rank orders causes that hold at the same time: what explains more first.
	Rank int `json:"-"`
	// TellsHow is set when it says how a container ended, which is no other explanation
	// than why it did.
	TellsHow bool `json:"-"`
	// BeginsElsewhere is set when something that is needed does not answer.
	BeginsElsewhere bool `json:"-"`
	// Symptom is set when it says that something is wrong, and not why. Only a finding that
	// has the why beside it is then certain.
	Symptom bool `json:"-"`
}

// The ranks: what a cluster states as the reason outranks what follows from it.
const (
	RankFollows = 10 // a consequence of something else
	RankShown   = 50 // shown by how a container ended
	RankStated  = 80 // stated by the cluster as the reason
	RankGround  = 90 // makes everything above it fail
	groundSpan  = 3  // how far below RankGround its own order of causes reaches
)

// LiesBeneathAll reports whether every namespace stands on what is wrong: a node, the
// network, DNS. A volume is one namespace's.
func (c Cause) LiesBeneathAll() bool {
	return c.Rank >= RankGround-groundSpan && c.Category != "Storage"
}

// Finding is a cause that a rule found to hold.
type Finding struct {
	// Cause is an id of the published list, and Entry what the list says of it: that is
	// filled in when the rule has returned.
	Cause string
	Entry Cause
	// Object is what a person would mend.
	Object nightcrier.Object
	// Summary is one sentence to act on.
	Summary    string
	Confidence nightcrier.Confidence
	// Why are the words in which something that was read says why it is so, "" where it shows
	// no more than that it is. Of a cause that is no symptom the predicate itself is why.
	Why string
	// Observed are the facts that it rests on, the strongest first.
	Observed []Observation
	// WrongIf says what would make it wrong.
	WrongIf string
	// Test is the read-only command that would refute it.
	Test    nightcrier.Falsification
	Actions []Step
	// Rank is set when what was seen puts it higher or lower than its cause
	// usually stands, 0 otherwise.
	Rank int
	// Weight orders findings of one rank: the larger first.
	Weight int
	// Affected are the objects whose trouble this explains, beside Object: the
	// Pods' workload that a Service has no endpoints for, the Pods of a node.
	Affected []nightcrier.Object
	// Behind are objects that are well themselves and cannot be reached through
	// Object: the workload that a Service is meant for. Their neighbours' trouble
	// does not follow from this.
	Behind []nightcrier.Object
	// DependsOn are the objects that Object needs. Trouble of one of them is the
	// real cause, and this only follows from it.
	DependsOn []nightcrier.Object
	// Lack is the one thing that Object lacks, nil where it is not of that kind: who
	// else lacks it has the same fault.
	Lack *Lack
	// Joined are the findings that were made one because all of them lack the same.
	Joined []Finding
}

// Observation is one thing that was read and that a predicate was tested on.
type Observation struct {
	Text string
	// Quote is what stands in the evidence, word for word.
	Quote string
	Ref   Ref
}

// Lack is one thing that is needed and is missing, incomplete, full or out of reach.
// Several may stumble over the same: it is then the one root of all of them.
type Lack struct {
	Object nightcrier.Object
	// Keys are those that are needed of a ConfigMap or Secret, as far as they are known.
	Keys []string
	// partial is set when the object is there, and only the keys are missing.
	partial bool
	// Pulls is set when it is a Secret that images are pulled with.
	Pulls bool
}

// HostKind is the kind of what lies outside of the cluster, by its address.
const HostKind = "Host"

// hostStates say what is wrong with a host, by the cause that was found.
var hostStates = map[string]string{
	"dependency-auth-failed":     "refuses the credentials that it is given",
	"dependency-name-unresolved": "cannot be resolved",
	"dependency-refused":         "refuses connections",
	"dependency-timeout":         "does not answer",
	"image-pull-rate-limited":    "refuses because of too many pulls",
	"image-registry-unreachable": "cannot be reached from the nodes",
}

// DescribeState says what is wrong with it.
func (l *Lack) DescribeState(cause string) string {
	switch {
	case l.Object.Kind == HostKind:
		return hostStates[cause]
	case l.Object.Kind == "ResourceQuota":
		return "has no room left"
	case l.partial:
		return "has no " + keysOf(l.Keys)
	}
	return "does not exist"
}

func keysOf(keys []string) string {
	if len(keys) == 1 {
		return "key " + text.CutLine(keys[0], MaxQuote)
	}
	return "keys " + text.CutLine(strings.Join(keys, ", "), MaxQuote)
}

// RepairAction is the first step: what to make, and, in who, what to correct instead.
func (l *Lack) RepairAction(who string) Step {
	o := l.Object
	what := o.Kind + " " + o.Name
	in := ""
	if o.Namespace != "" {
		in = " in namespace " + o.Namespace
	}
	act := Step{Outcome: "what waits for it goes on by itself", Risk: "a wrong value starts it wrongly configured", Command: l.create()}
	switch {
	case o.Kind == HostKind:
		act.Action = "Check from inside the cluster that " + o.Name + " answers, and bring it back"
		act.Risk = "none: read only"
	case o.Kind == "ResourceQuota":
		act.Action = "Raise quota " + o.Name + " of namespace " + o.Namespace + ", or let " + who + " ask for less"
		act.Risk = "a larger quota takes room from others"
	case l.partial:
		act.Action = "Add " + keysOf(l.Keys) + " to " + what + in + ", or correct the reference in " + who
	case len(l.Keys) > 0:
		act.Action = "Create " + what + " with " + keysOf(l.Keys) + in + ", or correct the reference in " + who
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

// RefutingTest is what would refute that it is lacking, "" where no command of ours shows it.
func (l *Lack) RefutingTest() nightcrier.Falsification {
	o := l.Object
	t := GetTest(o.Namespace, strings.ToLower(o.Kind), o.Name)
	switch {
	case o.Kind == HostKind:
		return nightcrier.Falsification{}
	case o.Kind == "ResourceQuota":
		return t.DecidesBetween("used plus one Pod is more than hard", "there is room for another Pod")
	case o.Kind == "Secret": // its data is not for us to print
		t = DescribeTest(o)
	}
	if l.partial {
		return t.DecidesBetween("it lacks "+keysOf(l.Keys), "it has "+keysOf(l.Keys))
	}
	return t.DecidesBetween("it does not exist", "it exists")
}

// What the kubelet says is missing.
var (
	keyAbsent    = NewPattern(`couldn't find key (\S{1,253}) in (ConfigMap|Secret) ([^/\s]{1,63})/(\S{1,253})`)
	itemAbsent   = NewPattern(`for volume "([^"]{1,253})".{0,200}references non-existent (config|secret) key: (\S{1,253})`)
	objectAbsent = NewPattern(`(?i)\b(configmap|secret|serviceaccount)s? "([^"]{1,253})" not found`)
)

// kindsSaid are kinds as the kubelet writes them.
var kindsSaid = map[string]string{"configmap": "ConfigMap", "secret": "Secret", "serviceaccount": "ServiceAccount"}

// ParseLack is what a message of the kubelet says that a Pod lacks, nil if it does not
// name it.
func ParseLack(p *Read[corev1.Pod], message string) *Lack {
	ns := p.Object.Namespace
	if m := keyAbsent.FindStringSubmatch(message); m != nil {
		return &Lack{Object: nightcrier.Object{Kind: m[2], Namespace: m[3], Name: m[4]}, Keys: []string{m[1]}, partial: true}
	}
	if m := itemAbsent.FindStringSubmatch(message); m != nil {
		for _, src := range ConfigSourcesOf(p) {
			if src.By == "volume "+m[1] && src.Key == m[3] {
				return &Lack{Object: nightcrier.Object{Kind: src.Kind, Namespace: ns, Name: src.Name}, Keys: []string{m[3]}, partial: true}
			}
		}
	}
	if m := objectAbsent.FindStringSubmatch(message); m != nil {
		o := nightcrier.Object{Kind: kindsSaid[strings.ToLower(m[1])], Namespace: ns, Name: m[2]}
		return &Lack{Object: o, Keys: keysNamed(p, o)}
	}
	return nil
}

// keysNamed are the keys of a ConfigMap or Secret that a Pod names.
func keysNamed(p *Read[corev1.Pod], o nightcrier.Object) []string {
	var keys []string
	for _, src := range ConfigSourcesOf(p) {
		if src.Kind == o.Kind && src.Name == o.Name && src.Key != "" && !slices.Contains(keys, src.Key) {
			keys = append(keys, src.Key)
		}
	}
	return keys
}

// LackOfSource is what src, of which lacks says that it is missing, comes to.
func LackOfSource(p *Read[corev1.Pod], cause string, src ConfigSource) *Lack {
	l := &Lack{Object: nightcrier.Object{Kind: src.Kind, Namespace: p.Object.Namespace, Name: src.Name}}
	if l.partial = cause == "missing-config-key"; l.partial {
		l.Keys = []string{src.Key}
	} else {
		l.Keys = keysNamed(p, l.Object)
	}
	return l
}

// MaxToldOfMany is how many of those that lack the same a sentence names, and how many
// of them a report cites.
const MaxToldOfMany = 3

// NameSome names the first objects of a list, and says how many more there are.
func NameSome(list []nightcrier.Object) string {
	var names []string
	for _, o := range list[:min(len(list), MaxToldOfMany)] {
		names = append(names, o.String())
	}
	if more := len(list) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// MeaningOf is what a cause of a list means.
func MeaningOf(causes []Cause, id string) string {
	for _, c := range causes {
		if c.ID == id {
			return c.Meaning
		}
	}
	return ""
}

// Rule looks for one kind of cause in the facts about one workload, or one node.
// It is a function of the facts alone, returns nothing unless its predicate
// holds, and says what it rests on.
type Rule func(*Facts) []Finding

// SceneRule looks for one kind of cause in what surrounds the workloads:
// services, claims, quotas, autoscalers. It runs once over all that was read.
type SceneRule func(*Scene) []Finding

// Area is a field that rules know about: one file, with the rules and the causes that they
// name, and beside it the table of their cases.
type Area struct {
	// Name orders areas, and so which of two rules of one rank is told first.
	Name       string
	Rules      []Rule
	SceneRules []SceneRule
	Causes     []Cause
}
