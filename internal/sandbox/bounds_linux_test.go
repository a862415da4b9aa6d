//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The bombs go off in every machine that there is a bound in.
func TestBombs(t *testing.T) {
	folder := t.TempDir()
	const memory = roomForTests
	p := Policy{Mode: Auto, Temp: true, Write: []string{folder}, Run: []string{testBinary(t)}, Memory: memory, FileSize: 1 << 20, Files: 64, Processes: 40, CPU: time.Second}
	eachMachine(t, func(t *testing.T, m machine) {
		for _, tt := range []struct {
			name string
			deed []string
			most int // of what the deed got before it failed; 0 does not matter
		}{
			{"memory", []string{"memory", strconv.Itoa(8 * memory)}, memory},
			// These are not data, and bounded as addresses are.
			{"shared memory", []string{"shared", strconv.Itoa(16 << 30)}, memory + addressRoom},
			{"memory that is read-only afterwards", []string{"mprotect", strconv.Itoa(16 << 30)}, memory + addressRoom},
			{"a file", []string{"bigfile", folder + "/big", "2097152"}, 0},
			{"descriptors", []string{"manyfiles", "100"}, 0},
		} {
			got := runChild(t, p, tt.deed[0], tt.deed[1:]...)
			if !strings.HasPrefix(got, "error: ") && !strings.Contains(got, "out of memory") {
				t.Errorf("%s: got %s", tt.name, got)
				continue
			}
			fields := strings.Fields(got)
			if n, err := strconv.Atoi(fields[len(fields)-1]); err == nil && tt.most > 0 && n > tt.most {
				t.Errorf("%s: it got %d, which is more than %d", tt.name, n, tt.most)
			}
		}
	})
}

// A fork bomb is bounded where the layer says so. Where nothing bounds it, what
// requires confinement is not run.
func TestForkBomb(t *testing.T) {
	eachMachine(t, func(t *testing.T, m machine) {
		p := Policy{Mode: Auto, Temp: true, Run: []string{testBinary(t)}, Processes: 40, Memory: 2 * roomForTests}
		l, err := Available(p)
		if err != nil {
			t.Fatal(err)
		}
		if !l.Has(Processes) {
			p.Mode = Required
			if _, err := Command(t.Context(), p, Program{Path: testBinary(t)}); err == nil || !strings.Contains(err.Error(), "number of processes") {
				t.Errorf("got %v", err)
			}
			return
		}
		got := runChild(t, p, "forkbomb", "1000")
		if !strings.HasPrefix(got, "error: ") && !strings.Contains(got, "failed to create new OS thread") {
			t.Errorf("it started them all: %s", got)
		}
	})
}

// A program that heeds the signal is told of its end, and one that does not is ended
// a second later.
func TestTimeEnds(t *testing.T) {
	real := theMachine()
	eachMachine(t, func(t *testing.T, m machine) {
		p := Policy{Mode: Auto, Temp: true, CPU: time.Second}
		if m != real { // every second that is allowed is spent
			if got := runChild(t, p, "spin", "heed"); got != "caught true\n" {
				t.Errorf("it ended with %s", got)
			}
			return
		}
		got := runChild(t, p, "spin")
		if !strings.Contains(got, "SIGXCPU") && !strings.Contains(got, "signal: killed") && !strings.Contains(got, "CPU time limit") {
			t.Errorf("it ended with %s", got)
		}
	})
}

// A program executes what it has written into its private folder only if the policy says so.
func TestRunsWhatItHasWritten(t *testing.T) {
	self := testBinary(t)
	for may, want := range map[bool]string{false: "Permission denied", true: "own"} {
		p := Policy{Mode: Auto, Temp: true, TempRun: may, Run: []string{"/bin/sh", "/bin/chmod", "/usr/bin/chmod"}}
		if _, err := os.Stat("/bin/chmod"); err != nil {
			p.Run = p.Run[:1]
		}
		var out bytes.Buffer
		pr, err := Command(t.Context(), p, Program{Path: self, Args: []string{
			childMark, "run", "/bin/sh", "-c", "cd $HOME; printf '#!/bin/sh\necho own' >x; chmod +x x; ./x 2>&1; true",
		}})
		if err != nil {
			t.Fatal(err)
		}
		pr.Cmd.Stdout = &out
		if err := pr.Start(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(pr.Wait(), pr.Close()); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, want) {
			t.Errorf("may it: %t; it says %q", may, got)
		}
	}
}

// Whatever modes the program leaves behind, its private folder goes.
func TestPrivateFolderGoes(t *testing.T) {
	self := testBinary(t)
	p := Policy{Mode: Auto, Temp: true, Run: []string{"/bin/sh", "/bin/mkdir", "/usr/bin/mkdir", "/bin/chmod", "/usr/bin/chmod"}}
	if _, err := os.Stat("/bin/mkdir"); err != nil {
		p.Run = p.Run[:1]
	}
	pr, err := Command(t.Context(), p, Program{Path: self, Args: []string{
		childMark, "run", "/bin/sh", "-c", "mkdir -p a/b/c; umask 777; : > a/b/c/d; mkdir a/e; chmod 0 a/b/c a/b a; true",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := pr.Start(); err != nil {
		t.Fatal(err)
	}
	if err := pr.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(pr.Temp); err != nil {
		t.Fatal(err)
	}
	if err := pr.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(pr.Temp); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if err := pr.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}
