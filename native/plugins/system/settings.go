package system

import (
	"slices"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/native/group"
)

// Settings are the section native.system: it serves facts about this machine.
type Settings struct {
	// Files, or folders of files, that read_logs may read. Default: none.
	Logs []string `config:"logs" format:"path"`
	// Folders whose file systems are measured. Default: the system's own.
	Disks []string `config:"disks" format:"path"`
	// How much of a log one call reads. Default: 1MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	group.Confined
}

// Child implements [group.Settings].
func (s *Settings) Child(g *group.Gateway) group.Child {
	child := group.Child{Policy: s.Policy(), Config: Config{Logs: s.Logs, Disks: s.Disks, Own: g.Own, MaxBytes: int64(s.MaxBytes)}}
	child.Policy.Read = slices.Concat(s.Logs, s.Disks, group.Existing("/proc", "/sys", "/etc"))
	return child
}
