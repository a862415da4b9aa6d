//go:build unix

package guardian

import (
	"os"
	"syscall"
)

// Exit codes of a guardian.
const (
	exitDone    = 0
	exitStarted = 2 // it was started in the wrong way
	exitRead    = 3
)

// maxLine bounds a line of the gateway, in bytes.
const maxLine = 256

func init() {
	switch {
	case len(os.Args) == 4 && os.Args[0] == Name:
		guard()
	case len(os.Args) == 3 && os.Args[0] == GateName:
		enter()
	}
}

// guard makes this process a guardian, and does not return.
func guard() {
	gateway, ok := number([]byte(os.Args[2]))
	group, fine := number([]byte(os.Args[3]))
	if os.Args[1] != Version || !ok || !fine {
		_, _ = os.Stderr.WriteString("toolgate: this is how toolgate starts its own guardian; it is of no use by hand\n")
		os.Exit(exitStarted)
	}
	settle()
	t := newTable(int(gateway), int(group)) // numbers of processes
	if !t.follow(0) {
		os.Exit(exitRead)
	}
	t.end()
	os.Exit(exitDone)
}

// follow reads the gateway's lines until the gateway is gone. It reports whether that
// is why it returns.
func (t *table) follow(fd int) bool {
	var buffer [4096]byte
	held := 0
	for {
		n, err := syscall.Read(fd, buffer[held:])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return false
		case n == 0:
			return true
		}
		held = t.lines(buffer[:], held+n)
	}
}

// lines processes the complete lines at the beginning of a buffer, moves the rest to
// the beginning and returns its length.
func (t *table) lines(buffer []byte, held int) int {
	begin := 0
	for i := range held {
		if buffer[i] == '\n' {
			t.line(buffer[begin:i])
			begin = i + 1
		}
	}
	left := copy(buffer, buffer[begin:held])
	if left > maxLine {
		return 0 // no line of a gateway is that long
	}
	return left
}

// number parses a decimal number.
func number(text []byte) (n uint64, ok bool) {
	if len(text) == 0 || len(text) > 19 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}
