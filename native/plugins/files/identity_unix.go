//go:build unix

package files

import (
	"os"
	"syscall"
)

// links returns the number of names of a file.
func links(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 2 // unknown counts as several
}

// keepOwner gives a file the owner of the file that it replaces, if the system permits
// it.
func keepOwner(f *os.File, of os.FileInfo) {
	if s, ok := of.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != os.Geteuid() || int(s.Gid) != os.Getegid()) {
		_ = f.Chown(int(s.Uid), int(s.Gid)) // if it fails, the file belongs to this process's user
	}
}
