package main

import (
	"os"
	"slices"
	"testing"
)

func TestParseStatus(t *testing.T) {
	for _, tt := range []struct {
		name, status string
		want         memory
		ok           bool
	}{
		{"plain", "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n", memory{1 << 20, 2 << 20}, true},
		{"no peak", "VmRSS:\t1024 kB\n", memory{1 << 20, 0}, false},
		{"another unit", "VmHWM:\t1 MB\nVmRSS:\t1 kB\n", memory{1 << 10, 0}, false},
		{"empty", "", memory{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStatus([]byte(tt.status))
			if (err == nil) != tt.ok || got != tt.want {
				t.Errorf("parseStatus = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// TestOwnUsage reads what the system says of this very process.
func TestOwnUsage(t *testing.T) {
	if _, err := cpuTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	m, err := memoryOf(os.Getpid())
	if err != nil || m.resident <= 0 || m.peak < m.resident/2 {
		t.Errorf("memoryOf = %+v, %v", m, err)
	}
	before, err := openFiles(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	after, err := openFiles(os.Getpid())
	f.Close()
	if err != nil || after != before+1 {
		t.Errorf("%d files are open (%v), before %d", after, err, before)
	}
	if _, err := cpuTime(-1); err == nil {
		t.Error("the CPU time of nobody")
	}
}

func TestParseCounters(t *testing.T) {
	const text = "# HELP go_goroutines Number\ngo_goroutines 12\ngo_memstats_alloc_bytes_total 1.5e+06\n" +
		"go_memstats_heap_inuse_bytes 2.5e+06\nother 1\n"
	got, err := parseCounters([]byte(text))
	if want := (counters{1.5e6, 2.5e6, 12}); err != nil || got != want {
		t.Errorf("parseCounters = %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "go_goroutines 12\n", text + "go_goroutines x\n"} {
		if _, err := parseCounters([]byte(bad)); err == nil {
			t.Errorf("parseCounters(%q) found everything", bad)
		}
	}
}

// A bridge has its server below it, and nobody below that.
func TestDescendants(t *testing.T) {
	r := benchRoom(t)
	b, err := r.serve("bridge")
	if err != nil {
		t.Fatal(err)
	}
	below, err := descendants(b.pid())
	if err != nil || len(below) != 1 {
		t.Fatalf("below the bridge: %v, %v", below, err)
	}
	if mine, err := descendants(os.Getpid()); err != nil || !slices.Contains(mine, b.pid()) || !slices.Contains(mine, below[0]) {
		t.Errorf("below this process: %v, %v", mine, err)
	}
	if _, err := cpuTimes(b.pid(), below[0]); err != nil {
		t.Error(err)
	}
	if _, err := cpuTimes(b.pid(), 0); err == nil {
		t.Error("process 0 has a CPU time")
	}
}
