package pods

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var (
	// serverFull matches what a client, or the server, says when all connections are taken.
	serverFull = scene.NewPattern(`(?i)too many (?:client )?connections|too many clients already|remaining connection slots are reserved|ER_CON_COUNT_ERROR|connection limit exceeded|max(?:imum)? number of (?:clients|connections) (?:reached|exceeded)`)
	// poolSize matches the names of settings that say how many connections a process keeps.
	poolSize = scene.NewPattern(`(?i)(?:POOL|CONN(?:ECTION)?S?)\w*_?(?:MAX|MIN|SIZE|LIMIT)|(?:MAX|MIN)\w*_?(?:POOL|(?:OPEN_|IDLE_|DB_)CONN)\w*`)
	// serverLimit matches where a server is told how many connections it takes.
	serverLimit = scene.NewPattern(`(?i)\bmax[_-]?(?:user[_-])?connections\b["']?\s*[=: ]\s*["']?(\d{1,6})\b`)
)

// pool is what the Pods of a workload may keep of connections to a server.
type pool struct {
	of   nightcrier.Object
	size int // of one Pod
	pods int
	by   setting
}

func (p pool) all() int { return p.size * p.pods }

// connectionsHeld finds who uses up the connections of a server of which somebody says that it
// takes no more: the workload whose pools, of all its Pods together, are most of them. Where the
// pools together do not come near the server's limit, somebody leaks them, which this does
// not tell.
func connectionsHeld(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	if !slices.ContainsFunc(s.Logs, func(l scene.LogExcerpt) bool { return serverFull.MatchString(l.Text) }) {
		return nil
	}
	for i := range s.Services {
		svc := &s.Services[i]
		clients := scene.ClientsOf(&svc.Object, s.AllClients())
		said, victims := saidFull(s, svc, clients)
		if len(clients) == 0 || said.Quote == "" {
			continue
		}
		var pools []pool
		sum := 0
		for _, c := range clients {
			if p, known := poolOf(s, c.Object); known && !slices.ContainsFunc(pools, func(o pool) bool { return o.of == p.of }) {
				pools = append(pools, p)
				sum += p.all()
			}
		}
		if len(pools) == 0 {
			continue
		}
		most := slices.MaxFunc(pools, func(a, b pool) int { return a.all() - b.all() })
		limit, told := limitOf(s, svc)
		if 2*most.all() <= sum || told.Quote != "" && sum < limit || told.Quote == "" && most.all() < 50 {
			continue
		}
		out = append(out, heldFinding(svc, most, sum, limit, slices.DeleteFunc(victims, func(o nightcrier.Object) bool { return o == most.of }), []scene.Observation{said, told}))
	}
	return out
}

// saidFull is a line of a client, or of the server itself, that says that all connections are
// taken, and the clients that say so.
func saidFull(s *scene.Scene, svc *scene.Read[corev1.Service], clients []scene.Client) (said scene.Observation, victims []nightcrier.Object) {
	servers := s.WorkloadsBehind(svc.Object.Namespace, svc.Object.Name)
	for _, l := range s.Logs {
		p := scene.FindObject(s.Pods, l.Namespace, l.Pod)
		if p == nil || !serverFull.MatchString(l.Text) {
			continue
		}
		o := s.WorkloadAbove("Pod", &p.Object)
		isClient := slices.ContainsFunc(clients, func(c scene.Client) bool { return c.Object == o })
		if !isClient && !slices.Contains(servers, o) {
			continue
		}
		for line := range strings.Lines(l.Text) {
			if line = text.KeepBytes(strings.TrimSpace(line), 4*scene.MaxQuote); serverFull.MatchString(line) && said.Quote == "" {
				said = scene.Observation{Text: "the log of Pod " + l.Pod + " says that all connections are taken", Quote: text.CutMiddle(line, scene.MaxQuote), Ref: scene.Ref{Evidence: l.Evidence, Source: l.Source}}
			}
		}
		if isClient && !slices.Contains(victims, o) {
			victims = append(victims, o)
		}
	}
	return said, victims
}

