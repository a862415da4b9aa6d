//go:build amd64 || arm64

package sandbox

import (
	"os/exec"
	"testing"
	"time"
)

// BenchmarkStart compares a confined process with one that is not.
func BenchmarkStart(b *testing.B) {
	real := theMachine()
	plain := real
	plain.namespaces, plain.proc, plain.maxPID = false, false, false
	for _, bb := range []struct {
		name string
		m    machine
	}{{"all layers", real}, {"no namespaces", plain}} {
		b.Run(bb.name, func(b *testing.B) {
			theMachine = func() machine { return bb.m }
			defer func() { theMachine = func() machine { return real } }()
			var used time.Duration // of processors, in the process alone
			for b.Loop() {
				pr, err := Command(b.Context(), Policy{Mode: Auto}, Program{Path: "/usr/bin/true"})
				if err != nil {
					b.Fatal(err)
				}
				if err := pr.Start(); err != nil {
					b.Fatal(err)
				}
				if err := pr.Wait(); err != nil {
					b.Fatal(err)
				}
				if err := pr.Close(); err != nil {
					b.Fatal(err)
				}
				used += pr.Cmd.ProcessState.UserTime() + pr.Cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
	b.Run("not confined", func(b *testing.B) {
		var used time.Duration
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), "/usr/bin/true")
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
			used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/op")
	})
}
