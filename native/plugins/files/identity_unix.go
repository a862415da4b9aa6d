//go:build unix

package files

import (
	"os"
	"syscall"
)

// links is how many names a file has.
func links(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 2 // of which one cannot be known
}

// keepOwner gives a file the owner of the one that it replaces, as far as the
// system lets it.
func keepOwner(f *os.File, of os.FileInfo) {
	if s, ok := of.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != os.Geteuid() || int(s.Gid) != os.Getegid()) {
		_ = f.Chown(int(s.Uid), int(s.Gid)) // it may belong to whoever replaced it
	}
}
