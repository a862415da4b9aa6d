//go:build !linux

package native

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// copyProgram reads a program to its end and returns it.
func copyProgram(f *os.File, from io.Reader) (*os.File, error) {
	_, err := io.Copy(io.Discard, from)
	return f, err
}

// runOpen leaves the command as it is: an open file cannot be run here.
func runOpen(cmd *exec.Cmd, _ *os.File) { cmd.Dir = filepath.Dir(cmd.Path) }
