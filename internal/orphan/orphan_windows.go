package orphan

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Child is a process that is guarded. A nil Child is guarded like the others: the
// system knows them all.
type Child struct{}

var joined sync.Once

// Guard has the children of this process guarded from here on: this process joins a
// job that all its descendants are in, and that the system ends with its last handle,
// which nobody else has. The function, which must not be nil, is told when that is not to be
// had. Guard may be called again; end does nothing, as the job ends with this process.
func Guard(warn func(error)) (end func()) {
	joined.Do(func() {
		if err := join(); err != nil {
			warn(err)
		}
	})
	return func() {}
}

// join puts this process into a job of its own. Its handle stays open until the
// process ends.
func join() error {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return fmt.Errorf("create a job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return fmt.Errorf("limit a job object: %w", err)
	}
	if err := windows.AssignProcessToJobObject(job, windows.CurrentProcess()); err != nil {
		_ = windows.CloseHandle(job) // nobody is in it
		return fmt.Errorf("join a job object: %w", err)
	}
	return nil
}

// StartProcess is [os.StartProcess]: who is started is in the job.
func StartProcess(path string, argv []string, attr *os.ProcAttr) (*os.Process, *Child, error) {
	process, err := os.StartProcess(path, argv, attr)
	return process, nil, err
}

// Expect does nothing: who is started is in the job.
func Expect() *Child { return nil }

// Look does nothing: nobody leaves a job.
func Look() {}

// Guardian returns 0: there is none.
func Guardian() int { return 0 }

// Started does nothing.
func (c *Child) Started(int) {}

// Ended does nothing.
func (c *Child) Ended() {}
