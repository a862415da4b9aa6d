package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// cpuTimes is the CPU time of some processes together.
func cpuTimes(pids ...int) (all time.Duration, err error) {
	for _, pid := range pids {
		one, err := cpuTime(pid)
		if err != nil {
			return 0, err
		}
		all += one
	}
	return all, nil
}

// maxDepth bounds how far down the processes of a process are looked for.
const maxDepth = 8

// descendants are the processes that a process has started, and those that they have.
func descendants(pid int) (all []int, err error) {
	level := []int{pid}
	for range maxDepth {
		var next []int
		for _, one := range level {
			children, err := childrenOf(one)
			if err != nil {
				return nil, err
			}
			next = append(next, children...)
		}
		all, level = append(all, next...), next
	}
	return all, nil
}

// memory is what a process holds, in bytes.
type memory struct {
	resident int64 // now
	peak     int64 // since its start
}

func memoryOf(pid int) (memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, fmt.Errorf("read the memory of a process: %w", err)
	}
	return parseStatus(status)
}

// parseStatus reads VmRSS and VmHWM (proc(5)).
func parseStatus(status []byte) (memory, error) {
	resident, err1 := statusSize(status, "VmRSS:")
	peak, err2 := statusSize(status, "VmHWM:")
	return memory{resident, peak}, errors.Join(err1, err2)
}

func statusSize(status []byte, name string) (int64, error) {
	for line := range bytes.Lines(status) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		number, unit, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		size, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || string(unit) != "kB" {
			return 0, fmt.Errorf("%s %q is not a size", name, rest)
		}
		return size << 10, nil
	}
	return 0, fmt.Errorf("no %s in the status of a process", name)
}

// openFiles returns how many file descriptors a process has.
func openFiles(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, fmt.Errorf("count the open files of a process: %w", err)
	}
	return len(entries), nil
}
