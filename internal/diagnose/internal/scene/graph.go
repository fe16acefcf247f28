package scene

import (
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Hold is how firmly one object needs another, the firmest last.
type Hold int

const (
	// BySetting: a setting names the other. Whether it is needed is not said.
	BySetting Hold = iota + 1
	// ByComplaint: a log line about a failure names the other.
	ByComplaint
	// ByMake: the objects themselves say that one is made of, or runs on, the other.
	ByMake
	// ByRule: a rule that found trouble says that it comes from there.
	ByRule
)

// link says that an object needs another.
type link struct {
	to   nightcrier.Object
	hold Hold
}

// Graph holds what each object needs.
type Graph map[nightcrier.Object][]link

// AddLink says that from needs to; of two such links the firmer stays.
func (g Graph) AddLink(from, to nightcrier.Object, h Hold) {
	if from == to || from.Name == "" || to.Name == "" {
		return
	}
	for i, l := range g[from] {
		if l.to == to {
			g[from][i].hold = max(l.hold, h)
			return
		}
	}
	g[from] = append(g[from], link{to, h})
}

// DrawGraph draws what the objects and the logs of the Scene say of each other.
func DrawGraph(s *Scene) Graph {
	if s.links == nil {
		s.links = s.linkObjects()
	}
	g := make(Graph, len(s.links))
	for o, links := range s.links {
		g[o] = slices.Clone(links)
	}
	g.linkComplaints(s)
	return g
}

// linkObjects draws what the objects say. A diagnosis asks for it each time that it has read
// more logs, and it is most of what a graph costs.
func (s *Scene) linkObjects() Graph {
	g := Graph{}
	for i := range s.Services {
		svc := &s.Services[i].Object
		for _, o := range UniteObjects(s.WorkloadsAbove(s.PodsBehind(svc)), s.WorkloadsBehind(svc.Namespace, svc.Name)) { // also those that have no Pods yet
			g.AddLink(ServiceObject(svc), o, ByMake)
		}
		for _, o := range s.WorkloadsBehind(svc.Namespace, svc.Name) { // also those that get no Pods
			g.AddLink(ServiceObject(svc), o, ByMake)
		}
	}
	for _, ing := range s.Ingresses {
		o := nightcrier.Object{Kind: "Ingress", Namespace: ing.Object.Namespace, Name: ing.Object.Name}
		if b := ing.Object.Spec.DefaultBackend; b != nil && b.Service != nil {
			g.AddLink(o, inNamespaceOf(o, "Service", b.Service.Name), ByMake)
		}
		for _, r := range ing.Object.Spec.Rules {
			if r.HTTP == nil {
				continue
			}
			for _, p := range r.HTTP.Paths {
				if p.Backend.Service != nil {
					g.AddLink(o, inNamespaceOf(o, "Service", p.Backend.Service.Name), ByMake)
				}
			}
		}
	}
	for _, h := range s.Autoscalers {
		o := nightcrier.Object{Kind: "HorizontalPodAutoscaler", Namespace: h.Object.Namespace, Name: h.Object.Name}
		g.AddLink(o, inNamespaceOf(o, h.Object.Spec.ScaleTargetRef.Kind, h.Object.Spec.ScaleTargetRef.Name), ByMake)
	}
	for _, c := range s.Claims {
		o := nightcrier.Object{Kind: "PersistentVolumeClaim", Namespace: c.Object.Namespace, Name: c.Object.Name}
		g.AddLink(o, nightcrier.Object{Kind: "PersistentVolume", Name: c.Object.Spec.VolumeName}, ByMake)
		if class := c.Object.Spec.StorageClassName; class != nil {
			g.AddLink(o, nightcrier.Object{Kind: "StorageClass", Name: *class}, ByMake)
		}
	}
	for _, ns := range s.PodNamespaces() {
		for w := range s.WorkloadsIn(ns) {
			g.linkParts(w.Object, w.Spec)
		}
	}
	for _, p := range s.Pods {
		g.linkPlaces(s, &p.Object)
	}
	g.linkServices(s)
	g.linkOthers(s)
	return g
}

func inNamespaceOf(o nightcrier.Object, kind, name string) nightcrier.Object {
	return nightcrier.Object{Kind: kind, Namespace: o.Namespace, Name: name}
}

// linkParts links a workload to what its Pods are made of.
func (g Graph) linkParts(o nightcrier.Object, spec *corev1.PodSpec) {
	need := func(kind, name string) { g.AddLink(o, inNamespaceOf(o, kind, name), ByMake) }
	need("ServiceAccount", spec.ServiceAccountName)
	NamesOfConfig(*spec, need)
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			need("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName)
		}
	}
}

// linkPlaces links what stands above a Pod to the Pod's claims, and to its node when the
// Pod is not ready.
func (g Graph) linkPlaces(s *Scene, p *corev1.Pod) {
	o := s.WorkloadAbove("Pod", p)
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			g.AddLink(o, inNamespaceOf(o, "PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName), ByMake)
		}
	}
	if !IsPodReady(p) && !IsFinished(p) {
		g.AddLink(o, nightcrier.Object{Kind: "Node", Name: p.Spec.NodeName}, ByMake)
	}
}

