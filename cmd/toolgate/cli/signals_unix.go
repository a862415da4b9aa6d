//go:build !windows

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// surviveBrokenPipes turns a write to a pipe without a reader into an error. Without it,
// the write would end the process, although others are still served after the client or
// the reader of the log has gone. Child processes are not affected, as they would be if
// the signal were ignored.
func surviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
