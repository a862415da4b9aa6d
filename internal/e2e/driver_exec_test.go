//go:build e2e && unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// driverTimeout bounds one run of a driver in another language.
const driverTimeout = 2 * time.Minute

// runNode runs a JavaScript driver, by file name.
func runNode(driver string) func(context.Context, target) report {
	return func(ctx context.Context, t target) report {
		return runDriver(ctx, t, lab.node.path, filepath.Join(lab.cache, "node", driver))
	}
}

// runPython runs a Python driver, by file name.
func runPython(driver string) func(context.Context, target) report {
	return func(ctx context.Context, t target) report {
		return runDriver(ctx, t, lab.python.path, filepath.Join(lab.root, "internal", "e2e", "python", driver))
	}
}

// runDriver runs a program with the target as its last argument and reads the
// report from its last line.
func runDriver(ctx context.Context, t target, program string, args ...string) report {
	argument, err := json.Marshal(t)
	if err != nil {
		return report{Error: fmt.Sprintf("writing the target: %v", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(args, string(argument))...)
	cmd.Env = pythonEnv()
	cmd.WaitDelay = 2 * time.Second
	ownGroup(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	out := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	var r report
	if err := json.Unmarshal([]byte(out[len(out)-1]), &r); err != nil {
		r.Error = fmt.Sprintf("no report (%v): %v\nstderr: %s", runErr, err, newest(stderr.String(), 2000))
	}
	if r.Error != "" {
		r.Error += "\nstderr: " + newest(stderr.String(), 2000)
	}
	return r
}

// pythonEnv is an environment in which compiled Python goes to the cache, not
// beside the sources and not nowhere: compiling the SDK again takes seconds.
func pythonEnv() []string {
	return append(os.Environ(),
		"PYTHONPYCACHEPREFIX="+filepath.Join(lab.cache, "pycache"), "PYTHONDONTWRITEBYTECODE=")
}

// newest returns the last n bytes of s.
func newest(s string, n int) string {
	return s[max(0, len(s)-n):]
}
