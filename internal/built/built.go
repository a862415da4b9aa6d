// Package built gives tests and measurements the programs of this module.
package built

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"
)

// buildTime bounds the build of one program from nothing.
const buildTime = 10 * time.Minute

// Program puts the program of a package into the new file to. The flags are those
// of `go build`. It is what is in the source at the moment, without the debugging
// information; the go command keeps what it linked, as it does not for `go build`,
// so that a program that was built before is only copied. It is safe for
// concurrent use.
func Program(ctx context.Context, to, pkg string, flags ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, buildTime, fmt.Errorf("not built within %v", buildTime))
	defer cancel()
	args := slices.Concat([]string{"run", "-exec", "cp"}, flags, []string{pkg, to})
	if runtime.GOOS == "windows" { // has no cp
		args = slices.Concat([]string{"build", "-o", to}, flags, []string{pkg})
	}
	build := exec.CommandContext(ctx, "go", args...)
	if slices.Contains(flags, "-race") { // the race detector needs C, wherever else it is off
		build.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
