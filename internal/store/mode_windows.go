package store

import (
	"io/fs"
	"os"
	"syscall"
)

// exposed reports whether a file of this mode is open to others than its
// owner. Windows keeps that in access lists, which a file inherits from its
// folder; the mode bits say nothing about it.
func exposed(fs.FileMode) bool { return false }

// links returns how many names a file has.
func links(f *os.File) (uint64, error) {
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(f.Fd()), &info); err != nil {
		return 0, err
	}
	return uint64(info.NumberOfLinks), nil
}
