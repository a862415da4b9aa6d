package guardian

import "golang.org/x/sys/unix"

// StartTime returns a value that distinguishes a process from a later one with the same
// id; 0 where there is none, or it is unknown.
func StartTime(pid int) uint64 {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0
	}
	began := info.Proc.P_starttime
	return uint64(began.Sec)*1e6 + uint64(began.Usec) // not negative
}
