package deploy

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/text"
)

// The outcomes of a write.
const (
	created   = "created"
	changed   = "changed"
	unchanged = "unchanged"
	deleted   = "deleted"
	failed    = "failed"
	unknown   = "unknown" // the API server gave no answer
	notTried  = "not tried"
)

// applied is what became of one object.
type applied struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Outcome   string `json:"outcome"`
	Why       string `json:"why,omitempty"`
}

// applyAnswer is what kubectl_apply tells programs.
type applyAnswer struct {
	DryRun  bool      `json:"dryRun"`
	Objects []applied `json:"objects"`
	// URLs are where the application can be reached, once it runs.
	URLs []string `json:"urls"`
}

var applyOutput = map[string]any{"type": "object", "required": []string{"dryRun", "objects", "urls"}, "properties": map[string]any{
	"dryRun": map[string]any{"type": "boolean"}, "urls": map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
	"objects": map[string]any{"type": "array", "items": map[string]any{"type": "object", "required": []string{"kind", "namespace", "name", "outcome"},
		"properties": map[string]any{"kind": textType, "namespace": textType, "name": textType, "outcome": textType, "why": textType}}},
}}

var textType = map[string]any{"type": "string"}

// applyManifest is kubectl_apply.
func (s *Set) applyManifest(ctx context.Context, a kubetool.Args) (string, any, error) {
	all, err := s.cfg.Policy.readManifest(a.String("manifest"), a.String("namespace"))
	if err != nil {
		return "", nil, err
	}
	s.one.Lock()
	defer s.one.Unlock()
	standing, err := s.tryAll(ctx, all)
	if err != nil {
		return "", nil, err
	}
	answer := applyAnswer{DryRun: a.Bool("dry_run"), URLs: []string{}}
	id := rand.Text()
	for i, o := range all {
		one := applied{Kind: o.kind.Name, Namespace: o.namespace, Name: o.name, Outcome: notTried}
		var obj map[string]any
		switch {
		case err != nil: // an earlier one failed
		case answer.DryRun:
			one.Outcome, obj = standing[i].outcome, standing[i].tried
		default:
			if one.Outcome, obj, err = s.applyObject(ctx, id, o, standing[i]); err != nil {
				one.Why = text.CutLine(err.Error(), 500)
			}
		}
		answer.Objects, answer.URLs = append(answer.Objects, one), append(answer.URLs, urlsOf(obj)...)
	}
	said := describeApplied(answer)
	if err != nil {
		return "", nil, nightcrier.Errorf(nightcrier.CodeOf(err), "%w\n%s\nThe same call goes on where this one ended.", err, said)
	}
	return said, answer, nil
}

func describeApplied(answer applyAnswer) string {
	var b strings.Builder
	for _, o := range answer.Objects {
		fmt.Fprintf(&b, "%s %s/%s: %s\n", o.Kind, o.Namespace, o.Name, o.Outcome)
	}
	if answer.DryRun {
		b.WriteString("(a dry run: nothing was changed)\n")
	}
	for _, u := range answer.URLs {
		fmt.Fprintf(&b, "URL, once it runs: %s\n", u)
	}
	return b.String()
}

// standing is what there is of an object before it is applied, and what a dry run made of it.
type standing struct {
	uid, version string
	outcome      string
	tried        map[string]any
}

// tryAll looks whether each object may be applied: what it points at, whose it is if it is
// there, and what the API server says to a dry run.
func (s *Set) tryAll(ctx context.Context, all []object) ([]standing, error) {
	result := make([]standing, len(all))
	for i, o := range all {
		for _, n := range o.needs {
			if err := s.checkNeed(ctx, all, o, n); err != nil {
				return nil, err
			}
		}
		if err := s.checkServices(ctx, o); err != nil {
			return nil, err
		}
		if err := s.checkClaims(ctx, o); err != nil {
			return nil, err
		}
		if err := s.checkHosts(ctx, all, o); err != nil {
			return nil, err
		}
		obj, err := s.api.get(ctx, o.kind, o.namespace, o.name)
		if err != nil {
			return nil, err
		}
		if obj != nil && !isOurs(obj) {
			return nil, nightcrier.Errorf(nightcrier.Refused, "%s is there already, and was not applied by this server but by %s: use another name", o, managersOf(obj))
		}
		st := standing{uid: kubetool.TextAt(obj, "metadata", "uid"), version: kubetool.TextAt(obj, "metadata", "resourceVersion"), outcome: created}
		if _, st.tried, err = s.api.apply(ctx, o, o.patchFor(st), true); err != nil {
			return nil, err
		}
		if obj != nil {
			if st.outcome = changed; sameObject(obj, st.tried) {
				st.outcome = unchanged
			}
		}
		result[i] = st
	}
	return result, nil
}

// sameObject reports whether a dry run left an object as it was.
func sameObject(a, b map[string]any) bool {
	plain := func(m map[string]any) string {
		meta := map[string]any{}
		for k, v := range kubetool.MapAt(m, "metadata") {
			if k != "managedFields" && k != "resourceVersion" && k != "generation" {
				meta[k] = v
			}
		}
		b, err := json.Marshal([]any{meta, m["spec"], m["data"], m["binaryData"], m["immutable"]})
		if err != nil {
			return ""
		}
		return string(b)
	}
	return plain(a) == plain(b)
}

// patchFor is what is sent: bound to the very object that was looked at, so that one that
// others made in its place is not changed.
func (o object) patchFor(st standing) map[string]any {
	if st.uid == "" {
		return o.body
	}
	body, meta := maps.Clone(o.body), maps.Clone(kubetool.MapAt(o.body, "metadata"))
	meta["uid"], body["metadata"] = st.uid, meta
	return body
}

// checkNeed looks whether what an object points at is one of ours, or about to be.
func (s *Set) checkNeed(ctx context.Context, all []object, o object, n need) error {
	if slices.ContainsFunc(all, func(other object) bool {
		return other.kind.Name == n.kind && other.name == n.name && other.namespace == o.namespace
	}) {
		return nil
	}
	k, _ := kinds.Named(n.kind)
	obj, err := s.api.get(ctx, k, o.namespace, n.name)
	if err != nil {
		return err
	}
	if obj == nil || !isOurs(obj) {
		return nightcrier.Errorf(nightcrier.Refused, "%s: %s names the %s %s, which was not applied by this server", o, n.at, n.kind, n.name)
	}
	return nil
}

// maxServices bounds the Services of a namespace that are looked at.
const maxServices = 500

// checkServices refuses Pods that a Service of others would lead its traffic to.
func (s *Set) checkServices(ctx context.Context, o object) error {
	path := templatePath(o.kind.Name)
	if path == nil {
		return nil
	}
	labels := kubetool.MapAt(o.body, append(path, "metadata", "labels")...)
	services, more, err := s.api.list(ctx, kinds.MustNamed("Service"), o.namespace, "", maxServices)
	if err != nil {
		return err
	}
	if more {
		return nightcrier.Errorf(nightcrier.Exhausted, "%s: the namespace has more than %d Services, so it cannot be seen whether one of others leads to these Pods", o, maxServices)
	}
	for _, svc := range services {
		selector := kubetool.MapAt(svc, "spec", "selector")
		fits := len(selector) > 0 && !isOurs(svc)
		for key, value := range selector {
			fits = fits && labels[key] == value
		}
		if fits {
			return nightcrier.Errorf(nightcrier.Refused, "%s: the Service %s, which was not applied by this server, would lead its traffic to these Pods: use other labels", o, kubetool.TextAt(svc, "metadata", "name"))
		}
	}
	return nil
}

// maxIngresses bounds the Ingresses of a namespace that are looked at.
const maxIngresses = 500

