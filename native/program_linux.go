package native

import (
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// seals make a copy immutable.
const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// copyProgram reads a program to its end and returns an immutable copy, or the program
// itself if the system has no such copies.
func copyProgram(f *os.File, from io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate("plugin", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		_, err := io.Copy(io.Discard, from)
		return f, err
	}
	own := os.NewFile(uintptr(fd), "plugin")
	if _, err := io.Copy(own, from); err != nil {
		own.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(own.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		own.Close()
		return nil, fmt.Errorf("seal a copy: %w", err)
	}
	return own, nil
}

// runOpen makes a command run an open file. The file stays open in the process, because
// the interpreter of a script reads it again.
func runOpen(cmd *exec.Cmd, f *os.File) {
	cmd.ExtraFiles = []*os.File{f}
	cmd.Path = "/proc/self/fd/3"
}
