package preflight

import (
	"slices"
	"strings"
)

// Permissions is the content of incident_cluster_permissions.json: what the
// credential may do, in one flat object for people, prompts and programs.
// worstCase says it in one sentence; what is unknown is not listed as allowed.
func (r Result) Permissions() map[string]any {
	p := map[string]any{
		"namespace":      r.Namespace,
		"canGetPods":     r.can("get pods"),
		"canListPods":    r.can("list pods"),
		"canGetLogs":     r.can("get pods/log"),
		"canListEvents":  r.can("list events"),
		"canGetWorkload": r.can("get deployments.apps"),
		"canGetNodes":    r.can("get nodes"),
		"canGetSecrets":  slices.ContainsFunc(r.Risks, Risk.disclosesSecrets),
		"canWrite":       string(r.CanWrite),
		"worstCase":      r.WorstCase(),
		"rules":          r.rules[:min(len(r.rules), maxListed)],
	}
	if !r.At.IsZero() {
		p["checkedAt"] = r.At.UTC()
	}
	set(p, "cluster", r.Cluster)
	set(p, "writes", r.Writes)
	set(p, "risks", r.risks(Yes))
	set(p, "unknownRisks", r.risks(Unknown))
	set(p, "cannotRead", r.reads(No))
	set(p, "unknownReads", r.reads(Unknown))
	set(p, "incomplete", strings.Join(r.Unknown, "; "))
	return p
}

// set leaves out what is empty.
func set[T interface{ string | []string }](p map[string]any, key string, value T) {
	if len(value) > 0 {
		p[key] = value
	}
}

// disclosesSecrets reports whether Secrets can be read for certain.
func (k Risk) disclosesSecrets() bool {
	return k.Answer == Yes && (k.ID == "secrets" || k.ID == "everything")
}

func (r Result) can(what string) bool { return r.Can[what] == Yes }

// reads lists the reads that have this answer, in a stable order.
func (r Result) reads(a Answer) []string {
	var out []string
	for what, have := range r.Can {
		if have == a {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	return out
}

// risks are the ids of those that have this answer, gravest first.
func (r Result) risks(a Answer) []string {
	var out []string
	for _, k := range r.Risks {
		if k.Answer == a {
			out = append(out, k.ID)
		}
	}
	return out
}

// ReadOnly is the answer to "can it do nothing but read?".
func (r Result) ReadOnly() Answer {
	switch r.CanWrite {
	case Yes:
		return No
	case No:
		return Yes
	}
	return Unknown
}

// WorstCase says in one sentence what could happen with the credential at worst.
func (r Result) WorstCase() string {
	var can []string
	for _, k := range r.Risks {
		if k.Answer == Yes {
			can = append(can, k.What)
		}
	}
	switch {
	case r.CanWrite == Yes && !slices.ContainsFunc(r.Risks, Risk.changes):
		return "it can " + strings.Join(append(can, r.Writes[:min(len(r.Writes), 3)]...), "; ")
	case len(can) > 0:
		return "it can " + strings.Join(can, "; ")
	case r.CanWrite == No:
		return "it can change nothing"
	case r.Probed:
		return "no way to change anything was found, but the cluster could not list every rule"
	}
	return "not known: the cluster did not answer what it may do"
}

func (k Risk) changes() bool { return k.Answer == Yes && k.ID != "secrets" }
