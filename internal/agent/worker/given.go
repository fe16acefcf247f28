package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

func (a *attempt) newJob() agent.Job {
	self, err := os.Executable()
	if err != nil {
		a.log.Warn("the path of this program is not known", "error", err)
	}
	j := agent.Job{
		Spec: a.spec.Spec, Self: self,
		IncidentID: a.spec.IncidentID, Cluster: a.spec.Cluster, Namespace: a.spec.Namespace,
		Workspace: a.spec.Workspace, OutputDir: filepath.Join(a.spec.Workspace, "output"),
		Kubeconfig: filepath.Join(a.spec.Workspace, kubeconfigFile),
		Kubectl:    a.findKubectl(), Allowed: a.allowedPolicy(), Session: a.spec.Session, ExtraEnv: a.spec.ExtraEnv,
	}
	j.Provider = a.modelProvider()
	if !slices.Contains(a.held.Layers, process.LayerMountNS) {
		j.OutputDir = a.scratchDir()
	}
	if a.guard != nil {
		j.ModelURL, j.ModelToken = a.guard.URL(), a.guard.Token()
	}
	if a.tools != nil {
		j.ToolsURL, j.ToolsToken, j.Tools = a.tools.URL(), a.tools.Token(), a.tools.Names()
	}
	return j
}

// allowedPolicy is what the agent may do. What of it was narrowed is told.
func (a *attempt) allowedPolicy() readonly.Policy {
	p, notes := readonly.Parse(a.spec.AllowedTools)
	for _, n := range notes {
		a.appendNote("warn", n)
	}
	return p
}

// maxCPUs is what an agent may keep busy: it mostly waits for its model.
const maxCPUs = 2

// maxOpenFiles is far above what an agent opens.
const maxOpenFiles = 8192

func (a *attempt) sandboxPolicy(inv agent.Invocation) sandbox.Policy {
	ws := a.spec.Workspace
	p := sandbox.Policy{
		Binds:        []sandbox.Bind{{From: a.scratchDir(), To: filepath.Join(ws, "output")}},
		Read:         slices.Concat(process.SystemFiles(), inv.Read, a.spec.ReadPaths, readablePaths(ws)),
		List:         []string{ws},
		Write:        a.ownDirs(),
		Devices:      process.Devices(),
		MaxFileBytes: a.spec.MaxWorkspaceBytes, MaxOpenFiles: maxOpenFiles,
		Unconfined: a.spec.Require == agent.RequireNone,
	}
	if a.guard != nil {
		p.ConnectPorts = append(p.ConnectPorts, a.guard.Port())
	}
	if a.cluster != nil {
		p.ConnectPorts = append(p.ConnectPorts, a.cluster.server.Port())
	}
	if a.tools != nil {
		p.ConnectPorts = append(p.ConnectPorts, a.tools.Port())
	}
	return p
}

// requireLayers refuses to start with less than was asked for.
func (a *attempt) requireLayers(held sandbox.Held) error {
	if a.spec.Require == agent.RequireNone {
		a.appendNote("warn", "sandbox.require is none: the agent runs without confinement")
		return nil
	}
	missing, weak := process.Floor(held.Layers), process.Strict(held.Layers)
	if a.spec.Require == agent.RequireStrict {
		missing = weak
	}
	why := strings.Join(append(held.Notes, process.Remedy(weak)), "; ")
	if len(missing) > 0 {
		return nightcrier.Errorf(nightcrier.Refused, "sandbox.require is %s and this machine does not grant %s (%s)", a.spec.Require, strings.Join(missing, ", "), why)
	}
	if len(weak) > 0 {
		a.appendNote("warn", "sandbox without "+strings.Join(weak, ", ")+": this machine does not grant them ("+why+")")
	}
	return nil
}
