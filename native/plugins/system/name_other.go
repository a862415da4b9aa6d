//go:build !linux

package system

import (
	"context"
	"math"

	"github.com/shirou/gopsutil/v4/process"
)

// kernelName is the length to which the kernel cuts names.
const kernelName = math.MaxInt

// processName returns the name of a process's program.
func processName(ctx context.Context, pid int32) (string, error) {
	p, err := process.NewProcessWithContext(ctx, pid)
	if err != nil {
		return "", err
	}
	return p.NameWithContext(ctx)
}