// checkHosts refuses a host that an Ingress of another namespace has, among those of this server: a part of
// its traffic would come here.
func (s *Set) checkHosts(ctx context.Context, all []object, o object) error {
	own := hostsOf(o.body)
	if o.kind.Name != "Ingress" || len(own) == 0 {
		return nil
	}
	for _, ns := range s.cfg.Policy.Namespaces {
		if ns == o.namespace {
			continue
		}
		there, more, err := s.api.list(ctx, o.kind, ns, "", maxIngresses)
		if err != nil {
			return err
		}
		if more {
			return nightcrier.Errorf(nightcrier.Exhausted, "%s: %s has more than %d Ingresses, so it cannot be seen whether one has the same host", o, ns, maxIngresses)
		}
		for _, other := range all {
			if other.kind.Name == "Ingress" && other.namespace == ns {
				there = append(there, other.body)
			}
		}
		for _, other := range there {
			for _, host := range hostsOf(other) {
				if slices.Contains(own, host) {
					return nightcrier.Errorf(nightcrier.Refused, "%s: the host %s is that of the Ingress %s/%s: use another host", o, host, ns, kubetool.TextAt(other, "metadata", "name"))
				}
			}
		}
	}
	return nil
}

// hostsOf are the hosts that an Ingress claims.
func hostsOf(ingress map[string]any) (all []string) {
	for _, rule := range kubetool.ListAt(ingress, "spec", "rules") {
		all = append(all, kubetool.TextAt(rule, "host"))
	}
	return all
}

// maxClaims bounds the claims of a namespace that are looked at.
const maxClaims = 500

// checkClaims refuses a StatefulSet whose Pods would be given volumes of others: it takes a claim
// that is there by its name, which is made of the template's, its own and a number.
func (s *Set) checkClaims(ctx context.Context, o object) error {
	templates := kubetool.ListAt(o.body, "spec", "volumeClaimTemplates")
	if len(templates) == 0 {
		return nil
	}
	claims, more, err := s.api.list(ctx, kinds.MustNamed("PersistentVolumeClaim"), o.namespace, "", maxClaims)
	if err != nil {
		return err
	}
	if more {
		return nightcrier.Errorf(nightcrier.Exhausted, "%s: the namespace has more than %d claims, so it cannot be seen whether one of others would be taken", o, maxClaims)
	}
	for _, claim := range claims {
		name := kubetool.TextAt(claim, "metadata", "name")
		for _, template := range templates {
			number, fits := strings.CutPrefix(name, kubetool.TextAt(template, "metadata", "name")+"-"+o.name+"-")
			if fits && strings.Trim(number, "0123456789") == "" && kubetool.TextAt(claim, "metadata", "labels", Mark) != Manager {
				return nightcrier.Errorf(nightcrier.Refused, "%s: its Pods would take the claim %s, which is not of this server's: use another name", o, name)
			}
		}
	}
	return nil
}

// applyObject applies one object, on record before and after.
func (s *Set) applyObject(ctx context.Context, id string, o object, st standing) (string, map[string]any, error) {
	if st.outcome == unchanged {
		return unchanged, st.tried, nil
	}
	body := o.patchFor(st)
	b, err := json.Marshal(body)
	if err != nil {
		return failed, nil, nightcrier.Errorf(nightcrier.Internal, "write %s: %w", o, err)
	}
	w := s.newWrite(id, "apply", o.kind, o.namespace, o.name)
	w.SHA256 = text.DigestOf(b)
	var obj map[string]any
	err = s.recordWrite(w, func(w *Write) (err error) {
		var isNew bool
		isNew, obj, err = s.api.apply(ctx, o, body, false)
		if err != nil {
			return err
		}
		w.Outcome, w.UID, w.Version = changed, kubetool.TextAt(obj, "metadata", "uid"), kubetool.TextAt(obj, "metadata", "resourceVersion")
		switch {
		case isNew:
			w.Outcome = created
		case st.uid == "": // others made it since it was looked for: what was set of it is given back
			return s.releaseObject(ctx, id, o)
		case w.Version == st.version:
			w.Outcome = unchanged
		}
		st.outcome = w.Outcome
		return nil
	})
	if err != nil {
		return failed, nil, err
	}
	return st.outcome, obj, nil
}

