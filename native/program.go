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
)

// program opens a plugin's program and verifies its checksum. The command that it
// returns runs the very bytes that were verified, whatever is done to the file
// meanwhile; where the system cannot do that, it runs the path. The file that it
// returns must be open until the command has been started.
func program(s *Spec) (_ *exec.Cmd, _ *os.File, err error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("open the program of the plugin: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("look at the program of the plugin: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a file: %w", s.Path, errPermanent)
	}
	want, err := hex.DecodeString(s.SHA256)
	if err != nil || len(want) != sha256.Size {
		return nil, nil, fmt.Errorf("%q is not a checksum: %w", s.SHA256, errPermanent)
	}
	hash := sha256.New()
	own, err := copyProgram(f, io.TeeReader(io.LimitReader(f, info.Size()+1), hash))
	if err != nil {
		return nil, nil, fmt.Errorf("read the program of the plugin: %w", err)
	}
	if own != f {
		f.Close()
		f = own
	}
	if got := hash.Sum(nil); subtle.ConstantTimeCompare(got, want) != 1 {
		return nil, nil, fmt.Errorf("the checksum of %s is %x and not the configured one, so it is not run: %w", s.Path, got, errPermanent)
	}
	cmd := &exec.Cmd{Path: s.Path, Args: append([]string{filepath.Base(s.Path)}, s.Args...), Env: s.Env, Dir: "/"}
	runOpen(cmd, f)
	return cmd, f, nil
}
