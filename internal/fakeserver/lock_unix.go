//go:build unix

package fakeserver

import "syscall"

// lock locks a file until the process ends, and tells whether no other has it.
func lock(path string) bool {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600)
	return err == nil && syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
