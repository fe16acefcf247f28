package pods

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

// endpoint is the other end of a connection, as a program names it.
type endpoint struct {
	host string
	port int32 // 0 if it is not named
}

func (e endpoint) String() string {
	if e.port == 0 {
		return e.host
	}
	return fmt.Sprintf("%s:%d", e.host, e.port)
}

const hostPattern = `((?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})\.){0,8}[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})\.?)`

// endpointWordings are the ways in which programs name the other end, the
// surest first: a host, and a port if there is a second group.
var endpointWordings = []*scene.Pattern{
	scene.NewPattern(`lookup ` + hostPattern + `(?: on \S+)?:`),
	scene.NewPattern(`dial (?:tcp|udp)[46]?:? ` + hostPattern + `:(\d{1,5})`),
	scene.NewPattern(`(?:getaddrinfo|query\w+) (?:ENOTFOUND|EAI_AGAIN|EAI_NONAME) ` + hostPattern + `(?::(\d{1,5}))?`),
	scene.NewPattern(`connect (?:ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH) ` + hostPattern + `:(\d{1,5})`),
	scene.NewPattern(`UnknownHostException: ` + hostPattern),
	scene.NewPattern(`(?i)host='` + hostPattern + `', port=(\d{1,5})`),
	scene.NewPattern(`(?i)connection to server at "` + hostPattern + `"[^,]{0,60}, port (\d{1,5})`),
	scene.NewPattern(`(?i)(?:host name|upstream|hostname|host) ["'\\]{1,2}` + hostPattern + `["'\\:]`),
	scene.NewPattern(`(?i)server on ["']` + hostPattern + `(?::(\d{1,5}))?["']`),
	scene.NewPattern(`(?i)bad address '` + hostPattern + `(?::(\d{1,5}))?'`),
	scene.NewPattern(`[a-z][a-z0-9+:]{1,24}://(?:[^@/\s"']{0,128}@)?` + hostPattern + `(?::(\d{1,5}))?`),
	scene.NewPattern(`(?i)(?:resolve(?: host:?)?|host:|unknown host|connect to|Connection to|connecting to|redis at|lookup) '?"?` + hostPattern + `(?::(\d{1,5}))?`),
	scene.NewPattern(`\b` + hostPattern + `:(\d{2,5})\b`),
}

// notHosts are words that stand where a host may, and are none.
var notHosts = []string{"host", "the", "server", "mysql", "localhost", "database", "db_host", "address", "tcp", "http", "https", "error", "upstream", "line"}

// endpointIn finds the other end that a line of a log names.
func endpointIn(line string) (endpoint, bool) {
	for i, w := range endpointWordings {
		for _, m := range w.FindAllStringSubmatch(line, 4) {
			e := endpoint{host: strings.TrimSuffix(m[1], ".")}
			if len(m) > 2 {
				e.port = portOf(m[2])
			}
			sure := i < len(endpointWordings)-2
			if slices.Contains(notHosts, strings.ToLower(e.host)) || !sure && sourcePosition(e.host) {
				continue
			}
			return e, true
		}
	}
	return endpoint{}, false
}

// sourcePosition matches what looks like host:port in a log but is a place in a
// program or a time.
func sourcePosition(host string) bool {
	i := strings.LastIndexByte(host, '.')
	if i >= 0 && slices.Contains([]string{"go", "py", "js", "ts", "java", "cs", "rb", "cc", "cpp", "rs", "php", "kt", "scala", "conf", "yaml", "yml", "json"}, host[i+1:]) {
		return true
	}
	_, err := strconv.Atoi(host)
	return err == nil || strings.HasPrefix(host, "20") && strings.Contains(host, "T")
}

func portOf(s string) int32 {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return int32(n)
}

// inCluster splits a name into Service and namespace as a Pod in ns resolves it.
// sure is set when it can be nothing but a Service.
func (e endpoint) inCluster(ns string) (name, namespace string, sure bool) {
	parts := strings.Split(strings.ToLower(e.host), ".")
	if i := slices.Index(parts, "svc"); i >= 2 {
		return parts[i-2], parts[i-1], true
	}
	switch len(parts) {
	case 1:
		return parts[0], ns, true
	case 2:
		return parts[0], parts[1], false
	}
	return "", "", false
}

