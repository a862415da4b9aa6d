package queuetest

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testserver"
	"github.com/toolgate/toolgate/native/queue"
)

var backlog = flag.Int("backlog", 2000, "how many jobs TestBacklog queues")

const (
	// flat is how much the heap of gateway and worker may grow in all.
	flat = 3 << 20
	// bodySize is that of a job of the backlog.
	bodySize = 512
	// adders and enders are how many add jobs, and end them, at a time.
	adders, enders = 128, 64
)

// Backlog queues many jobs that nobody waits for, has a worker end them, and fails if the memory
// of gateway and worker grows with them. kept is how many bytes an engine may keep of each job
// in the gateway; 0 for one that has them elsewhere. It does not run in parallel.
func Backlog(t *testing.T, open Open, kept int) {
	jobs := *backlog
	r := NewRig(t, open, queue.Bounds{Waiting: jobs + 1, WaitingPerPrincipal: jobs + 1, Keep: time.Hour, Lease: 5 * time.Minute, Attempts: 2})
	r.Job(nil)
	if err := r.Lease().Finish(t.Context(), done("")); err != nil { // whatever one job needs is there
		t.Fatal(err)
	}
	before := held()
	check := func(when string, limit int) {
		grown := held() - before
		t.Logf("%s: the heap has grown by %d KiB, %d bytes per job", when, grown>>10, grown/jobs)
		if grown > limit {
			t.Errorf("%s: the heap of gateway and worker has grown by %d KiB, at most %d", when, grown>>10, limit>>10)
		}
	}
	began := time.Now()
	r.addAll(jobs)
	t.Logf("%d jobs added in %v", jobs, time.Since(began).Round(time.Millisecond))
	check("all wait", flat+jobs*kept)
	began = time.Now()
	ended := r.endAll(jobs)
	t.Logf("%d jobs ended in %v", jobs, time.Since(began).Round(time.Millisecond))
	for id, times := range ended {
		if times != 1 {
			t.Errorf("the job %s was delivered %d times", id, times)
		}
	}
	if len(ended) != jobs {
		t.Errorf("%d jobs were delivered, want %d", len(ended), jobs)
	}
	clear(ended)
	check("all have ended", flat+jobs*kept)
}

// addAll adds jobs of a hundred callers.
func (r *Rig) addAll(jobs int) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range adders {
		all.Go(func() {
			for i := next.Add(1); i <= int64(jobs); i = next.Add(1) {
				j := r.New(func(j *queue.Job) { j.Principal, j.Body = fmt.Sprint("p", i%100), make([]byte, bodySize) })
				if err := r.Gateway.Enqueue(r.TB.Context(), j); err != nil {
					r.TB.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// endAll leases and ends jobs, and returns how often each was delivered. It gives up when none
// comes for a while.
func (r *Rig) endAll(jobs int) map[string]int {
	var mu sync.Mutex
	ended := make(map[string]int, jobs)
	for left := jobs; left > 0; {
		ctx, cancel := context.WithTimeout(r.TB.Context(), patience)
		got, err := r.Worker.Lease(ctx, r.Queue, "w", enders)
		cancel()
		if err != nil {
			r.TB.Errorf("%d jobs are left, and none comes: %v", left, err)
			break
		}
		var all sync.WaitGroup
		for _, l := range got {
			all.Go(func() {
				if err := l.Finish(r.TB.Context(), done("")); err != nil {
					r.TB.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ended[l.Job().ID]++
			})
		}
		all.Wait()
		left -= len(got)
	}
	return ended
}

// held returns what the heap holds.
func held() int {
	var m runtime.MemStats
	for range 2 { // what has a finalizer goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// brokerVariable tells a test program that it is a broker.
const brokerVariable = "TOOLGATE_TEST_BROKER"

// ServeBroker runs a broker, and does not return, in a program that [StartBroker] has started.
// TestMain calls it first.
func ServeBroker(start func() (address string, stop func(), err error)) {
	if os.Getenv(brokerVariable) == "" {
		return
	}
	address, stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the broker does not start:", err)
		os.Exit(1)
	}
	fmt.Println(address)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
	stop()
	os.Exit(0)
}

// StartBroker starts the broker of [ServeBroker] in a process of its own, so that what it keeps
// is not memory of the test, and returns its address.
func StartBroker(t testing.TB) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]) // it ends with its input
	cmd.Env = append(os.Environ(), brokerVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := testserver.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		if err := p.End(syscall.Signal(0), patience); err != nil {
			t.Error(err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("the broker says no address: ", err)
	}
	return strings.TrimSpace(address)
}
