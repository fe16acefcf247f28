package decoy

import "golang.org/x/sys/unix"

// share puts the secret into memory that processes of this user share by its number.
func (s *Set) share() {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, len(s.Secret), unix.IPC_CREAT|0o600)
	if err != nil {
		return // then nobody can attack it
	}
	s.close = append(s.close, func() error {
		_, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	})
	memory, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return
	}
	copy(memory, s.Secret)
	if unix.SysvShmDetach(memory) == nil {
		s.Shared = id
	}
}