// releaseObject gives back all that was set of an object of others.
func (s *Set) releaseObject(ctx context.Context, id string, o object) error {
	bare := map[string]any{"apiVersion": o.body["apiVersion"], "kind": o.body["kind"], "metadata": map[string]any{"name": o.name, "namespace": o.namespace}}
	err := s.recordWrite(s.newWrite(id, "release", o.kind, o.namespace, o.name), func(w *Write) error {
		_, _, err := s.api.apply(ctx, o, bare, false)
		w.Outcome = changed
		return err
	})
	if err != nil {
		return err
	}
	return nightcrier.Errorf(nightcrier.Conflict, "%s was made by others in this moment: what was set of it is given back; use another name", o)
}

func (s *Set) newWrite(id, verb string, k kinds.Kind, ns, name string) Write {
	return Write{Call: id, Verb: verb, Cluster: s.cfg.Cluster, Kind: k.Name, Namespace: ns, Name: name}
}

// recordWrite makes a change between its two records. When the first cannot be kept, it is
// not made; when the second cannot, that is an error although it was made.
func (s *Set) recordWrite(w Write, do func(*Write) error) error {
	w.At = s.cfg.Now().UTC()
	if err := s.cfg.Record(w); err != nil {
		return nightcrier.Errorf(nightcrier.CodeOf(err), "nothing was changed, because it cannot be recorded: %w", err)
	}
	err := do(&w)
	if w.At = s.cfg.Now().UTC(); err != nil {
		w.Outcome = failed
		if nightcrier.CodeOf(err) == nightcrier.Unreachable { // it may have been made
			w.Outcome = unknown
		}
		w.Outcome += ": " + string(s.cfg.Mask([]byte(text.CutLine(err.Error(), 500))))
	}
	if recordErr := s.cfg.Record(w); recordErr != nil && err == nil {
		return nightcrier.Errorf(nightcrier.CodeOf(recordErr), "%s %s %s/%s is done, and cannot be recorded: %w", w.Verb, w.Kind, w.Namespace, w.Name, recordErr)
	}
	return err
}

// deleteObject is kubectl_delete.
func (s *Set) deleteObject(ctx context.Context, a kubetool.Args) (string, any, error) {
	k, err := s.cfg.Policy.kindOf("kind", a.String("kind"))
	if err != nil {
		return "", nil, err
	}
	ns, name := a.String("namespace"), a.String("name")
	if err := cmp.Or(checkNamespace(s.cfg.Policy, ns), checkName("name", name)); err != nil {
		return "", nil, err
	}
	s.one.Lock()
	defer s.one.Unlock()
	obj, err := s.api.get(ctx, k, ns, name)
	switch {
	case err != nil:
		return "", nil, err
	case obj == nil:
		return fmt.Sprintf("%s %s/%s is not there (any more)\n", k.Name, ns, name), nil, nil
	case !isOurs(obj):
		return "", nil, nightcrier.Errorf(nightcrier.Refused, "%s %s/%s was not applied by this server but by %s, so it is not deleted", k.Name, ns, name, managersOf(obj))
	}
	w := s.newWrite(rand.Text(), "delete", k, ns, name)
	w.UID = kubetool.TextAt(obj, "metadata", "uid")
	err = s.recordWrite(w, func(w *Write) error {
		w.Outcome = deleted
		err := s.api.delete(ctx, k, ns, name, obj)
		if nightcrier.CodeOf(err) == nightcrier.NotFound {
			return nil
		}
		return err
	})
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%s %s/%s: deleted\n", k.Name, ns, name), nil, nil
}

func checkNamespace(p Policy, ns string) error {
	if !slices.Contains(p.Namespaces, ns) {
		return nightcrier.Errorf(nightcrier.Invalid, "argument namespace is missing: say which of %s", text.JoinWords(p.Namespaces, "and"))
	}
	return nil
}

// kindOf is the kind that a person means.
func (p Policy) kindOf(argument, word string) (kinds.Kind, error) {
	k, _ := kinds.Meant(word)
	if !slices.Contains(p.Kinds, k.Name) {
		return k, nightcrier.Errorf(nightcrier.Refused, "argument %s: this server knows only %s", argument, text.JoinWords(p.Kinds, "and"))
	}
	return k, nil
}
