package code

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/internal/orphan"
)

// mostRounds bounds how often children of what was ended are looked for.
const mostRounds = 1000

// adopt has processes whose parents have ended become children of this one.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of what runs leave behind: %w", err)
	}
	return nil
}

// endOrphans kills the children of this process that are not known, and theirs, which
// become its own by that. Its guardian is one that it keeps.
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

// childrenOf finds the children of a process. They are its threads' children.
func childrenOf(pid int) []int {
	var out []int
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue // a thread that has ended
		}
		for text := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(text); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
