package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/failure"
)

// Exit codes (docs/exit-codes.md). Scripts may rely on them.
const (
	exitOK = iota
	exitUsage
	exitConfig
	exitAuth
	exitUnreachable
	exitTool
	exitDenied
	exitBudget
	exitBreaker
)

// exitCode returns the exit code for an error. ours is false if the error has no kind.
func exitCode(err error) (code int, ours bool) {
	known, ok := errors.AsType[*failure.Error](err)
	if !ok {
		return exitUsage, false
	}
	for _, c := range exitCodes {
		if c.kind == known.Kind {
			return c.code, true
		}
	}
	return exitUsage, true
}

// report prints an error for a person and returns the exit code.
func report(err error) int {
	code, ours := exitCode(err)
	if err == nil || !ours && errors.Is(err, context.Canceled) {
		return exitOK
	}
	output.Tell("toolgate", "%v", failure.Plain(err))
	return code
}

// exitCodes lists the meaning of each exit code, in order. Scripts may rely on them.
var exitCodes = []struct {
	code        int
	kind        failure.Kind
	name, means string
}{
	{exitOK, 0, "ok", "The command did what it was asked for."},
	{exitUsage, failure.Usage, "usage", "The command line is wrong, or what it names does not exist. Nothing was done."},
	{exitConfig, failure.Config, "configuration", "The configuration cannot be used, or `doctor`, `lint` or `validate` has found errors in it."},
	{exitAuth, failure.Auth, "authentication", "The caller is unknown, or may not do this."},
	{exitUnreachable, failure.Unreachable, "unreachable", "A gateway, a server or a service does not answer, or another process holds what is needed."},
	{exitTool, failure.Tool, "tool error", "The tool, or its server, has answered with an error."},
	{exitDenied, failure.Denied, "denied", "The gateway does not allow the call, or the call waits for an approval."},
	{exitBudget, failure.Budget, "budget or rate limit", "A budget is used up, or there were too many calls."},
	{exitBreaker, failure.Breaker, "breaker", "The circuit breaker of the server is open."},
}

// exitCodesText lists the exit codes for the help of the program.
func exitCodesText() string {
	parts := make([]string, len(exitCodes))
	for i, c := range exitCodes {
		parts[i] = fmt.Sprintf("%d %s", c.code, c.name)
	}
	return "Exit codes: " + strings.Join(parts, ", ") + "."
}
