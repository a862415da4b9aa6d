package system

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// kernelName is the length to which the kernel cuts names.
const kernelName = 15

// processName returns the name that the kernel keeps. A longer name exists only in the
// arguments, which the process itself can change.
func processName(_ context.Context, pid int32) (string, error) {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSuffix(string(name), "\n"), err
}
