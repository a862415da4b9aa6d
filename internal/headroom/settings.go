package headroom

import (
	"time"

	"github.com/toolgate/toolgate/config/units"
)

// Settings say when a gateway runs short of memory or disk. It is then in the
// mode DEGRADED as long as nobody sets another, and leaves it by itself when it
// has been well below the threshold again for a time.
type Settings struct {
	// Allows the automatic switch. Default: true.
	Auto *bool `config:"auto"`
	// Percentage of the memory limit at which memory is short; it is no longer short ten points below. Default: 90.
	Memory int `config:"memory" default:"90" min:"20" max:"100"`
	// How much memory this process should use. The limit of its cgroup always applies too. Default: the variable
	// GOMEMLIMIT; without it, only the limit of the cgroup applies, if there is one.
	MemoryLimit units.Size `config:"memory_limit" min:"1MiB"`
	// Free space that the disks of the state folder, the store and the audit log need; the shortage ends at one and a
	// half times as much. 0 turns the check off. Default: 64MiB.
	Disk units.Size `config:"disk" default:"64MiB"`
	// The same as a percentage of each disk; the larger of the two applies. Default: 0.
	DiskPercent int `config:"disk_percent" min:"0" max:"90"`
	// How long a shortage must last before the gateway switches to DEGRADED. Default: 5s.
	After time.Duration `config:"after" default:"5s" min:"1s" max:"1h"`
	// How long there must be no shortage before the gateway switches back. Default: 30s.
	Back time.Duration `config:"back" default:"30s" min:"1s" max:"1h"`
}

// Options are what the settings say is to be watched, with the disks of some folders.
func (s *Settings) Options(folders []string) Options {
	o := Options{After: s.After, Back: s.Back}
	if s.Auto != nil && !*s.Auto {
		return o
	}
	if m, ok := Memory(uint64(max(0, s.MemoryLimit)), s.Memory); ok {
		o.Meters = append(o.Meters, m)
	}
	if m, ok := Cgroup(s.Memory); ok {
		o.Meters = append(o.Meters, m)
	}
	if s.Disk > 0 || s.DiskPercent > 0 {
		for _, folder := range folders {
			o.Meters = append(o.Meters, Disk(folder, uint64(max(0, s.Disk)), float64(s.DiskPercent)))
		}
	}
	return o
}
