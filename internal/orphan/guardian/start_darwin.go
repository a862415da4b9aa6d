package guardian

import "golang.org/x/sys/unix"

// StartTime returns what tells a process from another one that gets its number when
// it has ended; 0 where there is none, or it is not known.
func StartTime(pid int) uint64 {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0
	}
	began := info.Proc.P_starttime
	return uint64(began.Sec)*1e6 + uint64(began.Usec) //nolint:gosec // not negative
}
