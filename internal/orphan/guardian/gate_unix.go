//go:build unix

package guardian

import (
	"errors"
	"os"
	"syscall"
)

// GateName is the name of a process that becomes a program as soon as it is told which
// one. A child is started as a gate, so that the guardian knows its group before
// anything runs that could start a process. The second argument is the number of a
// descriptor from which the gate reads a [Plan]. To the next descriptor it writes
// [Entered] and, if it could not become the program, the system's error number as a
// byte.
const (
	GateName = "toolgate-gate"
	Entered  = 'g'
)

// Plan is the program that a gate becomes.
type Plan struct {
	Path      string
	Argv, Env []string
}

// maxPlan bounds a plan, in bytes. No system accepts as much.
const maxPlan = 64 << 20

// Encode returns p as bytes. Texts must not contain zero bytes.
func (p *Plan) Encode() ([]byte, error) {
	var texts []byte
	for _, text := range append(append([]string{p.Path, decimal(len(p.Argv))}, p.Argv...), p.Env...) {
		for i := range len(text) {
			if text[i] == 0 {
				return nil, syscall.EINVAL
			}
		}
		texts = append(append(texts, text...), 0)
	}
	// The length comes first, so that a plan that was cut off is detected.
	return append([]byte(decimal(len(texts))+" "), texts...), nil
}

var errPlan = errors.New("the plan is damaged")

// decode parses the output of Encode.
func (p *Plan) decode(data []byte) error {
	length, rest := cut(data)
	if n, ok := number(length); !ok || n != uint64(len(rest)) {
		return errPlan
	}
	var texts []string
	begin := 0
	for i, c := range rest {
		if c == 0 {
			texts = append(texts, string(rest[begin:i]))
			begin = i + 1
		}
	}
	if begin != len(rest) || len(texts) < 2 {
		return errPlan
	}
	n, ok := number([]byte(texts[1]))
	if !ok || n > uint64(len(texts)-2) {
		return errPlan
	}
	p.Path, p.Argv, p.Env = texts[0], texts[2:2+n], texts[2+n:]
	return nil
}

// enter makes this process a gate, and does not return.
func enter() {
	from, ok := number([]byte(os.Args[2]))
	if os.Args[1] != Version || !ok || from > 1<<20 {
		_, _ = os.Stderr.WriteString("toolgate: this is how toolgate starts its servers; it is of no use by hand\n")
		os.Exit(exitStarted)
	}
	plan, report := int(from), int(from)+1
	syscall.CloseOnExec(plan)
	syscall.CloseOnExec(report)
	_, _ = syscall.Write(report, []byte{Entered})
	var p Plan
	data, err := readAll(plan)
	if err == nil {
		err = p.decode(data)
	}
	if err != nil {
		os.Exit(exitRead) // the gateway has ended
	}
	errno, ok := syscall.Exec(p.Path, p.Argv, p.Env).(syscall.Errno) //nolint:errorlint // it is one
	if !ok {
		errno = syscall.EINVAL
	}
	_, _ = syscall.Write(report, []byte{byte(errno)}) // there are fewer
	os.Exit(exitRead)
}

// readAll reads a pipe to its end.
func readAll(fd int) ([]byte, error) {
	var data []byte
	part := make([]byte, 16<<10)
	for {
		n, err := syscall.Read(fd, part)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return data, nil
		}
		if data = append(data, part[:n]...); len(data) > maxPlan {
			return nil, errPlan
		}
	}
}

// decimal formats a number that is not negative.
func decimal(n int) string {
	var digits [20]byte
	at := len(digits)
	for {
		at--
		digits[at] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(digits[at:])
		}
	}
}
