package selftest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Fragments are texts in which a secret stands on a line of its own, and another line says
// what it is. They stand in a log, a ConfigMap, an annotation and events.

// fragmentPlaces are where each fragment stands, in the words of places.
var fragmentPlaces = []string{"annotation", "configmap", "event", "log"}

// fragment is a text with a secret.
type fragment struct {
	name string
	text func(secret string) string
}

// keyLine is a line of a private key.
const keyLine = "q1w2E3r4T5y6U7i8O9p0A1s2D3f4G5h6J7k8L9z0X1c2V3b4N5m6Q7w8E9r0T1y2"

// keyOf is a private key with a secret in its second line.
func keyOf(secret string) string {
	return "-----BEGIN RSA PRIVATE KEY-----\nMIIE" + keyLine[:60] + "\n" + secret + keyLine[:64-len(secret)] + "\n" + keyLine + "\n"
}

// fragments are all of them. The unfinished key comes last: nothing in a log says where it
// ends.
var fragments = []fragment{
	{"an environment", func(s string) string { return "env:\n- name: DB_PASSWORD\n  value: " + s + "\n" }},
	{"an environment as JSON", func(s string) string {
		return "{\n  \"name\": \"DB_PASSWORD\",\n  \"value\": \"" + s + "\"\n}\n"
	}},
	{"a value before its name", func(s string) string {
		return "{\n  \"default\": \"" + s + "\",\n  \"name\": \"DB_PASSWORD\"\n}\n"
	}},
	{"the URL of a connection", func(s string) string { return "dial\n  postgres://cart:" + s + "@db.example/cart\n" }},
	{"base64 of settings", func(s string) string { return "settings:\n  " + encodeBase64("mode=plain\ndb_password="+s+"\n") + "\n" }},
	{"a key", func(s string) string { return keyOf(s) + "aBcD3fgH==\n-----END RSA PRIVATE KEY-----\n" }},
	{"a manifest", func(s string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\nstringData:\n  any: " + s + "\ntype: Opaque\n"
	}},
	{"a manifest by alphabet", func(s string) string {
		return "apiVersion: v1\ndata:\n  any: " + encodeBase64(s) + "\nkind: Secret\nmetadata:\n  name: db\n"
	}},
	{"a manifest as JSON", func(s string) string {
		return "{\n    \"apiVersion\": \"v1\",\n    \"data\": {\n        \"any\": \"" + encodeBase64(s) + "\"\n    },\n    \"kind\": \"Secret\"\n}\n"
	}},
	{"a block of lines", func(s string) string {
		return "apiVersion: v1\nkind: Secret\nstringData:\n  file: |\n    first\n    " + s + "\ntype: Opaque\n"
	}},
	{"a table by commas", func(s string) string { return "id,user,password\n1,cart," + s + "\n" }},
	{"an answer", func(s string) string { return "Password:\n" + s + "\nwelcome\n" }},
	{"an unfinished key", keyOf},
}

// Where is where the canary of a fragment stands.
func (f fragment) placeIn(place string) string { return place + ", " + f.name }

// plantedPlaces are where all canaries stand.
func plantedPlaces() (all []string) {
	for place := range places {
		all = append(all, place)
	}
	for _, place := range fragmentPlaces {
		for _, f := range fragments {
			all = append(all, f.placeIn(place))
		}
	}
	slices.Sort(all)
	return all
}

// placeOf says by what read a canary comes to light.
func placeOf(where string) string {
	place, _, _ := strings.Cut(where, ", ")
	return places[place]
}

var fragmentMark = regexp.MustCompile(`(?m)^( *)@fragments:([a-z]+)@\n`)

// withFragments puts the fragments into the objects of the scripted cluster: as fields, or
// as events.
func (s *script) withFragments(objects string) string {
	return fragmentMark.ReplaceAllStringFunc(objects, func(mark string) string {
		words := fragmentMark.FindStringSubmatch(mark)
		indent, place := words[1], words[2]
		var out strings.Builder
		for i, f := range fragments {
			text := quotedJSON(f.text(s.canaryNamed(f.placeIn(place))))
			if place == "event" {
				fmt.Fprintf(&out, "- {apiVersion: v1, kind: Event, metadata: {name: cart-0.f%d, namespace: %s, uid: u-f%d, creationTimestamp: \"@now@\"}, type: Warning, reason: Said, message: %s, "+
					"count: 1, firstTimestamp: \"@now@\", lastTimestamp: \"@now@\", source: {component: kubelet, host: %s}, involvedObject: {apiVersion: v1, kind: Pod, name: %s, namespace: %s, uid: u-5}}\n",
					i, targetNamespace, i, text, targetNode, targetPod, targetNamespace)
				continue
			}
			fmt.Fprintf(&out, "%sfragment-%d: %s\n", indent, i, text)
		}
		return out.String()
	})
}

// logFragments are the fragments as lines of a log.
func (s *script) logFragments() string {
	var out strings.Builder
	for i, f := range fragments {
		fmt.Fprintf(&out, "step %d\n%s", i, f.text(s.canaryNamed(f.placeIn("log"))))
	}
	return out.String()
}

// partOrders read the parts of what holds fragments, in every form.
const partOrders = `
read the ConfigMap as JSON: kubectl get configmap settings -o json
read the ConfigMap by a path: kubectl get configmap settings -o jsonpath='{.data}'
describe the ConfigMap: kubectl describe configmap settings
read the Deployment as YAML: kubectl get deployment cart -o yaml
read the Deployment as JSON: kubectl get deployment cart -o json
read the Deployment, wide: kubectl get deployment cart -o wide
describe the Deployment: kubectl describe deployment cart
read events as YAML: kubectl get events -o yaml
read events as JSON: kubectl get events -o json
read events by a path: kubectl get events -o jsonpath='{.items[*].message}'
read events in order: kubectl events
read a log by its bytes: kubectl logs cart-0 --limit-bytes=300
read a log with times: kubectl logs cart-0 --timestamps
read a log since long: kubectl logs cart-0 --since=1h
read a log as it grows: timeout 20 kubectl logs cart-0 -f --tail=5
`

// logFlags are kubectl's ways to begin a log at one of its last lines.
var logFlags = []string{"--tail=%d", "--tail=%d --timestamps", "--since=%ds", "--tail=%d --prefix", "--previous --tail=%d", "--tail=%d --limit-bytes=80", "-f --tail=%d"}

// secretOrderList are the reads of all in which a secret is planted, among them of a log from
// the line on that holds a secret, without those that say so.
func (s *script) secretOrderList() []Order {
	all := parseOrders(secretOrders+partOrders, nil, true)
	for i, n := range s.secretLines() {
		command := "kubectl logs cart-0 " + fmt.Sprintf(logFlags[i%len(logFlags)], n)
		if strings.Contains(command, " -f ") {
			command = "timeout 20 " + command
		}
		all = append(all, Order{Name: fmt.Sprintf("read the last %d lines of a log", n), Command: command, Harmless: true})
	}
	return all
}

// secretLines says for each fragment of the log at which line from its end the secret stands.
func (s *script) secretLines() (all []int) {
	lines := strings.Split(strings.TrimSuffix(s.log, "\n"), "\n")
	for _, f := range fragments {
		secret := s.canaryNamed(f.placeIn("log"))
		for i, line := range lines {
			if findSecret(line, secret) != "" {
				all = append(all, len(lines)-i)
				break
			}
		}
	}
	return all
}

// redactedRaw reads through a guard, in this process, each part of the log that can be asked
// for, and all objects in each form that the API has.
func (b *Bench) redactedRaw(ctx context.Context, m masking) ([]Result, error) {
	d, err := b.Door()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	g, err := b.openGuard(d, m)
	if err != nil {
		return nil, err
	}
	defer g.server.Close()
	reads := b.script.partReads()
	b.Progress(fmt.Sprintf("redaction: %d reads through a guard", len(reads)))
	t := Trail{Door: d, Workspace: filepath.Join(b.Dir, "raw-"+randomHex(4))}
	for i, read := range reads {
		said, err := g.readThroughGuard(ctx, read)
		if err == nil {
			err = writeFile(filepath.Join(t.Workspace, fmt.Sprintf("%d %s", i, url.PathEscape(read.target))), said, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	return b.findLeaks(byRaw, Guard, t)
}

// partRead is one request.
type partRead struct{ target, accept string }

func (s *script) partReads() (all []partRead) {
	ns := "/api/v1/namespaces/" + targetNamespace
	for _, path := range []string{
		ns + "/configmaps", ns + "/configmaps/settings", ns + "/events", ns + "/secrets", ns + "/secrets/" + targetSecret, ns + "/secrets/" + targetHelm, ns + "/pods", ns + "/pods/" + targetPod,
		"/apis/apps/v1/namespaces/" + targetNamespace + "/deployments", "/apis/apps/v1/namespaces/" + targetNamespace + "/deployments/cart",
	} {
		for _, accept := range []string{"application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
			all = append(all, partRead{path, accept})
		}
	}
	for n := range strings.Count(s.log, "\n") + 1 {
		for _, part := range []string{"tailLines=%d", "sinceSeconds=%d", "tailLines=%d&timestamps=true", "sinceSeconds=%d&timestamps=true", "tailLines=%d&follow=true", "tailLines=%d&limitBytes=60", "tailLines=%d&previous=true"} {
			all = append(all, partRead{ns + "/pods/" + targetPod + "/log?" + fmt.Sprintf(part, n+1), "*/*"})
		}
	}
	for n := 40; n < len(s.log); n += 40 {
		all = append(all, partRead{ns + "/pods/" + targetPod + "/log?" + fmt.Sprintf("limitBytes=%d", n), "*/*"})
	}
	return all
}

// readThroughGuard makes one read through the guard.
func (g *guarded) readThroughGuard(ctx context.Context, r partRead) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://guard"+r.target, nil)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "selftest: %w", err)
	}
	req.Header.Set("Accept", r.accept)
	resp, err := g.guard.RoundTrip(req)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "selftest: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "selftest: %w", err)
	}
	return string(body), nil
}
