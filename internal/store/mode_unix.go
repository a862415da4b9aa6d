//go:build !windows

package store

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// exposed reports whether a file with this mode is accessible to others than its owner.
func exposed(mode fs.FileMode) bool { return mode.Perm()&0o077 != 0 }

// links returns the number of hard links of a file.
func links(f *os.File) (uint64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("the system does not say")
	}
	return uint64(stat.Nlink), nil // it is narrower on other systems
}
