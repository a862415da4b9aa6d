//go:build unix

package native

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/toolgate/toolgate/internal/orphan"
)

// startGuarded starts a process whose group ends with the gateway.
func (p *plain) startGuarded() (err error) {
	var files []*os.File
	for _, of := range []any{p.Stdin, p.Stdout, p.Stderr} {
		file, ok := of.(*os.File)
		if !ok {
			return errors.New("a plugin has files as its standard files")
		}
		files = append(files, file)
	}
	p.Process, p.guarded, err = orphan.StartProcess(p.Path, p.Args, &os.ProcAttr{
		Dir: p.Dir, Env: p.Environ(), Files: append(files, p.ExtraFiles...), Sys: p.SysProcAttr,
	})
	return err
}

// killGroup ends a process and what it has started, as far as that has stayed in
// its group. It fails only where nobody is left.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
