package storetest

import "golang.org/x/sys/unix"

// roomInMemory is what must be free before a server's files, about 60 MB, are put
// there: the tests of several packages run at once.
const roomInMemory = 2 << 30

// memory returns a folder in memory, or "" if there is none with enough room. A killed
// server finds its files there like on a disk.
func memory() string {
	const folder = "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC || unix.Access(folder, unix.W_OK) != nil {
		return ""
	}
	if fs.Bavail < roomInMemory/uint64(fs.Bsize) { // the size of a block is not negative
		return ""
	}
	return folder
}
