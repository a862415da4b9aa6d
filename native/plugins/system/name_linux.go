package system

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// kernelName is how much of a name the kernel keeps.
const kernelName = 15

// processName is the name that the kernel keeps. A longer one would have to be taken
// from the arguments, which are the process's own to write.
func processName(_ context.Context, pid int32) (string, error) {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSuffix(string(name), "\n"), err
}
