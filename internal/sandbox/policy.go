package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Mode says whether a process may run if a policy cannot be enforced.
type Mode string

// The modes. The zero Mode is [Required].
const (
	Required Mode = "required" // nothing runs unless every needed layer is in force
	Auto     Mode = "auto"     // uses and reports the layers that the machine has
	Off      Mode = "off"      // the process has the rights of the gateway, with a clean environment
)

// Network is what a process may reach. The zero Network is nothing.
type Network string

// The networks.
const (
	NoNetwork   Network = ""     // no sockets but those that it inherits
	FullNetwork Network = "full" // everything that the machine reaches
)

// Policy is what a process may do. The zero Policy only lets it run: it may read what
// every program needs, such as shared libraries.
type Policy struct {
	Mode Mode

	// Read, Write and Run are absolute paths of files and of folders with everything in
	// them. Write and Run include reading.
	Read, Write, Run []string
	// Check is asked at each start about the real paths of Read, Write and Run, which alone
	// are granted: its error refuses the start. So a link that has changed since the policy
	// was made does not lead to what nobody may be given. Nil is not asked.
	Check func(read, write, run []string) error `json:"-"`
	// Temp gives the process a private folder, which is removed after its end. HOME and
	// TMPDIR name it.
	Temp bool
	// TempRun lets it execute what it has written there.
	TempRun bool
	Network Network
	// Listen lets it listen on Unix stream sockets. It cannot connect to any. With a full
	// network and without namespaces, only file permissions keep it from the sockets of
	// others.
	Listen bool
	// Unlimited leaves out the limits below, and nothing else.
	Unlimited bool

	// Zero is the default.
	CPU       time.Duration // processor time of one process; 60 s; negative is no limit
	Memory    int64         // bytes of data of one process; 1 GiB
	FileSize  int64         // bytes of a file that it writes; 1 GiB
	Files     int           // open at once; 256
	Processes int           // of the whole tree at once; 64
}

// The defaults of a policy.
const (
	defaultCPU       = 60 * time.Second
	defaultMemory    = 1 << 30
	defaultFileSize  = 1 << 30
	defaultFiles     = 256
	defaultProcesses = 64
)

// errPath is the error of an invalid path in a policy.
var errPath = errors.New("must be absolute, without . and .. and repeated or closing slashes")

// checked returns p with its defaults, or the mistake in it.
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