// linkServices links workloads to the Services that their settings name.
func (g Graph) linkServices(s *Scene) {
	all := s.AllClients()
	for i := range s.Services {
		svc := &s.Services[i].Object
		for _, c := range ClientsOf(svc, all) {
			g.AddLink(c.Object, ServiceObject(svc), BySetting)
		}
	}
}

// linkComplaints links workloads to the Services, and to the workloads that are not well,
// that their complaints name.
func (g Graph) linkComplaints(s *Scene) {
	down := s.downWorkloads()
	for _, l := range s.Logs {
		p := FindObject(s.Pods, l.Namespace, l.Pod)
		if p == nil {
			continue
		}
		from := s.WorkloadAbove("Pod", &p.Object)
		for _, line := range s.complaintsIn(l.Text) {
			for i := range s.Services {
				if svc := &s.Services[i].Object; speaksOf(line, l.Namespace, svc) {
					g.AddLink(from, ServiceObject(svc), ByComplaint)
				}
			}
			for _, o := range down {
				if o != from && o.Namespace == l.Namespace && namesWords(line, o.Name) {
					g.AddLink(from, o, ByComplaint)
				}
			}
		}
	}
}

// complaintsIn are the lines of a log that speak of trouble. Each graph needs those of all logs.
func (s *Scene) complaintsIn(log string) []string {
	lines, known := s.complaints[log]
	if known {
		return lines
	}
	for line := range strings.SplitSeq(log, "\n") {
		line = text.KeepBytes(line, 4*MaxQuote)
		if GraveWords.MatchString(line) || TellingWords.MatchString(line) {
			lines = append(lines, line)
		}
	}
	if s.complaints == nil {
		s.complaints = map[string][]string{}
	}
	s.complaints[log] = lines
	return lines
}

// downWorkloads are the workloads that have fewer ready Pods than they want.
func (s *Scene) downWorkloads() (out []nightcrier.Object) {
	for w := range s.AllControllers() {
		if r, known := s.ReplicasOf(w.Object); known && r.Ready < r.Want {
			out = append(out, w.Object)
		}
	}
	return out
}

// leastName is the shortest name of a workload that is looked for in what people write.
const leastName = 5

// namesWords reports whether a line has the words of a name, however they are joined:
// "Cilium Operator" is cilium-operator.
func namesWords(line, name string) bool {
	if len(name) < leastName {
		return false
	}
	joined := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return '-'
	}, line)
	return strings.Contains("-"+joined+"-", "-"+name+"-")
}

// serviceNamed matches the full name of a Service.
var serviceNamed = NewPattern(`\b([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\.([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\.svc\b`)

// CalledIn are the namespaces of the Services that the complaints of a workload name in full.
func (s *Scene) CalledIn(o nightcrier.Object) (list []string) {
	for _, l := range s.Logs {
		p := FindObject(s.Pods, l.Namespace, l.Pod)
		if p == nil || s.WorkloadAbove("Pod", &p.Object) != o || !strings.Contains(l.Text, ".svc") {
			continue
		}
		for _, line := range s.complaintsIn(l.Text) {
			for _, m := range serviceNamed.FindAllStringSubmatch(line, 8) {
				if !slices.Contains(list, m[2]) {
					list = append(list, m[2])
				}
			}
		}
	}
	return list
}

// speaksOf reports whether a line of a log in namespace ns names the Service as the
// other side of a connection.
func speaksOf(line, ns string, svc *corev1.Service) bool {
	if ip := svc.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone && strings.Contains(line, ip+":") {
		return true
	}
	if !strings.Contains(line, svc.Name) {
		return false
	}
	for _, m := range hostPort.FindAllStringSubmatch(line, 16) {
		if isServiceHost(m[1], ns, svc.Namespace, svc.Name) {
			return true
		}
	}
	for _, m := range hostURL.FindAllStringSubmatch(line, 16) {
		if isServiceHost(m[1], ns, svc.Namespace, svc.Name) {
			return true
		}
	}
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\"'`(),;[]{}=:", r) }) {
		whole := strings.Contains(word, ".") || strings.Contains(line, "lookup "+word) || strings.Contains(line, "host") || strings.Contains(line, "resolve")
		if whole && isServiceHost(word, ns, svc.Namespace, svc.Name) {
			return true
		}
	}
	return false
}

// maxSteps is how far trouble is followed.
const maxSteps = 8

// Way is how an object was reached: the first object on the way, and how firmly
// the way holds at its weakest.
type Way struct {
	First nightcrier.Object
	Hold  Hold
}

// ReachFrom returns every object that from needs, directly or not, by ways that hold at
// least so firmly; each by its firmest way. Cycles end where they began.
func (g Graph) ReachFrom(from nightcrier.Object, least Hold) map[nightcrier.Object]Way {
	found := map[nightcrier.Object]Way{}
	for h := ByRule; h >= least; h-- {
		type place struct{ at, first nightcrier.Object }
		edge := []place{{at: from}}
		seen := map[nightcrier.Object]bool{from: true}
		for range maxSteps {
			var next []place
			for _, p := range edge {
				for _, l := range g[p.at] {
					if l.hold < h || seen[l.to] {
						continue
					}
					seen[l.to] = true
					n := place{l.to, p.first}
					if n.first.Name == "" {
						n.first = l.to
					}
					if _, firmer := found[l.to]; !firmer {
						found[l.to] = Way{n.first, h}
					}
					next = append(next, n)
				}
			}
			edge = next
		}
	}
	return found
}
