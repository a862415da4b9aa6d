package system

import (
	"path/filepath"
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
	// Lets read_journal read the journal of systemd. Default: false.
	Journal bool `config:"journal"`
	// How much of a log one call reads. Default: 1MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	group.Confined
}

// Child implements [group.Settings].
func (s *Settings) Child(g *group.Gateway) group.Child {
	child := group.Child{Policy: s.Policy()}
	child.Policy.Read = slices.Concat(s.Logs, s.Disks, group.Existing("/proc", "/sys", "/etc"))
	config := Config{
		Logs: s.Logs, Disks: s.Disks, Own: g.Own, MaxBytes: int64(s.MaxBytes), ReadJournal: s.Journal, Nvidia: group.Command("nvidia-smi"),
	}
	if config.Nvidia != "" {
		devices, _ := filepath.Glob("/dev/nvidia*") // the pattern is a good one
		child.Policy.Write = append(child.Policy.Write, devices...)
		child.Policy.Run = append(child.Policy.Run, config.Nvidia)
	}
	if s.Journal {
		if config.Journal = group.Command("journalctl"); config.Journal != "" {
			child.Policy.Read = append(child.Policy.Read, group.Existing("/var/log/journal", "/run/log/journal")...)
			child.Policy.Run = append(child.Policy.Run, config.Journal)
		}
	}
	if len(child.Policy.Run) > 0 {
		child.Policy.Run = append(child.Policy.Run, group.Existing("/lib", "/lib64", "/usr/lib", "/usr/lib64")...)
	}
	child.Config = config
	return child
}