// serviceAt is the Service that a Pod in ns reaches by e, nil if none is known.
func serviceAt(s *scene.Scene, ns string, e endpoint) *scene.Read[corev1.Service] {
	if addr, err := netip.ParseAddr(e.host); err == nil {
		return serviceWithAddress(s, ns, addr.String())
	}
	name, in, _ := e.inCluster(ns)
	if svc := scene.FindObject(s.Services, in, name); svc != nil || !strings.Contains(e.host, ".") {
		return svc
	}
	// one Pod of a headless Service: db-0.db
	if _, rest, ok := strings.Cut(e.host, "."); ok {
		name, in, _ = endpoint{host: rest}.inCluster(ns)
		if svc := scene.FindObject(s.Services, in, name); svc != nil && svc.Object.Spec.ClusterIP == corev1.ClusterIPNone {
			return svc
		}
	}
	return nil
}

// serviceWithAddress is the Service whose cluster address it is, or the one that
// selects the Pod whose address it is.
func serviceWithAddress(s *scene.Scene, ns, addr string) *scene.Read[corev1.Service] {
	for i, svc := range s.Services {
		if svc.Object.Spec.ClusterIP == addr || slices.Contains(svc.Object.Spec.ClusterIPs, addr) {
			return &s.Services[i]
		}
	}
	for i, svc := range s.Services {
		if svc.Object.Namespace != ns || len(svc.Object.Spec.Selector) == 0 {
			continue
		}
		for p := range s.PodsMatching(ns, labels.SelectorFromSet(svc.Object.Spec.Selector)) {
			if p.Object.Status.PodIP == addr {
				return &s.Services[i]
			}
		}
	}
	return nil
}

// missingIn reports whether e can only be a Service, and there is none: all
// Services of its namespace were read.
func (e endpoint) missingIn(s *scene.Scene, pod *scene.Read[corev1.Pod]) bool {
	if _, err := netip.ParseAddr(e.host); err == nil || e.host == "localhost" {
		return false
	}
	spec := pod.Object.Spec
	alias := slices.ContainsFunc(spec.HostAliases, func(a corev1.HostAlias) bool { return slices.Contains(a.Hostnames, e.host) })
	name, ns, sure := e.inCluster(pod.Object.Namespace)
	own := name == pod.Object.Name || name == spec.Hostname || name == spec.NodeName
	return sure && !alias && !own && s.Complete("Service", ns) && serviceAt(s, pod.Object.Namespace, e) == nil
}

// noSuchService says that e names no Service, and which one it may mean.
func noSuchService(s *scene.Scene, ns string, e endpoint) string {
	name, in, _ := e.inCluster(ns)
	out := fmt.Sprintf(", but there is no Service %s in namespace %s", name, in)
	if near := likelyMeant(s, name, in); near != "" {
		out += " (" + near + " is meant?)"
	}
	return out
}

// likelyMeant is the Service of a namespace whose name is most like one that does not exist.
func likelyMeant(s *scene.Scene, name, ns string) string {
	var names []string
	for _, svc := range s.Services {
		if svc.Object.Namespace == ns {
			names = append(names, svc.Object.Name)
		}
	}
	return nearestName(name, names)
}

// lackOfService is the Service that e names and that does not exist, nil where another
// is meant: that is a slip of whoever names it.
func lackOfService(s *scene.Scene, ns string, e endpoint) *scene.Lack {
	name, in, _ := e.inCluster(ns)
	if likelyMeant(s, name, in) != "" {
		return nil
	}
	return &scene.Lack{Object: nightcrier.Object{Kind: "Service", Namespace: in, Name: name}}
}

// isOutsideCluster reports whether e, which names no Service, lies outside of the cluster: it
// is a full name that nothing in the cluster has.
func isOutsideCluster(s *scene.Scene, ns string, e endpoint) bool {
	_, _, sure := e.inCluster(ns)
	_, notAddress := netip.ParseAddr(e.host)
	return !sure && notAddress != nil && strings.Count(e.host, ".") >= 2
}

// nearestName is the name that differs least from want, "" when none is like it.
func nearestName(want string, names []string) string {
	best, least := "", max(2, len(want)/4)+1
	for _, n := range names {
		if n == want {
			continue
		}
		d := text.CountEdits(want, n)
		if strings.HasPrefix(n, want) || strings.HasPrefix(want, n) || strings.HasSuffix(n, "-"+want) || strings.HasSuffix(want, "-"+n) {
			d = min(d, 1)
		}
		if d < least {
			best, least = n, d
		}
	}
	return best
}

