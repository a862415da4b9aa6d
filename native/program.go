package native

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// program opens a plugin's program and verifies its checksum. Where the system has
// sealed copies, it returns one with the verified bytes, so that later changes of the
// file do not matter.
func program(s *Spec) (_ *os.File, err error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, fmt.Errorf("open the program of the plugin: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the program of the plugin: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file: %w", s.Path, errPermanent)
	}
	want, err := hex.DecodeString(s.SHA256)
	if err != nil || len(want) != sha256.Size {
		return nil, fmt.Errorf("%q is not a checksum: %w", s.SHA256, errPermanent)
	}
	hash := sha256.New()
	own, err := copyProgram(f, io.TeeReader(io.LimitReader(f, info.Size()+1), hash))
	if err != nil {
		return nil, fmt.Errorf("read the program of the plugin: %w", err)
	}
	if own != f {
		f.Close()
		f = own
	}
	if got := hash.Sum(nil); subtle.ConstantTimeCompare(got, want) != 1 {
		return nil, fmt.Errorf("the checksum of %s is %x and not the configured one, so it is not run: %w", s.Path, got, errPermanent)
	}
	return f, nil
}

// unconfined returns a command that runs a verified program, or its path where the
// system cannot run an open file. The file must stay open until the start.
func unconfined(s *Spec, program *os.File) *exec.Cmd {
	cmd := &exec.Cmd{Path: s.Path, Args: append([]string{filepath.Base(s.Path)}, s.Args...), Env: slices.Clone(s.Env), Dir: "/"}
	runOpen(cmd, program)
	return cmd
}
