package child

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/toolgate/toolgate/internal/failure"
)

// headBytes is how much of a program is read to say why the system does not start it: more
// than the first line of a script may have.
const headBytes = 512

// unstartable says why the system does not start a program that is there. The system names
// the program itself where it means the interpreter, and does not say what is wrong with a
// format. Other errors are returned as they are.
func unstartable(path string, err error) error {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok || at.Path != path {
		return err
	}
	f, openErr := os.Open(path)
	if openErr != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, headBytes)
	n, _ := io.ReadFull(f, head) // a short file is read whole
	head = head[:n]
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	script, isScript := bytes.CutPrefix(line, []byte("#!"))
	interpreter, _, _ := strings.Cut(strings.TrimSpace(string(script)), " ")
	switch {
	case errors.Is(err, fs.ErrNotExist) && isScript && bytes.HasSuffix(line, []byte{'\r'}):
		return failure.Reworded(err, "%s has the line ends of Windows, so the system looks for %q; convert it, such as with `sed -i 's/\\r$//' %s`", path, interpreter+"\r", path)
	case errors.Is(err, fs.ErrNotExist) && isScript:
		return failure.Reworded(err, "the first line of %s names %s, which is not there; install it, or correct the line", path, interpreter)
	case errors.Is(err, fs.ErrNotExist):
		return failure.Reworded(err, "%s needs a loader that is not there: it is made for another C library (glibc or musl); install the build for this system", path)
	case !errors.Is(err, syscall.ENOEXEC):
		return err
	case n == 0:
		return failure.Reworded(err, "%s is empty; install the program again, or correct the path", path)
	}
	if system := madeFor(head); system != "" {
		return failure.Reworded(err, "%s is made for %s, and this machine is %s/%s; install the build for it", path, system, runtime.GOOS, runtime.GOARCH)
	}
	return failure.Reworded(err, "%s is neither a program nor a script that names its interpreter; if it is a script, begin it with a line such as #!/bin/sh", path)
}

// madeFor names the system that a program is made for, by its first bytes; empty if they
// are none of a program.
func madeFor(head []byte) string {
	switch {
	case len(head) >= 20 && bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		order := binary.ByteOrder(binary.LittleEndian)
		if head[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
			order = binary.BigEndian
		}
		machine := elf.Machine(order.Uint16(head[18:])).String()
		return "the processor " + strings.ToLower(strings.TrimPrefix(machine, "EM_"))
	case bytes.HasPrefix(head, []byte{0xcf, 0xfa, 0xed, 0xfe}), bytes.HasPrefix(head, []byte{0xca, 0xfe, 0xba, 0xbe}):
		return "macOS"
	case bytes.HasPrefix(head, []byte("MZ")):
		return "Windows"
	}
	return ""
}
