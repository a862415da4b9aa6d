//go:build unix && !linux

package files

import "syscall"

// nonblock has an open not wait for the other end of a pipe.
const nonblock = syscall.O_NONBLOCK
