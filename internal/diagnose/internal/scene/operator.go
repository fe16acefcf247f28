package scene

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Trouble is what an object of any kind says of itself that is wrong.
type Trouble struct {
	// Says is where it stands and why, as "Ready=False (UpgradeFailed)"; Message are the
	// words that go with it, the one that tells most first.
	Says    string
	Message string
	Since   time.Time
	// Waits is set when it says no more than that something else is not ready yet.
	Waits bool
}

var (
	// goodCondition matches conditions that are True when all is well.
	goodCondition = NewPattern(`^(?:Ready|Available|Healthy|Synced|Succeeded|Reconciled|Established|NamesAccepted|Accepted|Programmed|ResolvedRefs|Valid|Validated|Released|Approved|Provisioned|Launched|Registered|Initialized|Running|Connected|Deployed|Installed|SecretSynced|\w*(?:Ready|Available|Synced|Succeeded|Healthy|Valid))$`)
	// badCondition matches conditions that are True when something is wrong.
	badCondition = NewPattern(`(?:^|[a-z])(?:Failed|Failure|Failing|Error|Stalled|Degraded|Denied|InvalidRequest|Blocked|Fallback|Exceeded|Unavailable|Unhealthy)$|^(?:Invalid\w*|Corrupted)$`)
	// badPhase matches phases that are no way to somewhere else.
	badPhase = NewPattern(`(?i)^(?:failed|failure|error|errored|degraded|invalid|unhealthy|missing|stuck|blocked|rejected|denied|unavailable|lost|faulted|failing|aborted|upgrade ?failed)$`)
	// onItsWay matches reasons of what only takes its time.
	onItsWay = NewPattern(`(?i)progress|reconciling|pending|creating|issuing|initiali[sz]ing|waiting|scheduling|starting|updating|scaling`)
	// waitsWords match what is said of something else that is not ready.
	waitsWords = NewPattern(`(?i)timed? ?out waiting|waiting for|health ?check|not (?:yet )?(?:ready|healthy|available)|is(?: still)? progressing|dependency '[^']+' is not ready|context deadline exceeded|stalled resources|InProgress`)
	// sumsUp matches messages that only say that others say why.
	sumsUp = NewPattern(`(?i)retries exhausted|see (?:the )?(?:events|logs|status)|reconciliation failed$|^failed$`)
)

// StatusTrouble reads of the status of an object what is wrong with it, by the customs that
// operators share: conditions, phases, messages beside them.
func StatusTrouble(u *unstructured.Unstructured) (Trouble, bool) {
	var all []Trouble
	for _, m := range conditionsOf(u) {
		if t, bad := conditionTrouble(m); bad {
			all = append(all, t)
		}
	}
	for _, at := range [][]string{{"phase"}, {"state"}, {"status"}, {"health"}, {"health", "status"}, {"health", "state"}, {"operationState", "phase"}, {"sync", "state"}} {
		phase, found, err := unstructured.NestedString(u.Object, append([]string{"status"}, at...)...)
		if err != nil || !found || !badPhase.MatchString(phase) {
			continue
		}
		t := Trouble{Says: "status." + strings.Join(at, ".") + "=" + phase, Message: messageBeside(u, at)}
		t.Waits = t.Message == "" && at[0] == "health"
		all = append(all, t)
	}
	if len(all) == 0 {
		return Trouble{}, false
	}
	slices.SortStableFunc(all, compareTroubles)
	t := all[0]
	for _, o := range all[1:] { // what another says that this one does not
		if o.Message != "" && !o.Waits && !sumsUp.MatchString(o.Message) && !strings.Contains(t.Message, o.Message) && !strings.Contains(o.Message, t.Message) && len(t.Message) < MaxQuote {
			t.Message = text.CutMiddle(t.Message, MaxQuote) + "; " + o.Message
		}
	}
	return t, true
}

// compareTroubles puts first what tells most.
func compareTroubles(a, b Trouble) int {
	rank := func(t Trouble) int {
		switch {
		case t.Waits:
			return 3
		case t.Message == "":
			return 2
		case sumsUp.MatchString(t.Message):
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(b.Message), len(a.Message)))
}

