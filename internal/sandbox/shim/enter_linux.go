//go:build amd64 || arm64

package shim

import (
	"runtime"
	"syscall"
)

// Name is the process name of a shim.
const Name = "toolgate-sandbox"

// failed is the exit code of a shim that did not become its program.
const failed = 126

// init runs on the first thread, which becomes the program. Rights removed from this
// thread alone are removed from everything that runs afterwards.
func init() {
	plan, ok := called()
	if !ok {
		return
	}
	runtime.LockOSThread()
	p := Plan{Report: -1}
	err := p.read(plan)
	if err == nil {
		err = p.become()
	}
	if err == nil {
		syscall.Exit(0)
	}
	text := []byte(err.Error())
	if p.Report >= 0 {
		_, _ = syscall.Write(p.Report, text)
	} else {
		_, _ = syscall.Write(2, append(append([]byte("toolgate: sandbox: "), text...), '\n'))
	}
	syscall.Exit(failed)
}

// called returns the descriptor of the plan if this process is a shim.
func called() (int, bool) {
	line := make([]byte, len(Name)+8)
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	n, err := syscall.Read(fd, line)
	_ = syscall.Close(fd)
	if err != nil || n <= len(Name)+1 || n == len(line) ||
		string(line[:len(Name)]) != Name || line[len(Name)] != 0 {
		return 0, false
	}
	number := 0
	digits := line[len(Name)+1 : n-1]
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		number = number*10 + int(d-'0')
	}
	return number, len(digits) > 0
}

// read reads the plan from a descriptor.
func (p *Plan) read(fd int) error {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return fault("reading the plan", err)
	}
	if stat.Size <= 0 || stat.Size > maxPlan {
		return errPlan
	}
	data := make([]byte, stat.Size)
	n, err := syscall.Pread(fd, data, 0)
	if err != nil {
		return fault("reading the plan", err)
	}
	_ = syscall.Close(fd)
	return p.decode(data[:n])
}

// failure is a failed operation and its cause. Package fmt is too large an import
// here.
type failure struct {
	tried string
	err   error
}

func fault(tried string, err error) error { return &failure{tried, err} }

func (f *failure) Error() string { return f.tried + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }
