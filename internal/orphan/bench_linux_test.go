package orphan

import (
	"os"
	"syscall"
	"testing"
)

// What it costs to start a child: alone, behind a gate of this program, and behind one
// of the program that ORPHAN_BENCH_PROGRAM names, such as a toolgate.
func BenchmarkStart(b *testing.B) {
	keepers := map[string]*keeper{"alone": {}, "gate": {}}
	if path := os.Getenv("ORPHAN_BENCH_PROGRAM"); path != "" {
		keepers["gate of "+path] = &keeper{path: path}
	}
	for name, k := range keepers {
		b.Run(name, func(b *testing.B) {
			if name != "alone" {
				defer k.guard(func(err error) { b.Error(err) })()
				k.expect()
			}
			for b.Loop() {
				process, c, err := k.start("/bin/true", []string{"true"}, &os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Setpgid: true}})
				if err != nil {
					b.Fatal(err)
				}
				_, _ = process.Wait()
				c.Ended()
			}
		})
	}
}

// What it costs to start a guardian.
func BenchmarkGuardian(b *testing.B) {
	for b.Loop() {
		k := &keeper{path: os.Getenv("ORPHAN_BENCH_PROGRAM")}
		end := k.guard(func(err error) { b.Error(err) })
		k.expect()
		b.StopTimer()
		end()
		b.StartTimer()
	}
}

// What it costs to tell the guardian of a child.
func BenchmarkTell(b *testing.B) {
	k := &keeper{}
	defer k.guard(func(err error) { b.Error(err) })()
	for b.Loop() {
		c := k.expect()
		c.Started(os.Getpid())
		c.Ended()
	}
}
