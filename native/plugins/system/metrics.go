package system

import (
	"context"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/toolgate/toolgate/native/toolapi"
)

// watch is how long the processors are measured.
const watch = 200 * time.Millisecond

type snapshot struct {
	At          string      `json:"at"`
	CPU         *processors `json:"cpu,omitempty"`
	Memory      *memory     `json:"memory,omitempty"`
	Load        *loads      `json:"load,omitempty"`
	Disks       []diskUsage `json:"disks"`
	GPUs        []gpu       `json:"gpus,omitempty"`
	Uptime      uint64      `json:"uptime_seconds,omitempty"`
	Unavailable []string    `json:"unavailable,omitempty"`
}

type processors struct {
	Count   int     `json:"count"`
	Percent float64 `json:"percent"`
}

type memory struct {
	Total     uint64  `json:"total"`
	Available uint64  `json:"available"`
	Used      uint64  `json:"used"`
	Percent   float64 `json:"percent"`
	SwapTotal uint64  `json:"swap_total"`
	SwapUsed  uint64  `json:"swap_used"`
}

type loads struct {
	One     float64 `json:"one"`
	Five    float64 `json:"five"`
	Fifteen float64 `json:"fifteen"`
}

type diskUsage struct {
	Path    string  `json:"path"`
	Total   uint64  `json:"total"`
	Used    uint64  `json:"used"`
	Free    uint64  `json:"free"`
	Percent float64 `json:"percent"`
}

// metrics reports the machine's metrics, and names those that the machine does not
// provide.
func (s *service) metrics(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
	if err := toolapi.Read(call.Arguments, toolapi.Fields{}); err != nil {
		return toolapi.Result{}, err
	}
	out := snapshot{At: time.Now().UTC().Format(time.RFC3339), Disks: []diskUsage{}}
	missing := func(what string) { out.Unavailable = append(out.Unavailable, what) }
	count, err := cpu.CountsWithContext(ctx, true)
	if percent, failed := cpu.PercentWithContext(ctx, watch, false); err == nil && failed == nil && len(percent) == 1 {
		out.CPU = &processors{count, percent[0]}
	} else {
		missing("cpu")
	}
	if err := ctx.Err(); err != nil {
		return toolapi.Result{}, err
	}
	if v, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		out.Memory = &memory{Total: v.Total, Available: v.Available, Used: v.Used, Percent: v.UsedPercent}
		if swap, err := mem.SwapMemoryWithContext(ctx); err == nil {
			out.Memory.SwapTotal, out.Memory.SwapUsed = swap.Total, swap.Used
		}
	} else {
		missing("memory")
	}
	if l, err := load.AvgWithContext(ctx); err == nil {
		out.Load = &loads{l.Load1, l.Load5, l.Load15}
	} else {
		missing("load")
	}
	for _, path := range s.disks {
		if d, err := disk.UsageWithContext(ctx, path); err == nil {
			out.Disks = append(out.Disks, diskUsage{path, d.Total, d.Used, d.Free, d.UsedPercent})
		} else {
			missing("disk " + path)
		}
	}
	if found, why := s.gpus(ctx); why != "" {
		missing(why)
	} else {
		out.GPUs = found
	}
	if out.Uptime, err = host.UptimeWithContext(ctx); err != nil {
		missing("uptime")
	}
	return toolapi.Answer(out)
}
