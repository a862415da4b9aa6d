package main

import (
	"fmt"
	"io"
	"strings"
)

// exitCodes is what each exit code says, in order. Scripts may rely on them.
var exitCodes = []struct {
	code        int
	name, means string
}{
	{exitOK, "ok", "The command did what it was asked for."},
	{exitUsage, "usage", "The command line is wrong, or what it names does not exist. Nothing was done."},
	{exitConfig, "configuration", "The configuration cannot be used, or `doctor`, `lint` or `validate` has found errors in it."},
	{exitAuth, "authentication", "Who asks is not known, or may not do this."},
	{exitUnreachable, "unreachable", "A gateway, a server or a service does not answer, or what is needed is held by another process."},
	{exitTool, "tool error", "The tool, or its server, has answered with an error."},
	{exitDenied, "denied", "The gateway does not allow the call, or it waits for an approval."},
	{exitBudget, "budget or rate", "A budget is used up, or there were too many calls."},
	{exitBreaker, "breaker", "The circuit breaker of the server is open."},
}

// exitCodesText lists the exit codes for the help of the program.
func exitCodesText() string {
	parts := make([]string, len(exitCodes))
	for i, c := range exitCodes {
		parts[i] = fmt.Sprintf("%d %s", c.code, c.name)
	}
	return "Exit codes: " + strings.Join(parts, ", ") + "."
}

// writeExitCodes writes the page about them.
func writeExitCodes(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Exit codes\n\nEvery command ends with one of these; scripts may rely on them. What is wrong stands\non standard error in one sentence.\n\n| code | name | meaning |\n|---|---|---|\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", c.code, c.name, c.means)
	}
	b.WriteString("\nThis page is written from the program (`go generate ./cmd/toolgate`).\n")
	_, err := io.WriteString(w, b.String())
	return err
}
