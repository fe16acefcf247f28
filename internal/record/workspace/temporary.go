package workspace

import (
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
)

// ChooseRoot is where one who runs once keeps the workspaces: out, which stays, or a
// temporary directory, which cleanup removes.
func ChooseRoot(out, prefix string) (dir string, cleanup func(), err error) {
	if out != "" {
		if dir, err = filepath.Abs(out); err != nil {
			return "", nil, nightcrier.Errorf(nightcrier.Invalid, "--out %s: %w", out, err)
		}
		return dir, func() {}, nil
	}
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, nightcrier.Errorf(nightcrier.Exhausted, "make a temporary directory: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
