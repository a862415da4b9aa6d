//go:build linux

package native

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/plugins/text"
)

// tick is the unit in which Linux counts the processor time of a process.
const tick = 10 * time.Millisecond

// used is the processor time of this process and of another.
func used(b *testing.B, pid int) time.Duration {
	b.Helper()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	total := time.Duration(own.Utime.Nano() + own.Stime.Nano())
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		total += time.Duration(n) * tick
	}
	return total
}

// BenchmarkCall is a call of a shipped tool, with the processor time of both
// processes.
func BenchmarkCall(b *testing.B) {
	h, err := NewHost(Options{Folder: b.TempDir() + "/s", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	p := h.Plugin(shipped(text.Name))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Run(ctx)
	}()
	defer func() {
		stop()
		<-ended
	}()
	call := callOf("echo", `{"text":"hello"}`)
	if _, err := p.Call(ctx, call); err != nil {
		b.Fatal(err)
	}
	if _, s := p.Listing(); s.State != mcp.Ready {
		b.Fatal(s)
	}
	before := used(b, p.PID())
	n := 0
	for b.Loop() {
		if _, err := p.Call(ctx, call); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64((used(b, p.PID())-before).Microseconds())/float64(n), "cpu-µs/call")
}
