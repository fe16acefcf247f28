package deploy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/text"
)

// maxListed bounds what a listing shows.
const maxListed = 100

// getObjects is kubectl_get: of what was applied here, and of its Pods.
func (s *Set) getObjects(ctx context.Context, a kubetool.Args) (string, any, error) {
	word, ns, name := a.String("resource"), a.String("namespace"), a.String("name")
	k, _ := kinds.Meant(word)
	if k.Name != "Pod" {
		var err error
		if k, err = s.cfg.Policy.kindOf("resource", word); err != nil {
			return "", nil, err
		}
	}
	if err := checkNamespace(s.cfg.Policy, ns); err != nil {
		return "", nil, err
	}
	if name == "" {
		return s.listObjects(ctx, k, ns)
	}
	if err := checkName("argument name", name); err != nil {
		return "", nil, err
	}
	obj, err := s.api.get(ctx, k, ns, name)
	switch {
	case err != nil:
		return "", nil, err
	case obj == nil:
		return "", nil, nightcrier.Errorf(nightcrier.NotFound, "there is no %s %s/%s", k.Name, ns, name)
	case kubetool.TextAt(obj, "metadata", "labels", Mark) != Manager:
		return "", nil, nightcrier.Errorf(nightcrier.Refused, "%s %s/%s was not applied by this server, which shows nothing else", k.Name, ns, name)
	}
	delete(kubetool.MapAt(obj, "metadata"), "managedFields")
	b, err := yaml.Dump(obj, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return "", nil, nightcrier.Errorf(nightcrier.Internal, "write the object: %w", err)
	}
	return string(b) + strings.Join(urlLines(obj), ""), nil, nil
}

func urlLines(obj map[string]any) (lines []string) {
	for _, u := range urlsOf(obj) {
		lines = append(lines, "# URL: "+u+"\n")
	}
	return lines
}

func (s *Set) listObjects(ctx context.Context, k kinds.Kind, ns string) (string, any, error) {
	items, more, err := s.api.list(ctx, k, ns, Mark+"="+Manager, maxListed)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	for _, obj := range items {
		obj["kind"] = k.Name // items of a list do not say it
		fmt.Fprintf(&b, "%s %s/%s: %s\n", k.Name, ns, text.CutLine(kubetool.TextAt(obj, "metadata", "name"), 253), describeState(obj))
		for _, u := range urlsOf(obj) {
			fmt.Fprintf(&b, "  %s\n", u)
		}
	}
	if len(items) == 0 {
		fmt.Fprintf(&b, "No %s in %s was applied by this server.\n", k.Plural, ns)
	}
	if more {
		fmt.Fprintf(&b, "(only the first %d are shown)\n", maxListed)
	}
	return b.String(), nil, nil
}

// describeState says in a few words how an object is.
func describeState(obj map[string]any) string {
	switch obj["kind"] {
	case "Pod":
		return describePod(obj)
	case "Deployment", "StatefulSet", "Job":
		_, why := rolloutOf(obj)
		return why
	}
	return "applied"
}

// describePod is a Pod's phase, and why its containers wait.
func describePod(pod map[string]any) string {
	words := []string{cmp.Or(kubetool.TextAt(pod, "status", "phase"), "Pending")}
	for _, one := range kubetool.ListAt(pod, "status", "conditions") {
		if c, _ := one.(map[string]any); c["type"] == "PodScheduled" && c["status"] == "False" {
			words = append(words, fmt.Sprintf("not scheduled: %v", c["message"]))
		}
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, one := range kubetool.ListAt(pod, "status", list) {
			c, _ := one.(map[string]any)
			waiting, ended := kubetool.MapAt(c, "state", "waiting"), kubetool.MapAt(c, "lastState", "terminated")
			if waiting != nil {
				words = append(words, fmt.Sprintf("%v waits: %v %v", c["name"], waiting["reason"], kubetool.TextAt(waiting, "message")))
			}
			if ended != nil {
				words = append(words, fmt.Sprintf("%v ended before: %v, exit code %v", c["name"], ended["reason"], ended["exitCode"]))
			}
		}
	}
	return text.CutLine(strings.Join(words, "; "), 600)
}

// rolloutAnswer is what kubectl_rollout_status tells programs.
type rolloutAnswer struct {
	Ready bool     `json:"ready"`
	State string   `json:"state"`
	Pods  []string `json:"pods"`
}

var rolloutOutput = map[string]any{"type": "object", "required": []string{"ready", "state", "pods"}, "properties": map[string]any{
	"ready": map[string]any{"type": "boolean"}, "state": textType, "pods": map[string]any{"type": "array", "items": textType},
}}

// The states of a rollout.
type rollout int

const (
	underWay rollout = iota
	ready
	broken
)

