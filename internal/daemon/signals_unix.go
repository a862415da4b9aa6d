//go:build !windows

package daemon

import (
	"os"
	"syscall"
)

var reloadSignals = []os.Signal{syscall.SIGHUP}