func conditionTrouble(m map[string]any) (Trouble, bool) {
	kind, status, reason, message := fieldOf(m, "type"), fieldOf(m, "status"), fieldOf(m, "reason"), fieldOf(m, "message")
	bad := status == "False" && goodCondition.MatchString(kind) || status == "True" && badCondition.MatchString(kind) ||
		status == "" && message != "" && badCondition.MatchString(kind) || status == "Unknown" && message != "" && goodCondition.MatchString(kind)
	if !bad {
		return Trouble{}, false
	}
	t := Trouble{Says: kind, Message: message}
	if status != "" {
		t.Says += "=" + status
	}
	if reason != "" {
		t.Says += " (" + reason + ")"
	}
	t.Since = timeAt(m)
	t.Waits = onItsWay.MatchString(reason) || waitsWords.MatchString(message) && !TellingWords.MatchString(waitsWords.ReplaceAllString(message, ""))
	return t, true
}

// messageBeside is what an object says of its phase.
func messageBeside(u *unstructured.Unstructured, at []string) string {
	paths := [][]string{{"message"}, {"reason"}, {"errorMessage"}, {"error"}, {"lastError"}, {"failureReason"}, {"failureMessage"}, {"details"}}
	if len(at) > 1 {
		paths = append([][]string{{at[0], "message"}, {at[0], "lastError"}}, paths...)
	}
	for _, p := range paths {
		if said, found, err := unstructured.NestedString(u.Object, append([]string{"status"}, p...)...); err == nil && found && said != "" {
			return said
		}
	}
	return ""
}

// Reference is what an object names as something that it needs.
type Reference struct{ Group, Kind, Namespace, Name string }

// maxDepth bounds how far into a specification references are looked for.
const maxDepth = 6

// ReferencesOf are what an object's specification refers to, by the custom that a field
// called …Ref has a name and a kind; and what owns it.
func ReferencesOf(u *unstructured.Unstructured) (out []Reference) {
	var walk func(v any, field string, depth int)
	walk = func(v any, field string, depth int) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e, field, depth+1)
			}
		case map[string]any:
			kind, _ := v["kind"].(string)
			name, _ := v["name"].(string)
			if lower := strings.ToLower(field); kind != "" && name != "" && (strings.HasSuffix(lower, "ref") || strings.HasSuffix(lower, "refs")) {
				r := Reference{Kind: kind, Name: name, Namespace: u.GetNamespace()}
				r.Group, _ = v["group"].(string)
				if api, _ := v["apiVersion"].(string); r.Group == "" && strings.Contains(api, "/") {
					r.Group, _, _ = strings.Cut(api, "/")
				}
				if ns, _ := v["namespace"].(string); ns != "" {
					r.Namespace = ns
				}
				out = append(out, r)
			}
			if depth < maxDepth {
				for _, key := range sortedFields(v) {
					walk(v[key], key, depth+1)
				}
			}
		}
	}
	walk(u.Object["spec"], "spec", 0)
	if up := metav1.GetControllerOfNoCopy(u); up != nil {
		group, _, _ := strings.Cut(up.APIVersion, "/")
		out = append(out, Reference{group, up.Kind, u.GetNamespace(), up.Name})
	}
	return out
}

