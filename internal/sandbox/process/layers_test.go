package process

import (
	"slices"
	"strings"
	"testing"
)

// What is missing of a set of layers, for a sandbox that may lack nothing and for one that
// may lack what a machine refuses; and what to do about it.
func TestWhatLayersAmountTo(t *testing.T) {
	const (
		floor  = "env no_new_privs caps seccomp modes landlock landlock-net landlock-scope rlimits"
		bounds = " memory-watch pids-watch"
		spaces = " pidns ipcns mountns proc netns root"
		full   = floor + spaces + " uid cgroup-memory cgroup-pids cgroup-cpu"
	)
	without := func(layers string, gone ...string) string {
		return strings.Join(slices.DeleteFunc(strings.Fields(layers), func(l string) bool { return slices.Contains(gone, l) }), " ")
	}
	for name, c := range map[string]struct{ held, strict, floor, remedy string }{
		"root":                     {full, "", "", ""},
		"an ordinary user":         {floor + spaces + " userns rlimit-nproc cgroup-memory", "", "", ""},
		"one without a group":      {floor + spaces + " userns rlimit-nproc memory-watch", "cgroup-memory", "", "control group"},
		"one who is watched":       {floor + bounds + spaces + " userns", "cgroup-memory cgroup-pids", "", "control group"},
		"nobody's id":              {without(full, "uid"), "uid", "", "workspace_root"},
		"nothing bounds memory":    {without(full, "cgroup-memory"), "cgroup-memory", "", "control group"},
		"nothing bounds processes": {without(full, "cgroup-pids"), "cgroup-pids", "", "control group"},
		"no cpu group":             {without(full, "cgroup-cpu"), "", "", ""},
		"the floor":                {floor + bounds, "pidns mountns netns proc root uid cgroup-memory cgroup-pids", "", "namespaces"},
		"the floor of an older kernel (5.13: TCP)": {without(floor+bounds, "landlock-net", "landlock-scope"), "pidns mountns netns proc root uid cgroup-memory cgroup-pids landlock-net landlock-scope", "", "namespaces"},
		"the floor of an older kernel (6.7)":       {without(floor+bounds, "landlock-scope"), "pidns mountns netns proc root uid cgroup-memory cgroup-pids landlock-scope", "", "namespaces"},
		"namespaces make up for it":                {without(full, "landlock-net", "landlock-scope"), "", "", ""},
		"a shared network":                         {without(full, "landlock-net", "netns"), "netns landlock-net", "", "user namespaces"},
		"no seccomp":                               {without(floor+bounds, "seccomp"), "pidns mountns netns proc root seccomp uid cgroup-memory cgroup-pids", "seccomp", "seccomp"},
		"no seccomp with namespaces":               {without(full, "seccomp"), "seccomp", "seccomp", "seccomp"},
		"capabilities":                             {without(full, "caps"), "caps", "caps", "CAP_SETPCAP"},
		"no Landlock":                              {without(full, "landlock", "landlock-net", "landlock-scope"), "landlock", "landlock", "Linux 5.13"},
		"nothing":                                  {"", "env pidns mountns netns proc root no_new_privs caps modes seccomp landlock rlimits uid cgroup-memory cgroup-pids landlock-net landlock-scope", "env no_new_privs caps seccomp landlock rlimits", "Linux 5.13"},
	} {
		held := strings.Fields(c.held)
		if got := strings.Join(Strict(held), " "); got != c.strict {
			t.Errorf("%s: strict lacks %q, want %q", name, got, c.strict)
		}
		if got := strings.Join(Floor(held), " "); got != c.floor {
			t.Errorf("%s: the floor lacks %q, want %q", name, got, c.floor)
		}
		if got := Remedy(Strict(held)); !strings.Contains(got, c.remedy) || (got == "") != (c.remedy == "") {
			t.Errorf("%s: remedy %q, want %q", name, got, c.remedy)
		}
	}
}
