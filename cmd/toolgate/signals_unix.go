//go:build !windows

package main

import (
	"os"
	"os/signal"
	"syscall"
)

var reloadSignals = []os.Signal{syscall.SIGHUP}

// surviveBrokenPipes makes a write to a client that has gone an error, where it
// would end the process: others may have joined its gateway.
func surviveBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }
