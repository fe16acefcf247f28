package budget

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier/internal/portable"
)

// A record that root looks at, or adds to, may be that of a server with another user,
// which could not open what is root's. So what root makes is given to whom the directory
// around it belongs to. Of what is there already the owner is never changed, and no link
// is followed: the directory's owner may have put it there.

// makeDir makes the record's directory, where there is none.
func makeDir(dir string) error {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return nil // another was faster
	} else if err != nil {
		return err
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|portable.NoFollow, 0)
	if err != nil {
		return err
	}
	return errors.Join(giveToOwnerOf(f, filepath.Dir(dir)), f.Close())
}

// openFile opens a file of the record, and makes it where there is none.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, os.O_RDWR|portable.NoFollow, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := giveToOwnerOf(f, filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// giveToOwnerOf has a file that was just made belong to whom the directory does.
func giveToOwnerOf(f *os.File, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if in, ok := portable.InodeOf(info); ok && in.Owner != 0 {
		return f.Chown(in.Owner, in.Group)
	}
	return nil
}
