package system

import (
	"context"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/toolgate/toolgate/native/toolapi"
)

const (
	// mostProcesses bounds the returned processes.
	mostProcesses = 100
	// longestName bounds a returned name, because a process may choose any name.
	longestName = 64
)

type health struct {
	Pid     int32   `json:"pid"`
	Parent  int32   `json:"parent"`
	Name    string  `json:"name"`
	State   string  `json:"state"`
	RSS     uint64  `json:"rss_bytes"`
	CPU     float64 `json:"cpu_percent"`
	Threads int32   `json:"threads"`
	Started string  `json:"started,omitempty"`
}

func (s *service) processes(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
	var pid int64
	var name string
	if err := toolapi.Read(call.Arguments, toolapi.Fields{"pid": &pid, "name": &name}); err != nil {
		return toolapi.Result{}, err
	}
	if (pid == 0) == (name == "") || pid < 0 || pid > math.MaxInt32 {
		return toolapi.Result{}, toolapi.Problemf("Give either pid, a number from 1 on, or name.")
	}
	out := struct {
		Processes []health `json:"processes"`
		More      bool     `json:"more,omitempty"`
	}{Processes: []health{}}
	if pid > 0 {
		h, ok := look(ctx, int32(pid))
		if !ok {
			return toolapi.Result{}, toolapi.Problemf("There is no process %d that can be seen from here.", pid)
		}
		out.Processes = append(out.Processes, h)
		return toolapi.Answer(out)
	}
	pids, err := process.PidsWithContext(ctx)
	if err != nil {
		return toolapi.Result{}, err
	}
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return toolapi.Result{}, err
		}
		if is, err := processName(ctx, pid); err != nil || !named(is, name) {
			continue
		}
		if len(out.Processes) == mostProcesses {
			out.More = true
			break
		}
		if h, ok := look(ctx, pid); ok {
			out.Processes = append(out.Processes, h)
		}
	}
	return toolapi.Answer(out)
}

// named tells whether a process has a name. The system may have cut the process's
// name.
func named(is, name string) bool {
	if len(name) > kernelName && len(is) == kernelName {
		name = name[:kernelName]
	}
	return is == name
}

// look reports on a process, if it still exists.
func look(ctx context.Context, pid int32) (health, bool) {
	p, err := process.NewProcessWithContext(ctx, pid)
	if err != nil {
		return health{}, false
	}
	name, err := processName(ctx, pid)
	if err != nil {
		return health{}, false
	}
	h := health{Pid: pid, Name: shown(name), State: "unknown"}
	if states, err := p.StatusWithContext(ctx); err == nil {
		h.State = strings.Join(states, ",")
	}
	h.Parent, _ = p.PpidWithContext(ctx)
	h.Threads, _ = p.NumThreadsWithContext(ctx)
	if m, err := p.MemoryInfoWithContext(ctx); err == nil {
		h.RSS = m.RSS
	}
	if percent, err := p.CPUPercentWithContext(ctx); err == nil && percent > 0 && !math.IsInf(percent, 0) {
		h.CPU = math.Round(percent*100) / 100
	}
	if ms, err := p.CreateTimeWithContext(ctx); err == nil && ms > 0 {
		h.Started = time.UnixMilli(ms).UTC().Format(time.RFC3339)
	}
	return h, true
}

// shown makes a process name or a log line safe to show on a terminal.
func shown(text string) string {
	if len(text) > longestName {
		text = text[:longestName]
	}
	return legible(text)
}

// legible replaces characters that are not text.
func legible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}