// poolOf is what the running Pods of a workload may keep, by the largest setting that says so.
func poolOf(s *scene.Scene, o nightcrier.Object) (pool, bool) {
	found := pool{of: o}
	for p := range s.PodsBelow(o) {
		if scene.IsFinished(&p.Object) || p.Object.DeletionTimestamp != nil {
			continue
		}
		found.pods++
		for _, c := range scene.PodContainers(p) {
			for _, v := range settingsOf(s, c) {
				if n, err := strconv.Atoi(v.value); err == nil && poolSize.MatchString(v.name) && n > found.size && n < 10_000 {
					found.size, found.by = n, v
				}
			}
		}
	}
	return found, found.all() > 0
}

// limitOf is how many connections the server behind a Service takes, by its settings.
func limitOf(s *scene.Scene, svc *scene.Read[corev1.Service]) (int, scene.Observation) {
	found := func(value, where string, ref scene.Ref) (int, scene.Observation) {
		m := serverLimit.FindStringSubmatch(value)
		if m == nil {
			return 0, scene.Observation{}
		}
		n, _ := strconv.Atoi(m[1]) // of a few digits, by the pattern
		return n, scene.Observation{Text: fmt.Sprintf("%s takes %d connections, by %s", scene.ServiceObject(&svc.Object), n, where), Quote: m[0], Ref: ref}
	}
	for _, p := range s.PodsBehind(&svc.Object) {
		for _, c := range scene.PodContainers(p) {
			for _, v := range settingsOf(s, c) {
				if n, o := found(v.name+"="+v.value, v.text, v.ref); n > 0 {
					return n, o
				}
				if n, o := found(v.value, v.text, v.ref); n > 0 {
					return n, o
				}
			}
		}
		for i := range s.ConfigMaps {
			cm := &s.ConfigMaps[i]
			if cm.Object.Namespace != p.Object.Namespace || !scene.UsesConfigMap(&p.Object.Spec, cm.Object.Name) {
				continue
			}
			for _, key := range sortedKeys(cm.Object.Data) {
				if n, o := found(cm.Object.Data[key], "ConfigMap "+cm.Object.Name, cm.Ref); n > 0 {
					return n, o
				}
			}
		}
	}
	return 0, scene.Observation{}
}

func heldFinding(svc *scene.Read[corev1.Service], most pool, sum, limit int, victims []nightcrier.Object, seen []scene.Observation) scene.Finding {
	server := scene.ServiceObject(&svc.Object)
	n := scene.Finding{
		Cause: "connections-exhausted", Object: most.of, Confidence: nightcrier.High, Affected: victims, Rank: scene.RankStated + 1, Why: seen[0].Quote,
		Summary: fmt.Sprintf("%s uses up the connections of %s: %s is %d, and %s may open %d of the %d that all clients may; what is said: %s",
			most.of, server, most.by.text, most.size, text.CountNoun(most.pods, "Pod"), most.all(), sum, seen[0].Quote),
		WrongIf: "its pool is hardly used, and another client leaks connections",
		Test:    scene.DescribeTest(most.of).DecidesBetween("its setting and its Pods are as many", "they are fewer"),
		Actions: []scene.Step{
			{Action: fmt.Sprintf("Lower %s of %s, now %d, and restart its %d Pods", most.by.text, most.of, most.size, most.pods), Do: scene.DoEdit, Outcome: "the other clients get connections again", Risk: "it may wait for connections of its own under load"},
			{Action: "Raise the limit of " + server.String() + ", or put a pooler before it", Outcome: "there is room for all pools together", Risk: "each connection takes memory of the server"},
		},
	}
	if len(most.by.objects) > 0 {
		n.Actions[0].On = most.by.objects[0]
	}
	n.Observed = []scene.Observation{seen[0], {Text: fmt.Sprintf("each of %d Pods of %s keeps up to %d connections, by %s", most.pods, most.of, most.size, most.by.text), Quote: fmt.Sprint(most.size), Ref: most.by.ref}}
	if limit == 0 {
		n.Confidence = nightcrier.Medium
		return n
	}
	n.Summary = strings.Replace(n.Summary, "; what is said", fmt.Sprintf(", where it takes %d; what is said", limit), 1)
	n.Observed = append(n.Observed, seen[1])
	return n
}
