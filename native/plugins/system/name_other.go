//go:build !linux

package system

import (
	"context"
	"math"

	"github.com/shirou/gopsutil/v4/process"
)

// kernelName is how much of a name the kernel keeps.
const kernelName = math.MaxInt

// processName is the name of the program that a process is.
func processName(ctx context.Context, pid int32) (string, error) {
	p, err := process.NewProcessWithContext(ctx, pid)
	if err != nil {
		return "", err
	}
	return p.NameWithContext(ctx)
}
