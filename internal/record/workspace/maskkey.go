package workspace

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
)

// MaskKeyFile is the file in the root whose bytes key the tags of masked values.
const MaskKeyFile = ".mask-key"

// MaskKey returns the key that makes the tags of masked values stable, and makes it at the
// first call.
func (r *Root) MaskKey() ([]byte, error) {
	path := filepath.Join(r.path, MaskKeyFile)
	key, err := os.ReadFile(path)
	if err == nil && len(key) >= 32 {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nightcrier.Errorf(nightcrier.Refused, "read %s: %w", path, err)
	}
	key = make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	if err := os.WriteFile(path, key, 0o600); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "write %s: %w", path, err)
	}
	return key, nil
}
