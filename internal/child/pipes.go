package child

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// Pipes are the standard files of a child: our ends and the child's.
type Pipes struct {
	Stdin, Stdout, Stderr *os.File
	Child                 [3]*os.File // in the order of their descriptors
}

// OpenPipes opens the pipes of a child. The caller must close our ends at the end, and
// the child's right after the start, even if that failed.
func OpenPipes() (*Pipes, error) {
	var (
		p    Pipes
		errs [3]error
	)
	p.Child[0], p.Stdin, errs[0] = os.Pipe()
	p.Stdout, p.Child[1], errs[1] = os.Pipe()
	p.Stderr, p.Child[2], errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		p.CloseChild()
		p.Close()
		return nil, err
	}
	return &p, nil
}

// Connect makes the child's ends the standard files of a command.
func (p *Pipes) Connect(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Child[0], p.Child[1], p.Child[2]
}

// CloseChild closes the child's ends.
func (p *Pipes) CloseChild() {
	for _, file := range p.Child {
		file.Close() // does nothing if it was not opened
	}
}

// Close closes our ends.
func (p *Pipes) Close() {
	for _, file := range []*os.File{p.Stdin, p.Stdout, p.Stderr} {
		file.Close()
	}
}

// childOutput is our end of a child's standard output. Once the child is gone Read
// never blocks: it reads what is in the pipe and then ends, even if a process that left
// the group keeps the pipe open. Reading to the end frees the pipe, like Close.
type childOutput struct {
	file *os.File
	gone atomic.Bool

	// Used by Read only.
	left int   // bytes that may still be read once the child is gone
	err  error // returned at the end
}

// drain reports that the child is gone.
func (o *childOutput) drain() {
	o.gone.Store(true)
	o.limitWait()
}

// limitWait bounds the current and the next Read. Where pipes have no deadlines
// (Windows), the job has closed all other ends.
func (o *childOutput) limitWait() {
	_ = o.file.SetReadDeadline(time.Now().Add(drainWait))
}

// Read implements io.Reader.
func (o *childOutput) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for o.err == nil {
		gone := o.gone.Load()
		if gone {
			if o.left <= 0 {
				o.err = io.EOF
				break
			}
			p = p[:min(len(p), o.left)]
			o.limitWait()
		}
		n, err := o.file.Read(p)
		if gone {
			o.left -= n
		}
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			o.err = err
		case gone:
			o.err = io.EOF
		default: // the child has exited meanwhile, and may have left output
		}
		if n > 0 {
			return n, nil
		}
	}
	o.file.Close()
	return 0, o.err
}

// Close frees the pipe. A child that still writes gets an error or a SIGPIPE. It ends a
// running Read, and may be called again.
func (o *childOutput) Close() error {
	if err := o.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
