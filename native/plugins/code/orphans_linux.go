package code

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/orphan"
)

// mostRounds limits how often sweep looks for children of killed processes.
const mostRounds = 1000

// adopt makes orphaned descendants children of this process.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of what runs leave behind: %w", err)
	}
	return nil
}

// endOrphans kills the unknown children of this process, and then their children, which
// it inherits. It spares the guardian.
func endOrphans(known map[int]bool) {
	for range mostRounds {
		found := false
		for _, pid := range childrenOf(os.Getpid()) {
			if known[pid] || pid == orphan.Guardian() {
				continue
			}
			found = true
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
		if !found {
			return
		}
	}
}

// childrenOf returns the children of all threads of a process.
func childrenOf(pid int) []int {
	var out []int
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue // the thread has ended
		}
		for text := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(text); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
