//go:build e2e

package matrix

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// children are the processes of this one, zombies included, where the system
// tells (Linux); elsewhere there are none to be seen.
func children(t *testing.T) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var own []int
	for _, path := range all {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name, which may hold anything) state ppid ...
		_, rest, _ := strings.Cut(string(raw), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			own = append(own, pid)
		}
	}
	return own
}
