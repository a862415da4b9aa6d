package store

import (
	"io/fs"
	"os"
	"syscall"
)

// exposed reports whether a file with this mode is accessible to others than its owner.
// On Windows mode bits do not tell: access lists do, and a file inherits those of its
// folder.
func exposed(fs.FileMode) bool { return false }

// links returns the number of hard links of a file.
func links(f *os.File) (uint64, error) {
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(f.Fd()), &info); err != nil {
		return 0, err
	}
	return uint64(info.NumberOfLinks), nil
}
