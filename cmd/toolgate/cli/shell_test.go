//go:build !windows

package cli

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// runShell runs a command as it stands in a page.
func runShell(t *testing.T, dir string, env []string, command string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, env, strings.NewReader(""), &out, &errs
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) || ctx.Err() != nil {
		t.Fatalf("%s: %v\n%s", command, err, errs.String())
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}
