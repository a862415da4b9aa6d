package sandbox

import "time"

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

	// Zero values are replaced by the defaults.
	CPU       time.Duration // of one process, in processor time; 60 s
	Memory    int64         // of one process, in bytes of data; 1 GiB
	FileSize  int64         // of one file that is written, in bytes; 1 GiB
	Files     int           // open at once; 256
	Processes int           // at once, of the whole tree; 64
}
