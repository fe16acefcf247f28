package scene

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// WorkloadsBehind lists the workloads whose Pods a Service selects.
func (s *Scene) WorkloadsBehind(ns, name string) []nightcrier.Object {
	svc := FindObject(s.Services, ns, name)
	if svc == nil || !HasSelector(&svc.Object) {
		return nil
	}
	var out []nightcrier.Object
	for w := range s.WorkloadsIn(ns) {
		if MatchesPlainSelector(svc.Object.Spec.Selector, w.Labels) {
			out = append(out, w.Object)
		}
	}
	return out
}

// MatchesPlainSelector reports whether labels have all that a plain selector asks for.
func MatchesPlainSelector(selector, have map[string]string) bool {
	for k, v := range selector {
		if have[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// ServiceObject names a Service.
func ServiceObject(svc *corev1.Service) nightcrier.Object {
	return nightcrier.Object{Kind: "Service", Namespace: svc.Namespace, Name: svc.Name}
}

// HasSelector reports whether a Service finds its endpoints by a selector.
func HasSelector(svc *corev1.Service) bool {
	return len(svc.Spec.Selector) > 0 && svc.Spec.Type != corev1.ServiceTypeExternalName && svc.DeletionTimestamp == nil
}

// Webhook is an admission webhook: its name, the configuration that it stands in, and the Service
// that the API server calls for it, nil for an address elsewhere.
type Webhook struct {
	Name    string
	Object  nightcrier.Object
	Service *admissionv1.ServiceReference
	Ref     Ref
}

// AllWebhooks yields the webhooks of all configurations that were read.
func (s *Scene) AllWebhooks() iter.Seq[Webhook] {
	return func(yield func(Webhook) bool) {
		for _, c := range s.ValidatingWebhooks {
			for _, w := range c.Object.Webhooks {
				if !yield(Webhook{w.Name, nightcrier.Object{Kind: "ValidatingWebhookConfiguration", Name: c.Object.Name}, w.ClientConfig.Service, c.Ref}) {
					return
				}
			}
		}
		for _, c := range s.MutatingWebhooks {
			for _, w := range c.Object.Webhooks {
				if !yield(Webhook{w.Name, nightcrier.Object{Kind: "MutatingWebhookConfiguration", Name: c.Object.Name}, w.ClientConfig.Service, c.Ref}) {
					return
				}
			}
		}
	}
}

// PodsBehind returns the Pods of a Service that have not ended.
func (s *Scene) PodsBehind(svc *corev1.Service) []*Read[corev1.Pod] {
	var out []*Read[corev1.Pod]
	if !HasSelector(svc) {
		return nil
	}
	for p := range s.PodsMatching(svc.Namespace, labels.SelectorFromSet(svc.Spec.Selector)) {
		if !IsFinished(&p.Object) {
			out = append(out, p)
		}
	}
	return out
}

// WorkloadsAbove returns the workloads that Pods belong to, each once.
func (s *Scene) WorkloadsAbove(pods []*Read[corev1.Pod]) []nightcrier.Object {
	var out []nightcrier.Object
	for _, p := range pods {
		if o := s.WorkloadAbove("Pod", &p.Object); !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// address is a host that a workload's configuration names, and the port if one
// stands with it.
type address struct {
	Host string
	Port int32
	// Observation says where it stands.
	Observation
}

// MaxSetting is how much of one value of a configuration is read, in bytes.
const MaxSetting = 64 << 10

var (
	hostPort = NewPattern(`(?:^|[^\w.-])([a-zA-Z][a-zA-Z0-9-]{0,62}(?:\.[a-zA-Z0-9-]{1,63}){0,5}):(\d{2,5})(?:$|\D)`)
	hostURL  = NewPattern(`\b[a-z][a-z0-9+]{1,15}://(?:[^\s/@"']{1,200}@)?([a-zA-Z][a-zA-Z0-9-]{0,62}(?:\.[a-zA-Z0-9-]{1,63}){0,5})(?:[/?"'\s]|$)`)
	bareHost = NewPattern(`^[a-zA-Z][a-zA-Z0-9-]{0,62}(?:\.[a-zA-Z0-9-]{1,63}){0,5}$`)
)

// AddressesOf returns what the workload is configured to connect to: the hosts in
// its variables and arguments, and in the ConfigMaps that it reads.
func (s *Scene) AddressesOf(w PodMaker) []address {
	var out []address
	for name, v := range s.SettingsOfMaker(w) {
		v.Quote = text.KeepBytes(v.Quote, MaxSetting)
		found := s.hostsIn(v.Quote)
		for _, m := range found.withPort {
			port, _ := strconv.ParseInt(m[2], 10, 32)
			out = append(out, address{m[1], int32(port), withQuote(v, m[1]+":"+m[2])})
		}
		for _, m := range found.inURL {
			out = append(out, address{m[1], 0, withQuote(v, m[1])})
		}
		// A lone word is a host only where its name says so, or it would be any word.
		if found.bare && (hostName.MatchString(name) || strings.Contains(v.Quote, ".svc")) {
			out = append(out, address{v.Quote, 0, v})
		}
	}
	return out
}

// hosts are those that a text names, as the expressions find them.
type hosts struct {
	withPort, inURL [][]string
	bare            bool // the text may be one
}

// hostsIn are the hosts that a setting names. Many rules ask for those of all workloads, so
// each text is looked through once.
func (s *Scene) hostsIn(setting string) hosts {
	found, known := s.hosts[setting]
	if !known {
		found = hosts{hostPort.FindAllStringSubmatch(setting, 64), hostURL.FindAllStringSubmatch(setting, 64), bareHost.MatchString(setting)}
		if s.hosts == nil {
			s.hosts = map[string]hosts{}
		}
		s.hosts[setting] = found
	}
	return found
}

var hostName = NewPattern(`(?i)host|addr|server|url|uri|endpoint|service|broker|upstream|target|peer`)

func withQuote(o Observation, quote string) Observation { o.Quote = quote; return o }

// SettingsOfMaker yields every value that configures the workload, with the name under
// which it stands there. The quote is the whole value.
func (s *Scene) SettingsOfMaker(w PodMaker) func(yield func(string, Observation) bool) {
	return func(yield func(string, Observation) bool) {
		for _, c := range slices.Concat(w.Spec.InitContainers, w.Spec.Containers) {
			for _, e := range c.Env {
				o := Observation{Text: "variable " + e.Name + " of " + w.Object.String(), Quote: e.Value, Ref: w.Ref}
				if e.Value != "" && !yield(e.Name, o) {
					return
				}
			}
			for _, a := range slices.Concat(c.Command, c.Args) {
				if !yield("", Observation{Text: "arguments of container " + c.Name + " of " + w.Object.String(), Quote: a, Ref: w.Ref}) {
					return
				}
			}
		}
		for _, cm := range s.ConfigMaps {
			if cm.Object.Namespace != w.Object.Namespace || !UsesConfigMap(w.Spec, cm.Object.Name) {
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(cm.Object.Data)) {
				o := Observation{Text: "key " + key + " of ConfigMap " + cm.Object.Name, Quote: cm.Object.Data[key], Ref: cm.Ref}
				if !yield(key, o) {
					return
				}
			}
		}
	}
}

// UsesConfigMap reports whether a Pod mounts a ConfigMap or has environment of it.
func UsesConfigMap(spec *corev1.PodSpec, name string) bool {
	for _, v := range spec.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name == name {
			return true
		}
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool {
			return p.ConfigMap != nil && p.ConfigMap.Name == name
		}) {
			return true
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, e := range c.EnvFrom {
			if e.ConfigMapRef != nil && e.ConfigMapRef.Name == name {
				return true
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil && e.ValueFrom.ConfigMapKeyRef.Name == name {
				return true
			}
		}
	}
	return false
}

// isServiceHost reports whether host, used in namespace from, is the Service name in ns,
// or a Pod below it.
func isServiceHost(host, from, ns, name string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == name {
		return from == ns
	}
	full := name + "." + ns
	if host == full || host == full+".svc" || strings.HasPrefix(host, full+".svc.") {
		return true
	}
	pod, rest, ok := strings.Cut(host, ".")
	return ok && podOrdinal.MatchString(pod) && isServiceHost(rest, from, ns, name)
}

// podOrdinal ends the name of a StatefulSet's Pod.
var podOrdinal = NewPattern(`-\d{1,4}$`)

// Client is a workload, and an address that it is configured to connect to.
type Client struct {
	PodMaker
	address
}

// AllClients returns every address that any workload is configured to connect to.
func (s *Scene) AllClients() []Client {
	if s.clients != nil {
		return s.clients
	}
	s.clients = []Client{}
	for _, ns := range s.PodNamespaces() {
		for w := range s.WorkloadsIn(ns) {
			for _, a := range s.AddressesOf(w) {
				s.clients = append(s.clients, Client{w, a})
			}
		}
	}
	return s.clients
}

// ClientsOf picks those of a Service, each workload once for every port.
func ClientsOf(svc *corev1.Service, all []Client) []Client {
	type key struct {
		object nightcrier.Object
		port   int32
	}
	var out []Client
	seen := map[key]bool{}
	for _, c := range all {
		k := key{c.Object, c.Port}
		if isServiceHost(c.Host, c.Object.Namespace, svc.Namespace, svc.Name) && !seen[k] {
			seen[k] = true
			out = append(out, c)
		}
	}
	return out
}

// PodNamespaces are those that anything with Pods was read of.
func (s *Scene) PodNamespaces() []string {
	seen := map[string]bool{}
	for w := range s.AllControllers() {
		seen[w.Object.Namespace] = true
	}
	for _, p := range s.Pods {
		seen[p.Object.Namespace] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// ReadyEndpoints counts the ready endpoints of a Service; known is false when
// they were not read.
func (s *Scene) ReadyEndpoints(svc *corev1.Service) (ready int, known bool) {
	known = s.Complete("EndpointSlice", svc.Namespace)
	for _, sl := range s.EndpointSlices {
		if sl.Object.Namespace != svc.Namespace || sl.Object.Labels["kubernetes.io/service-name"] != svc.Name {
			continue
		}
		known = true
		for _, e := range sl.Object.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready++
			}
		}
	}
	return ready, known
}

// DescribePorts are the ports of a Service, by number and name.
func DescribePorts(svc *corev1.Service) string {
	var out []string
	for _, p := range svc.Spec.Ports {
		port := fmt.Sprint(p.Port)
		if p.Name != "" {
			port += " (" + p.Name + ")"
		}
		out = append(out, port)
	}
	return text.CutLine(strings.Join(out, ", "), MaxQuote)
}

// MatchesSelector reports whether a selector selects what has these labels.
func MatchesSelector(sel *metav1.LabelSelector, l map[string]string) bool {
	if sel != nil && len(sel.MatchExpressions) == 0 { // making a selector of it takes far longer than this
		for name, value := range sel.MatchLabels {
			if have, ok := l[name]; !ok || have != value {
				return false
			}
		}
		return true
	}
	compiled, err := metav1.LabelSelectorAsSelector(sel)
	return err == nil && compiled.Matches(labels.Set(l))
}
