//go:build unix && !linux

package files

import "syscall"

// nonblock makes an open return without waiting for the other end of a pipe.
const nonblock = syscall.O_NONBLOCK
