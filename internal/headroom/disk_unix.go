//go:build !windows

package headroom

import "golang.org/x/sys/unix"

// space returns the free space for an ordinary user on the disk of a folder, and the
// size of the disk, in bytes.
func space(dir string) (free, size uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	block := uint64(s.Bsize)
	return uint64(max(0, int64(s.Bavail))) * block, uint64(s.Blocks) * block, nil
}
