package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
)

// MaskKeyFile is the file in the root whose bytes key the tags of masked values.
const MaskKeyFile = ".mask-key"

// How long the key is that is made, in bytes, and how long one may be that is found.
const (
	maskKeySize = 32
	maxMaskKey  = 4 << 10
)

// MaskKey returns the key that makes the tags of masked values stable, and makes it at the
// first call.
func (r *Root) MaskKey() ([]byte, error) {
	key, err := readMaskKey(r.fs)
	if err == nil && len(key) >= maskKeySize {
		return key, nil
	}
	path := filepath.Join(r.path, MaskKeyFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nightcrier.Errorf(nightcrier.Refused, "%s: %w; remove it, and tags are made with a new key", path, err)
	}
	key = make([]byte, maskKeySize)
	_, _ = rand.Read(key) // never fails
	if err := r.fs.WriteFile(MaskKeyFile, key, 0o600); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "write %s: %w", path, err)
	}
	return key, nil
}

// ReadMaskKey returns the key in a directory where a workspace is, nil where none can be read.
func ReadMaskKey(dir string) []byte {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	if key, err := readMaskKey(root); err == nil && len(key) >= maskKeySize {
		return key
	}
	return nil
}

// readMaskKey reads a key that is ours: others may be able to put files there.
func readMaskKey(root *os.Root) ([]byte, error) {
	f, err := root.OpenFile(MaskKeyFile, os.O_RDONLY|portable.NoFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	in, known := portable.InodeOf(info)
	switch {
	case !info.Mode().IsRegular() || info.Size() > maxMaskKey:
		return nil, errors.New("it is no key")
	case known && in.Owner != 0 && in.Owner != os.Geteuid():
		return nil, fmt.Errorf("it belongs to user %d, who then knows by which key secrets are masked", in.Owner)
	}
	return io.ReadAll(io.LimitReader(f, maxMaskKey))
}
