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
		"canGetPods":     r.mayRead("get pods"),
		"canListPods":    r.mayRead("list pods"),
		"canGetLogs":     r.mayRead("get pods/log"),
		"canListEvents":  r.mayRead("list events"),
		"canGetWorkload": r.mayRead("get deployments.apps"),
		"canGetNodes":    r.mayRead("get nodes"),
		"canGetSecrets":  slices.ContainsFunc(r.Risks, Risk.disclosesSecrets),
		"canWrite":       string(r.CanWrite),
		"worstCase":      r.WorstCase(),
		"rules":          r.rules[:min(len(r.rules), maxListed)],
	}
	if !r.At.IsZero() {
		p["checkedAt"] = r.At.UTC()
	}
	setNonEmpty(p, "cluster", r.Cluster)
	setNonEmpty(p, "writes", r.Writes)
	setNonEmpty(p, "risks", r.risksAnswered(Yes))
	setNonEmpty(p, "unknownRisks", r.risksAnswered(Unknown))
	setNonEmpty(p, "cannotRead", r.readsAnswered(No))
	setNonEmpty(p, "unknownReads", r.readsAnswered(Unknown))
	setNonEmpty(p, "incomplete", strings.Join(r.Unknown, "; "))
	return p
}

// setNonEmpty leaves out what is empty.
func setNonEmpty[T interface{ string | []string }](p map[string]any, key string, value T) {
	if len(value) > 0 {
		p[key] = value
	}
}

// disclosesSecrets reports whether Secrets can be read for certain.
func (k Risk) disclosesSecrets() bool {
	return k.Answer == Yes && (k.ID == "secrets" || k.ID == "everything")
}

func (r Result) mayRead(what string) bool { return r.Can[what] == Yes }

// readsAnswered lists the reads that have this answer, in a stable order.
func (r Result) readsAnswered(a Answer) []string {
	var out []string
	for what, have := range r.Can {
		if have == a {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	return out
}

// risksAnswered are the ids of those that have this answer, gravest first.
func (r Result) risksAnswered(a Answer) []string {
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
	case r.CanWrite == Yes && !slices.ContainsFunc(r.Risks, Risk.mayChange):
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

func (k Risk) mayChange() bool { return k.Answer == Yes && k.ID != "secrets" }
