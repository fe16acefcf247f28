package process

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// arrangeMounts makes the mounts of this namespace private, lays the binds over
// them, and shows the processes of this PID namespace where proc is set.
func arrangeMounts(binds []Bind, proc bool) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, b := range binds {
		if err := syscall.Mount(b.From, b.To, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s over %s: %w", b.From, b.To, err)
		}
	}
	if proc {
		// Some containers refuse this; Landlock then still keeps other processes'
		// entries shut.
		_ = syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	}
	return nil
}

// freeze makes every mount of this namespace read-only, but for the given
// directories and what is bound over others. It reports false, and nothing has
// become read-only, on a kernel that cannot.
func freeze(binds []Bind, writable []string) (bool, error) {
	open := slices.Clone(writable)
	for _, dir := range writable {
		if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
			return false, fmt.Errorf("keep %s writable: %w", dir, err)
		}
	}
	for _, b := range binds {
		open = append(open, b.To)
	}
	all := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, all) != nil {
		return false, nil // before Linux 5.12, or in a chroot
	}
	for _, dir := range open {
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return false, fmt.Errorf("keep %s writable: %w", dir, err)
		}
	}
	return true, nil
}

// loopbackUp brings up lo, which a new network namespace has down.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
