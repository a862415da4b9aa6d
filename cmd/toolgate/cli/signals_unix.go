//go:build !windows

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// surviveBrokenPipes makes a write to a pipe that nobody reads any more an error,
// where it would end the process: the client or the reader of the log has gone, and
// others are still served. Programs that this one starts are not affected, as they
// would be if the signal were ignored.
func surviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
