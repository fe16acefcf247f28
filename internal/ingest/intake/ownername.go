package intake

import (
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

const (
	digits = "0123456789"
	// randomChars are those of the suffixes that Kubernetes generates: no vowels,
	// and no digits that look like letters.
	randomChars = "bcdfghjklmnpqrstvwxz2456789"
	// hashChars are those that a Pod template's hash can have: a decimal number
	// spelled with ten of the characters above.
	hashChars = "bcdf456789"
	anyChars  = "abcdefghijklmnopqrstuvwxyz" + digits
)

// OwnerByName guesses the workload behind a resource from its name alone. A name
// that does not look generated is its own owner.
func OwnerByName(res nightcrier.Resource) nightcrier.Resource {
	switch res.Kind {
	case "Pod":
		return podOwner(res)
	case "ReplicaSet":
		if name, ok := cutHash(res.Name); ok {
			return sameNamespace(res, "Deployment", name)
		}
	case "Job":
		if name, ok := cutLastPart(res.Name, 8, 8, digits); ok {
			return sameNamespace(res, "CronJob", name)
		}
	}
	return res
}

func podOwner(res nightcrier.Resource) nightcrier.Resource {
	if base, ok := cutLastPart(res.Name, 5, 5, anyChars); ok {
		if name, ok := cutLastPart(base, 8, 8, digits); ok { // minutes since 1970
			return sameNamespace(res, "CronJob", name)
		}
	}
	if base, ok := cutLastPart(res.Name, 5, 5, randomChars); ok {
		if name, ok := cutHash(base); ok {
			return sameNamespace(res, "Deployment", name)
		}
		// A Job's Pods look the same; a DaemonSet's are by far the more frequent,
		// and the events of either are kept together.
		return sameNamespace(res, "DaemonSet", base)
	}
	if name, ok := cutLastPart(res.Name, 1, 4, digits); ok {
		return sameNamespace(res, "StatefulSet", name)
	}
	return res
}

func sameNamespace(res nightcrier.Resource, kind, name string) nightcrier.Resource {
	return nightcrier.Resource{APIVersion: kinds.MustNamed(kind).APIVersion(), Kind: kind, Namespace: res.Namespace, Name: name}
}

// cutHash cuts a Pod template's hash off. One of letters only is taken for a
// word.
func cutHash(name string) (string, bool) {
	base, ok := cutLastPart(name, 6, 10, hashChars)
	return base, ok && strings.ContainsAny(name[len(base):], digits)
}

// cutLastPart cuts off the last part of name if it is lo to hi characters of a set.
func cutLastPart(name string, lo, hi int, set string) (string, bool) {
	i := strings.LastIndexByte(name, '-')
	last := name[i+1:]
	if i <= 0 || len(last) < lo || len(last) > hi || strings.Trim(last, set) != "" {
		return "", false
	}
	return name[:i], true
}
