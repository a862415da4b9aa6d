// Command toolgate is a gateway between MCP clients and everything that they
// can call.
package main

import (
	"context"
	"errors"
	"fmt"
	"log" //nolint:depguard // its output is made safe here, and nothing is written to it
	"os"
	"os/signal"
	"syscall"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/logs"
)

// version is set when a release is built.
var version = "0.1.0-dev"

// Exit codes (DESIGN 11). Scripts may rely on them.
const (
	exitOK          = 0
	exitUsage       = 1
	exitConfig      = 2
	exitAuth        = 3
	exitUnreachable = 4
	exitTool        = 5
	exitDenied      = 6
	exitBudget      = 7
	exitBreaker     = 8
)

// exitError is an error with the exit code that it leads to.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

func exitf(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

func main() {
	log.SetOutput(logs.NewWriter(os.Stderr)) // what libraries have to say
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	admin.EndAdopted()
	os.Exit(report(err))
}

// report prints an error for a person and returns the exit code.
func report(err error) int {
	coded, ok := errors.AsType[*exitError](err)
	if err == nil || !ok && errors.Is(err, context.Canceled) {
		return exitOK
	}
	fsay(os.Stderr, "toolgate: %v\n", err)
	if ok {
		return coded.code
	}
	return exitUsage
}
