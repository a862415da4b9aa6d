package orphan

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Child is a guarded process. A nil Child is guarded too: the job contains all
// descendants.
type Child struct{}

var joined sync.Once

// Guard makes this process join a job object with all its descendants. The system ends
// the job with its last handle, which only this process has. warn, which must not be
// nil, is called when that fails. Guard may be called again; end does nothing, because
// the job ends with this process.
func Guard(warn func(error)) (end func()) {
	joined.Do(func() {
		if err := join(); err != nil {
			warn(err)
		}
	})
	return func() {}
}

// join puts this process into a new job. The handle stays open until the process ends.
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
		_ = windows.CloseHandle(job) // the job is empty
		return fmt.Errorf("join a job object: %w", err)
	}
	return nil
}

// StartProcess is [os.StartProcess]; the child is in the job.
func StartProcess(path string, argv []string, attr *os.ProcAttr) (*os.Process, *Child, error) {
	process, err := os.StartProcess(path, argv, attr)
	return process, nil, err
}

// Expect does nothing; children are in the job.
func Expect() *Child { return nil }

// Look does nothing; nothing can leave the job.
func Look() {}

// Guardian returns 0; there is none.
func Guardian() int { return 0 }

// Started does nothing.
func (c *Child) Started(int) {}

// Ended does nothing.
func (c *Child) Ended() {}
