//go:build !windows

package statedir

import (
	"io/fs"
	"syscall"
)

// ownedBy tells whether a file belongs to a user.
func ownedBy(info fs.FileInfo, uid int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}