// awaitRollout is kubectl_rollout_status. What is not ready in time is an answer, not an error.
func (s *Set) awaitRollout(ctx context.Context, a kubetool.Args) (string, any, error) {
	k, err := s.cfg.Policy.kindOf("kind", a.String("kind"))
	ns, name := a.String("namespace"), a.String("name")
	if err == nil && !slices.Contains([]string{"Deployment", "StatefulSet", "Job"}, k.Name) {
		err = nightcrier.Errorf(nightcrier.Invalid, "argument kind: a %s has no rollout: use Deployment, StatefulSet or Job", k.Name)
	}
	if err := cmp.Or(err, checkNamespace(s.cfg.Policy, ns), checkName("argument name", name)); err != nil {
		return "", nil, err
	}
	end := time.NewTimer(time.Duration(a.Int("wait_seconds")) * time.Second)
	defer end.Stop()
	look := time.NewTicker(s.cfg.Poll)
	defer look.Stop()
	for last := false; ; {
		obj, err := s.api.get(ctx, k, ns, name)
		switch {
		case err != nil:
			return "", nil, err
		case obj == nil:
			return "", nil, nightcrier.Errorf(nightcrier.NotFound, "there is no %s %s/%s", k.Name, ns, name)
		case !isOurs(obj):
			return "", nil, nightcrier.Errorf(nightcrier.Refused, "%s %s/%s was not applied by this server, which shows nothing else", k.Name, ns, name)
		}
		state, why := rolloutOf(obj)
		if state != underWay || last || a.Int("wait_seconds") == 0 {
			return s.tellRollout(ctx, obj, state, why)
		}
		select {
		case <-ctx.Done():
			return "", nil, ctx.Err()
		case <-end.C:
			last = true
		case <-look.C:
		}
	}
}

// tellRollout says how a workload is and, when it is not ready, how its Pods are.
func (s *Set) tellRollout(ctx context.Context, obj map[string]any, state rollout, why string) (string, any, error) {
	answer := rolloutAnswer{Ready: state == ready, State: why, Pods: []string{}}
	said := fmt.Sprintf("%v %s: %s\n", obj["kind"], kubetool.TextAt(obj, "metadata", "name"), why)
	if state == ready {
		return said, answer, nil
	}
	var selector []string
	for key, value := range kubetool.MapAt(obj, "spec", "selector", "matchLabels") {
		selector = append(selector, fmt.Sprintf("%s=%v", key, value))
	}
	pods, _, err := s.api.list(ctx, kinds.MustNamed("Pod"), kubetool.TextAt(obj, "metadata", "namespace"), strings.Join(selector, ","), 20)
	if err != nil {
		return said + "Its Pods cannot be seen: " + err.Error() + "\n", answer, nil
	}
	for _, pod := range pods {
		line := text.CutLine(kubetool.TextAt(pod, "metadata", "name"), 253) + ": " + describePod(pod)
		answer.Pods = append(answer.Pods, line)
		said += "  " + line + "\n"
	}
	return said, answer, nil
}

// rolloutOf reads how far a workload is from its status.
func rolloutOf(obj map[string]any) (rollout, string) {
	spec, status := kubetool.MapAt(obj, "spec"), kubetool.MapAt(obj, "status")
	number := func(m map[string]any, key string, def int) int {
		if f, ok := m[key].(float64); ok {
			return int(f)
		}
		return def
	}
	for _, one := range kubetool.ListAt(status, "conditions") {
		c, _ := one.(map[string]any)
		switch {
		case c["type"] == "Complete" && c["status"] == "True":
			return ready, "complete"
		case c["type"] == "Failed" && c["status"] == "True", c["type"] == "Progressing" && c["reason"] == "ProgressDeadlineExceeded":
			return broken, text.CutLine(fmt.Sprintf("failed: %v %v", c["reason"], c["message"]), 400)
		}
	}
	if obj["kind"] == "Job" {
		return underWay, fmt.Sprintf("under way: %d of %d done", number(status, "succeeded", 0), number(spec, "completions", 1))
	}
	if number(status, "observedGeneration", 0) < number(kubetool.MapAt(obj, "metadata"), "generation", 1) {
		return underWay, "under way: the cluster has not seen the last change yet"
	}
	want := number(spec, "replicas", 1)
	updated, available := number(status, "updatedReplicas", 0), number(status, "availableReplicas", 0)
	if updated >= want && available >= want && number(status, "replicas", 0) <= want {
		return ready, fmt.Sprintf("ready: %d of %d available", available, want)
	}
	return underWay, fmt.Sprintf("under way: %d of %d are of the last change, %d available", updated, want, available)
}

// urlsOf is where an object can be reached: the hosts of an Ingress, or within the cluster
// the name of a Service.
func urlsOf(obj map[string]any) (urls []string) {
	switch obj["kind"] {
	case "Ingress":
		scheme := "http://"
		if tls := kubetool.ListAt(obj, "spec", "tls"); len(tls) > 0 {
			scheme = "https://"
		}
		for _, rule := range kubetool.ListAt(obj, "spec", "rules") {
			for _, p := range kubetool.ListAt(rule, "http", "paths") {
				urls = append(urls, scheme+kubetool.TextAt(rule, "host")+cmp.Or(kubetool.TextAt(p, "path"), "/"))
			}
		}
	case "Service":
		for _, one := range kubetool.ListAt(obj, "spec", "ports") {
			p, _ := one.(map[string]any)
			if node, ok := p["nodePort"]; ok {
				urls = append(urls, fmt.Sprintf("http://NODE:%v/ (any node of the cluster)", node))
			}
			urls = append(urls, fmt.Sprintf("http://%s.%s.svc:%v/", kubetool.TextAt(obj, "metadata", "name"), kubetool.TextAt(obj, "metadata", "namespace"), p["port"]))
		}
	}
	return urls[:min(len(urls), 10)]
}
