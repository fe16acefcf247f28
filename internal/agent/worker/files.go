package worker

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/worker/internal/stdio"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// The agent holds no cluster credential: its kubeconfig names the guard, or no
// cluster at all.
const (
	kubeconfigFile  = "home/kubeconfig"
	emptyKubeconfig = "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n"
)

// openWorkspace opens the incident's directory; no name leads out of it, whatever links
// an agent has left there.
func (w *worker) openWorkspace() (*os.Root, error) {
	ws, err := os.OpenRoot(w.spec.Workspace)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "workspace: %w", err)
	}
	return ws, nil
}

// prepareWorkspace makes the agent's own directories, where they are missing.
func (a *attempt) prepareWorkspace() error {
	ws, err := a.openWorkspace()
	if err != nil {
		return err
	}
	defer ws.Close()
	if a.spec.Session != "" {
		if err := onlySessions(ws, a.executor.Sessions); err != nil {
			return nightcrier.Errorf(nightcrier.Exhausted, "workspace: %w", err)
		}
	}
	for _, dir := range []string{"home", "tmp", ".scratch", ".scratch/artifacts", "output"} {
		if err := ws.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return nightcrier.Errorf(nightcrier.Exhausted, "workspace: %w", err)
		}
	}
	return putKubeconfig(ws, []byte(emptyKubeconfig))
}

// onlySessions empties home but for what these patterns find: what else an agent left there would be
// the settings, the memory and the hooks of the one that goes on.
func onlySessions(ws *os.Root, keep []string) error {
	const old = ".home"
	if err := ws.RemoveAll(old); err != nil {
		return err
	}
	if err := ws.Rename("home", old); os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	for _, pattern := range keep {
		paths, err := fs.Glob(ws.FS(), old+"/"+pattern)
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := keepAt(ws, old, strings.TrimPrefix(path, old+"/")); err != nil {
				return err
			}
		}
	}
	return ws.RemoveAll(old)
}

// keepAt moves one path from an old home into the new one.
func keepAt(ws *os.Root, old, path string) error {
	if !isPlainPath(ws, old, path) {
		return nil
	}
	if err := ws.MkdirAll(filepath.Join("home", filepath.Dir(path)), 0o700); err != nil {
		return err
	}
	return ws.Rename(filepath.Join(old, path), filepath.Join("home", path))
}

// isPlainPath reports whether the path is there and no part of it is a link.
func isPlainPath(ws *os.Root, dir, path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		dir = filepath.Join(dir, part)
		if info, err := ws.Lstat(dir); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// ownDirs are the directories that the agent may write to.
func (a *attempt) ownDirs() []string {
	return []string{filepath.Join(a.spec.Workspace, "home"), filepath.Join(a.spec.Workspace, "tmp"), a.scratchDir()}
}

func (a *attempt) scratchDir() string { return filepath.Join(a.spec.Workspace, ".scratch") }

// openStdin opens what the executor reads its prompt from: a copy, not the file of the
// workspace, whose mode and times an agent with its descriptor could change.
func (a *attempt) openStdin() (*os.File, error) {
	if a.executor.Stdin == "" {
		return os.Open(os.DevNull)
	}
	ws, err := a.openWorkspace()
	if err != nil {
		return nil, err
	}
	defer ws.Close()
	prompt := a.executor.Stdin
	if a.spec.PromptFile != "" {
		prompt = a.spec.PromptFile
	}
	text, err := ws.ReadFile(prompt)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "the agent's prompt: %w", err)
	}
	return stdio.SealText(text)
}

// writeFiles puts the CLI's configuration into the workspace. What stands there by
// the name is made anew: an earlier attempt's agent may have left a link.
func (a *attempt) writeFiles(files map[string][]byte) error {
	ws, err := a.openWorkspace()
	if err != nil {
		return err
	}
	defer ws.Close()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := ws.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = ws.RemoveAll(name)
		}
		if err == nil {
			err = ws.WriteFile(name, files[name], 0o600)
		}
		if err != nil {
			return nightcrier.Errorf(nightcrier.Exhausted, "configuration of the agent: %w", err)
		}
	}
	return nil
}

// withheld are the directories of a workspace that an agent does not see: the real
// output, what we write down of its calls, and the record of the whole investigation,
// which knows what others were told.
var withheld = []string{"output", filepath.Dir(exchangesFile), "record"}

// readablePaths lists what the agent may read of its workspace: all else that was there
// when it started, but for what the server is just writing beside it.
func readablePaths(ws string) []string {
	entries, err := os.ReadDir(ws)
	if err != nil {
		return nil
	}
	var paths []string
	for _, e := range entries {
		name := e.Name()
		if !slices.Contains(withheld, name) && !workspace.IsBeingWritten(name) && (e.IsDir() || e.Type().IsRegular()) {
			paths = append(paths, filepath.Join(ws, name))
		}
	}
	return paths
}
