package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Mode is whether a process may run where a policy cannot be enforced.
type Mode string

// The modes. The zero Mode is [Required].
const (
	Required Mode = "required" // nothing runs without every layer that the policy needs
	Auto     Mode = "auto"     // the layers that the machine has are used, and shown
	Off      Mode = "off"      // the process runs as the gateway does, with a clean environment
)

// Network is what a process may reach. The zero Network is nothing.
type Network string

// The networks.
const (
	NoNetwork   Network = ""     // no socket but those that it was given
	FullNetwork Network = "full" // what the machine reaches
)

// Policy is what a process may do. The zero Policy allows nothing but to run: it
// reads what every program needs, such as shared libraries, and no more.
type Policy struct {
	Mode Mode

	// Read, Write and Run are files and folders, absolute, with everything in
	// them. What may be written may be read; what may be run may be read.
	Read, Write, Run []string
	// Temp gives the process a private folder for its temporary files, which is
	// removed when it has ended; HOME and TMPDIR lead there.
	Temp    bool
	Network Network
	// Listen lets it make Unix stream sockets to listen on. It connects to none:
	// where the network is full too, and namespaces are not to be had, nothing but
	// permissions of files keeps it from others' sockets.
	Listen bool

	// Zero values are replaced by the defaults.
	CPU       time.Duration // of one process, in processor time; 60 s; below 0 there is no limit
	Memory    int64         // of one process, in bytes of data; 1 GiB
	FileSize  int64         // of one file that is written, in bytes; 1 GiB
	Files     int           // open at once; 256
	Processes int           // at once, of the whole tree; 64
}

// What a policy that does not say allows.
const (
	defaultCPU       = 60 * time.Second
	defaultMemory    = 1 << 30
	defaultFileSize  = 1 << 30
	defaultFiles     = 256
	defaultProcesses = 64
)

// errPath is a path that a policy cannot have.
var errPath = errors.New("must be absolute, without . and .. and repeated or closing slashes")

// checked returns p with its defaults, or what is wrong with it.
func (p Policy) checked() (Policy, error) {
	switch p.Mode {
	case "":
		p.Mode = Required
	case Required, Auto, Off:
	default:
		return p, fmt.Errorf("sandbox: the mode is %q; it is required, auto or off", p.Mode)
	}
	switch p.Network {
	case NoNetwork, FullNetwork:
	default:
		return p, fmt.Errorf("sandbox: the network is %q; it is empty for none, or full", p.Network)
	}
	for _, list := range [][]string{p.Read, p.Write, p.Run} {
		for _, path := range list {
			if err := checkPath(path); err != nil {
				return p, err
			}
		}
	}
	for _, n := range []int64{p.Memory, p.FileSize, int64(p.Files), int64(p.Processes)} {
		if n < 0 {
			return p, fmt.Errorf("sandbox: a limit is %d; it is more than 0, or 0 for its default", n)
		}
	}
	p.CPU = orDefault(p.CPU, defaultCPU)
	p.Memory = orDefault(p.Memory, defaultMemory)
	p.FileSize = orDefault(p.FileSize, defaultFileSize)
	p.Files = orDefault(p.Files, defaultFiles)
	p.Processes = orDefault(p.Processes, defaultProcesses)
	return p, nil
}

func checkPath(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return fmt.Errorf("sandbox: path %q: %w", path, errPath)
	}
	return nil
}

func orDefault[T int | int64 | time.Duration](n, fallback T) T {
	if n == 0 {
		return fallback
	}
	return n
}
