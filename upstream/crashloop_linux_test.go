package upstream

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

var crashes = flag.Int("crashes", 40, "processes that TestCrashLoops lets crash")

// held is what this process holds at a moment.
type held struct {
	heap                         int64 // KiB in use
	goroutines, files, processes int
}

func (h held) String() string {
	return fmt.Sprintf("%d KiB, %d goroutines, %d open files, %d processes", h.heap, h.goroutines, h.files, h.processes)
}

func holding(t *testing.T) held {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return held{int64(m.HeapAlloc >> 10), runtime.NumGoroutine(), len(files), len(children(t))}
}

// children are the processes whose parent is this one, the dead ones among them
// that nobody has waited for.
func children(t *testing.T) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(text, []byte(") "))
		fields := bytes.Fields(rest)
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A server whose process crashes at each call, again and again, leaves nothing
// behind: memory, goroutines, descriptors and processes are where they began. It
// is not parallel: it counts what the whole process holds.
func TestCrashLoops(t *testing.T) {
	if before := children(t); len(before) > 0 {
		t.Fatalf("children of others: %v", before)
	}
	spec := childServer("hostile", mcp.Legacy)
	spec.Isolation = IsolateSession
	r := run(t, spec)
	r.state(mcp.Degraded)
	crash := func(n int) {
		for i := range n {
			call := tool("crash", `{}`)
			call.Session = fmt.Sprint(i)
			if failure := r.fails(call); failure.Kind != mcp.FailUnavailable || !failure.Delivered {
				t.Fatalf("crash %d: %+v", i, failure)
			}
			r.EndSession(call.Principal, call.Session)
		}
	}
	settled := func() (h held) {
		testwait.Until(t, patience, "the processes have ended", func() bool { return len(children(t)) == 1 }) // that of the server itself
		testwait.Until(t, patience, "the rest too", func() bool {
			before := h
			<-time.After(20 * time.Millisecond)
			h = holding(t)
			return h.goroutines == before.goroutines && h.files == before.files
		})
		return h
	}
	crash(max(1, *crashes/10))
	before := settled()
	crash(*crashes)
	testwait.Until(t, patience, "back where it began", func() bool {
		now := settled()
		return now.goroutines <= before.goroutines && now.files <= before.files && now.processes <= before.processes && now.heap <= before.heap+4096
	})
	t.Logf("%d crashes: %v before, %v after", *crashes, before, settled())
	r.log.mu.Lock()
	r.log.lines = nil
	r.log.mu.Unlock()
}
