//go:build unix

package orphan

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/toolgate/toolgate/internal/orphan/guardian"
)

// gateTime is how long a gate may take to become the program of a child.
const gateTime = 10 * time.Second

// start starts a child, behind a gate if there is a guardian.
func (k *keeper) start(path string, argv []string, attr *os.ProcAttr) (*os.Process, *Child, error) {
	c := k.expect()
	if c != nil && k.pid() != 0 {
		process, err := c.startBehindGate(path, argv, attr)
		if process != nil || err != nil {
			return process, c, err
		}
		// This program file was replaced since the start, and has no gates.
	}
	process, err := os.StartProcess(path, argv, attr)
	if err == nil {
		c.Started(process.Pid)
	}
	return process, c, err
}

// startBehindGate starts this program as a gate, which becomes the child's program once
// the guardian knows the child. It returns neither a process nor an error when that is
// not possible.
func (c *Child) startBehindGate(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	env := attr.Env
	if env == nil {
		env = os.Environ()
	}
	plan, err := (&guardian.Plan{Path: path, Argv: argv, Env: env}).Encode()
	if err != nil {
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: err}
	}
	g, err := c.of.openGate(attr)
	if err != nil {
		return nil, nil // it is started without a gate, which reports the error
	}
	defer g.close()
	c.Started(g.process.Pid)
	entered, err := g.enter(plan)
	if entered && err == nil {
		return g.process, nil
	}
	_ = g.process.Kill() // it may have ended
	c.Ended()
	_, _ = g.process.Wait()
	if !entered {
		return nil, nil
	}
	return nil, &os.PathError{Op: "fork/exec", Path: path, Err: err}
}

// gate is a process that becomes a program.
type gate struct {
	process *os.Process
	plan    *os.File // for the description of the program
	report  *os.File // for the result
}

// openGate starts a gate with the attributes of the child.
func (k *keeper) openGate(attr *os.ProcAttr) (*gate, error) {
	self, err := k.program()
	if err != nil {
		return nil, err
	}
	plan, planIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	report, reportIn, err := os.Pipe()
	if err != nil {
		planIn.Close()
		return nil, err
	}
	defer reportIn.Close()
	own := *attr
	own.Env = []string{"GOMAXPROCS=1"} // the plan holds the program's environment
	own.Files = append(append([]*os.File{}, attr.Files...), plan, reportIn)
	process, err := os.StartProcess(self, []string{guardian.GateName, guardian.Version, strconv.Itoa(len(attr.Files))}, &own)
	if err != nil {
		planIn.Close()
		report.Close()
		return nil, err
	}
	return &gate{process: process, plan: planIn, report: report}, nil
}

// enter makes the gate become the program. It reports whether the process was a gate at
// all, and why the program does not run.
func (g *gate) enter(plan []byte) (entered bool, err error) {
	deadline := time.Now().Add(gateTime)
	_ = g.plan.SetWriteDeadline(deadline) // a pipe has deadlines
	_ = g.report.SetReadDeadline(deadline)
	_, wrong := g.plan.Write(plan)
	g.plan.Close()
	text, err := io.ReadAll(io.LimitReader(g.report, 2))
	switch {
	case len(text) == 0 || text[0] != guardian.Entered:
		return false, nil
	case len(text) == 2:
		return true, syscall.Errno(text[1])
	case err != nil || wrong != nil:
		return true, fmt.Errorf("become the program within %s: %w", gateTime, errors.Join(err, wrong))
	}
	return true, nil
}

func (g *gate) close() {
	g.plan.Close()
	g.report.Close()
}