func sortedFields(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// MakesObject is the object that one of the common operators makes of u, zero where it
// makes none or that is not known.
func MakesObject(u *unstructured.Unstructured) nightcrier.Object {
	in := func(kind string, path ...string) nightcrier.Object {
		name := StringAt(u, path...)
		return nightcrier.Object{Kind: kind, Namespace: u.GetNamespace(), Name: cmp.Or(name, u.GetName())}
	}
	switch u.GetKind() {
	case "ExternalSecret":
		return in("Secret", "spec", "target", "name")
	case "SealedSecret":
		return in("Secret", "spec", "template", "metadata", "name")
	case "Certificate":
		if StringAt(u, "spec", "secretName") != "" {
			return in("Secret", "spec", "secretName")
		}
	case "ScaledObject":
		return nightcrier.Object{Kind: "HorizontalPodAutoscaler", Namespace: u.GetNamespace(), Name: cmp.Or(StringAt(u, "spec", "advanced", "horizontalPodAutoscalerConfig", "name"), "keda-hpa-"+u.GetName())}
	}
	return nightcrier.Object{}
}

// OtherObject names an object of a kind that has no place of its own.
func OtherObject(u *unstructured.Unstructured) nightcrier.Object {
	return nightcrier.Object{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// FindOther is the object of another kind that a reference names, whether it lies in the
// namespace or in none.
func (s *Scene) FindOther(r Reference) *Read[unstructured.Unstructured] {
	for i := range s.Others {
		u := &s.Others[i].Object
		if u.GetKind() == r.Kind && u.GetName() == r.Name && (u.GetNamespace() == r.Namespace || u.GetNamespace() == "") {
			return &s.Others[i]
		}
	}
	return nil
}

// linkOthers links what operators make to what they make it of, and that to what it
// refers to and to what was made for it on the way.
func (g Graph) linkOthers(s *Scene) {
	for i := range s.Others {
		u := &s.Others[i].Object
		o := OtherObject(u)
		g.AddLink(MakesObject(u), o, ByMake)
		for _, r := range ReferencesOf(u) {
			to := s.FindOther(r)
			up := metav1.GetControllerOfNoCopy(u)
			switch {
			case to == nil:
			case up != nil && up.Kind == r.Kind && up.Name == r.Name: // it waits for what was made for it
				g.AddLink(OtherObject(&to.Object), o, ByMake)
			default:
				g.AddLink(o, OtherObject(&to.Object), ByMake)
			}
		}
	}
}

// MissingSecrets are the Secrets that Pods or Ingresses of a namespace name and that do not
// exist.
func (s *Scene) MissingSecrets(ns string) (names []string) {
	if !s.Complete("Secret", ns) {
		return nil
	}
	add := func(name string) {
		if name != "" && FindObject(s.Secrets, ns, name) == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for w := range s.WorkloadsIn(ns) {
		NamesOfConfig(*w.Spec, func(kind, name string) {
			if kind == "Secret" {
				add(name)
			}
		})
	}
	for _, ing := range s.Ingresses {
		for _, tls := range ing.Object.Spec.TLS {
			if ing.Object.Namespace == ns {
				add(tls.SecretName)
			}
		}
	}
	return names
}

// OwnWord is what an object of a kind that no rule knows says of itself.
type OwnWord struct {
	Object nightcrier.Object
	Seen   Observation
	Since  time.Time
}

// SelfComplaints are the objects of other kinds that say of themselves that they are not as
// they should be, in the order in which they were read.
func (s *Scene) SelfComplaints() (all []OwnWord) {
	for i := range s.Others {
		if w, bad := complaintOf(&s.Others[i]); bad {
			all = append(all, w)
		}
	}
	return all
}

// SaysItIsWell reports whether an object of another kind was read and has said, later than
// at a time, that it is as it should be.
func (s *Scene) SaysItIsWell(o nightcrier.Object, after time.Time) bool {
	for i := range s.Others {
		u := &s.Others[i]
		if u.Object.GetKind() != o.Kind || u.Object.GetNamespace() != o.Namespace || u.Object.GetName() != o.Name {
			continue
		}
		if _, bad := complaintOf(u); bad {
			return false
		}
		return slices.ContainsFunc(conditionsOf(&u.Object), func(c map[string]any) bool {
			return c["status"] == string(metav1.ConditionTrue) && goodCondition.MatchString(fieldOf(c, "type")) && timeAt(c).After(after)
		})
	}
	return false
}

func complaintOf(r *Read[unstructured.Unstructured]) (OwnWord, bool) {
	t, bad := StatusTrouble(&r.Object)
	if word := StringAt(&r.Object, "status", "sync", "status"); !bad && word == "OutOfSync" {
		t, bad = Trouble{Says: "status.sync.status=" + word, Message: word}, true
	}
	o := OtherObject(&r.Object)
	return OwnWord{Object: o, Since: t.Since, Seen: Observation{Text: o.String() + " says " + t.Says, Quote: cmp.Or(t.Message, t.Says), Ref: r.Ref}}, bad
}

// conditionsOf are the conditions of an object: its own, or those that it has for each of
// those that take it up, as a route for each gateway.
func conditionsOf(u *unstructured.Unstructured) (all []map[string]any) {
	status, _ := u.Object["status"].(map[string]any)
	add := func(of map[string]any) {
		list, _ := of["conditions"].([]any)
		for _, c := range list {
			if m, ok := c.(map[string]any); ok {
				all = append(all, m)
			}
		}
	}
	add(status)
	for _, field := range []string{"parents", "ancestors", "listeners"} {
		list, _ := status[field].([]any)
		for _, e := range list {
			if m, ok := e.(map[string]any); ok {
				add(m)
			}
		}
	}
	return all
}

func fieldOf(condition map[string]any, name string) string {
	text, _ := condition[name].(string)
	return text
}

func timeAt(condition map[string]any) time.Time {
	text, _ := condition["lastTransitionTime"].(string)
	at, _ := time.Parse(time.RFC3339, text) // none is long ago
	return at
}
