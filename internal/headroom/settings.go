package headroom

import (
	"time"

	"github.com/toolgate/toolgate/config/units"
)

// Settings say when a gateway runs short of memory or disk. It is then in the
// mode DEGRADED as long as nobody sets another, and leaves it by itself when it
// has been well below the threshold again for a time.
type Settings struct {
	// Auto lets the gateway do so. Absent: yes.
	Auto *bool `config:"auto"`
	// Memory is the percentage of a memory limit at which memory is short; ten less is well below. Absent: 90.
	Memory int `config:"memory" default:"90" min:"20" max:"100"`
	// MemoryLimit is how much memory this process should use. Absent: the variable GOMEMLIMIT. Without either, the limit of its cgroup counts alone, where there is one; it always counts.
	MemoryLimit units.Size `config:"memory_limit" min:"1MiB"`
	// Disk is what has to be free on the disks of the state folder, the store and the audit log; half as much again is well above. 0 asks for nothing. Absent: 64MiB.
	Disk units.Size `config:"disk" default:"64MiB"`
	// DiskPercent is the same as a percentage of each disk; the larger of both counts. Absent: 0.
	DiskPercent int `config:"disk_percent" min:"0" max:"90"`
	// After is how long there is a shortage before it counts. Absent: 5s.
	After time.Duration `config:"after" default:"5s" min:"1s" max:"1h"`
	// Back is how long there is none before it counts no more. Absent: 30s.
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
