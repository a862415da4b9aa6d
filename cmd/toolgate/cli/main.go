// Package cli is the command line: one command a file, which starts a gateway or asks a
// running one over the control API, and shows what it said. Exit codes are known here
// alone.
package cli

import (
	"context"
	"log" //nolint:depguard // its output is made safe here, and nothing is written to it
	"os"
	"os/signal"
	"syscall"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/logs"
)

// Main runs the command that the arguments of the process name, and returns its exit
// code.
func Main() int {
	log.SetOutput(logs.NewWriter(os.Stderr)) // what libraries have to say
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	admin.EndAdopted()
	return report(err)
}
