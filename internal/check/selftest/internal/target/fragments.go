package target

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// places says by what read each canary comes to light: a part of a request's path.
var places = map[string]string{
	"annotation": "/deployments", "argument": "/pods", "bearer": "/log", "configmap": "/configmaps", "env": "/pods", "event": "/events", "helm": "/secrets",
	"log": "/log", "properties": "/configmaps", "secret": "/secrets", "status": "/pods", "url": "/pods",
}

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

// placeIn is where the canary of a fragment stands.
func (f fragment) placeIn(place string) string { return place + ", " + f.name }

// PlantedPlaces are where all canaries stand.
func PlantedPlaces() (all []string) {
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

// PathOf says by what read a canary comes to light.
func PathOf(where string) string {
	place, _, _ := strings.Cut(where, ", ")
	return places[place]
}

var fragmentMark = regexp.MustCompile(`(?m)^( *)@fragments:([a-z]+)@\n`)

// withFragments puts the fragments into the objects of the scripted cluster: as fields, or
// as events.
func (s *Script) withFragments(objects string) string {
	return fragmentMark.ReplaceAllStringFunc(objects, func(mark string) string {
		words := fragmentMark.FindStringSubmatch(mark)
		indent, place := words[1], words[2]
		var out strings.Builder
		for i, f := range fragments {
			text := quotedJSON(f.text(s.canaryNamed(f.placeIn(place))))
			if place == "event" {
				fmt.Fprintf(&out, "- {apiVersion: v1, kind: Event, metadata: {name: cart-0.f%d, namespace: %s, uid: u-f%d, creationTimestamp: \"@now@\"}, type: Warning, reason: Said, message: %s, "+
					"count: 1, firstTimestamp: \"@now@\", lastTimestamp: \"@now@\", source: {component: kubelet, host: %s}, involvedObject: {apiVersion: v1, kind: Pod, name: %s, namespace: %s, uid: u-5}}\n",
					i, Namespace, i, text, Node, Pod, Namespace)
				continue
			}
			fmt.Fprintf(&out, "%sfragment-%d: %s\n", indent, i, text)
		}
		return out.String()
	})
}

// logFragments are the fragments as lines of a log.
func (s *Script) logFragments() string {
	var out strings.Builder
	for i, f := range fragments {
		fmt.Fprintf(&out, "step %d\n%s", i, f.text(s.canaryNamed(f.placeIn("log"))))
	}
	return out.String()
}

// SecretLines says for each fragment of the log at which line from its end the secret stands.
func (s *Script) SecretLines() (all []int) {
	lines := strings.Split(strings.TrimSuffix(s.Log, "\n"), "\n")
	for _, f := range fragments {
		secret := NewSieve([]Canary{{Value: s.canaryNamed(f.placeIn("log"))}})
		for i, line := range lines {
			if len(secret.FindIn(line)) > 0 {
				all = append(all, len(lines)-i)
				break
			}
		}
	}
	return all
}