// setting is one value that a container is configured with, and where from.
type setting struct {
	name, value string
	text        string // "env CART_ADDR", "env CART_ADDR (ConfigMap cart-conf, key addr)", "its arguments"
	objects     []nightcrier.Object
	ref         scene.Ref
}

// settingsOf are the environment variables and arguments of a container, those
// from ConfigMaps as far as the Scene has them. Secrets have no values.
func settingsOf(s *scene.Scene, c scene.Container) []setting {
	ns := c.Pod.Object.Namespace
	var out []setting
	for _, from := range c.Spec.EnvFrom {
		if from.ConfigMapRef == nil {
			continue
		}
		cm := scene.FindObject(s.ConfigMaps, ns, from.ConfigMapRef.Name)
		if cm == nil {
			continue
		}
		for _, key := range sortedKeys(cm.Object.Data) {
			out = append(out, fromConfigMap(from.Prefix+key, key, cm))
		}
	}
	for _, e := range c.Spec.Env {
		switch {
		case e.ValueFrom == nil:
			out = append(out, setting{name: e.Name, value: e.Value, text: "env " + e.Name, ref: c.Pod.Ref})
		case e.ValueFrom.ConfigMapKeyRef != nil:
			r := e.ValueFrom.ConfigMapKeyRef
			if cm := scene.FindObject(s.ConfigMaps, ns, r.Name); cm != nil {
				out = append(out, fromConfigMap(e.Name, r.Key, cm))
			}
		}
	}
	for _, a := range slices.Concat(c.Spec.Command, c.Spec.Args) {
		out = append(out, setting{value: a, text: "its arguments", ref: c.Pod.Ref})
	}
	return out
}

func fromConfigMap(env, key string, cm *scene.Read[corev1.ConfigMap]) setting {
	o := cm.Object
	return setting{
		name: env, value: o.Data[key], text: fmt.Sprintf("env %s (ConfigMap %s, key %s)", env, o.Name, key), ref: cm.Ref,
		objects: []nightcrier.Object{{Kind: "ConfigMap", Namespace: o.Namespace, Name: o.Name}},
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}

// sourceOf is the setting of a container that names host, the zero one if none
// does.
func sourceOf(s *scene.Scene, c scene.Container, host string) setting {
	whole := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(host) + `($|[^\w.-])`)
	for _, v := range settingsOf(s, c) {
		if whole.MatchString(text.KeepBytes(v.value, 4096)) {
			return v
		}
	}
	return setting{}
}

var (
	addressName  = scene.NewPattern(`(?i)(^|_)(host|hostname|addr|address|url|uri|endpoint|server|servers|broker|brokers|bootstrap_servers|dsn|service|upstream|backend)$`)
	addressValue = scene.NewPattern(`^(?:[a-z][a-z0-9+:]{1,24}://)?(?:[^@/\s]{0,128}@)?` + hostPattern + `(?::(\d{1,5}))?(?:[/?].*)?$`)
)

// parseEndpoint reads the address that a setting gives: a variable named like one with
// nothing else in it, or a URL. A bare word of another variable is no host.
func (v setting) parseEndpoint() (endpoint, bool) {
	value := text.KeepBytes(strings.TrimSpace(v.value), 1024)
	m := addressValue.FindStringSubmatch(value)
	if m == nil {
		return endpoint{}, false
	}
	e := endpoint{host: strings.TrimSuffix(m[1], "."), port: portOf(m[2])}
	url := strings.Contains(value, "://")
	named := addressName.MatchString(v.name)
	letters := strings.ContainsFunc(e.host, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
	if !letters || strings.Contains(e.host, "_") || slices.Contains(notHosts, strings.ToLower(e.host)) || !url && !(named && (e.port != 0 || strings.Contains(e.host, ".svc"))) && !hostNamed(v.name) {
		return endpoint{}, false
	}
	return e, true
}

// hostNamed reports whether a variable of that name holds nothing but a host.
func hostNamed(name string) bool {
	n := strings.ToLower(name)
	return strings.HasSuffix(n, "_host") || strings.HasSuffix(n, "_hostname") || n == "pghost"
}
