// Command toolgate is a gateway between MCP clients and everything that they
// can call.
package main

import (
	"context"
	"log" //nolint:depguard // its output is made safe here, and nothing is written to it
	"os"
	"os/signal"
	"syscall"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/logs"
)

func main() {
	log.SetOutput(logs.NewWriter(os.Stderr)) // what libraries have to say
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	admin.EndAdopted()
	os.Exit(report(err))
}
