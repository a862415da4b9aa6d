package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of the CPU times in /proc/PID/stat, which Linux fixes
// at 100 per second for every program that asks.
const clockTick = 10 * time.Millisecond

// cpuTime returns the CPU time that a process has used, system and user.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of a process: %w", err)
	}
	return parseStat(stat)
}

// parseStat reads utime and stime (proc(5)): the 14th and 15th field. The
// second is a name in parentheses that may hold anything.
func parseStat(stat []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errors.New("a process status without a name")
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("a process status of %d fields", len(fields))
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("the CPU time of a process: %w", err)
	}
	return time.Duration(user+system) * clockTick, nil
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
			return 0, fmt.Errorf("%s %q is no size", name, rest)
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
