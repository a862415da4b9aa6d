package main

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// newTestLab makes a lab with the toolgate that the tests share.
func newTestLab(t *testing.T) *lab {
	t.Helper()
	binary, err := toolgate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLab(t.Context(), binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// TestQuick runs every case with small counts: that they work and count
// rightly, not how fast they are.
func TestQuick(t *testing.T) {
	l := newTestLab(t)
	n := benchCounts(true)
	lines := map[string]int{
		"list": 2, "idle sessions": 3, "many servers": 4, "waiting runs": 3, "start": 4, "parked": 1, "gate, list": 2, "gate, bounds": 4, "gate, relations": 2, "budget": 4, "rates": 1,
		"breaker, refusal": 1, "breaker, neighbours": 2, "native, calls": 2, "native, start": 3, "native, handshake": 1,
		"telemetry": 2, "watched": 2, "credentials": 1, "everything": 14,
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		lines["budget"]++
		lines["everything"] += 2
	}
	for _, c := range trials {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			rows, err := c.run(t.Context(), l, &n)
			if err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			want := lines[c.name]
			switch {
			case strings.HasPrefix(c.name, "echo"), strings.HasPrefix(c.name, "restart"), strings.HasPrefix(c.name, "cross"):
				want = 2
			case strings.HasPrefix(c.name, "light"):
				want = 7
			case strings.HasPrefix(c.name, "many upstreams"):
				want = 4
			case strings.HasPrefix(c.name, "stdio"):
				want = 6
			case strings.HasPrefix(c.name, "large"):
				want = 3
			case strings.HasPrefix(c.name, "gate, ") && want == 0:
				want = 2
			}
			if len(rows) != want {
				t.Fatalf("%d lines, want %d: %+v", len(rows), want, rows)
			}
			if first := rows[0]; first.name == "" || first.toolgate == "" {
				t.Errorf("the first line says nothing: %+v", first)
			}
			judged := 0
			for _, r := range rows {
				if (r.limit == "") != (r.verdict == none) {
					t.Errorf("%s: the limit is %q, the verdict %q", r.name, r.limit, r.verdict)
				}
				if r.limit != "" {
					judged++
				}
			}
			if judged == 0 {
				t.Error("nothing of it has a limit")
			}
		})
	}
}

func TestQuickSoak(t *testing.T) {
	l := newTestLab(t)
	var out bytes.Buffer
	if err := soak(t.Context(), l, soakCounts(true), "", &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| sessions opened, used once and ended ", "| calls over 16 sessions ", "| restarts of the server ", "Commit "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// TestQuickRunDoesNotJudge takes the way of the command line.
func TestQuickRunDoesNotJudge(t *testing.T) {
	l := newTestLab(t)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-quick", "-toolgate", l.toolgate, "-only", "list"}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n| tools/list, 1000 tools of 10 servers "); got != 1 {
		t.Errorf("%d lines about the list, want 1:\n%s", got, out.String())
	}
}

// TestMissedLimit has a trial that misses its limit.
func TestMissedLimit(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    counts
		v    verdict
		want error
	}{
		{"missed", counts{judge: true}, missed, errMissed},
		{"missed, not judged", counts{}, missed, nil},
		{"held", counts{judge: true}, held, nil},
		{"no limit", counts{judge: true}, none, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := finish([]row{{name: "first", verdict: held}, {name: "second", verdict: tt.v}}, tt.n, 0, &out)
			if !errors.Is(err, tt.want) {
				t.Errorf("finish: %v, want %v", err, tt.want)
			}
			if !strings.Contains(out.String(), "| second ") {
				t.Errorf("the table is not there:\n%s", out.String())
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{{"sok"}, {"-nonsense"}, {"-quick", "now"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out, t.Output()); err == nil {
			t.Errorf("run(%q) did not refuse", args)
		}
		if out.Len() > 0 {
			t.Errorf("run(%q) wrote %q", args, out.String())
		}
	}
}

// TestProgramEndsWithItsInput keeps programs from outliving their runner.
func TestProgramEndsWithItsInput(t *testing.T) {
	r := benchRoom(t)
	up := fastServerOf(t, r, setting{"legacy", "json"})
	up.stdin.Close()
	<-up.ended
	if up.err != nil {
		t.Errorf("the server ended with %v\n%s", up.err, up.stderr.bytes())
	}
}

func TestStartOfWhatIsNotThere(t *testing.T) {
	r := benchRoom(t)
	if _, err := r.start("nothing", nil, r.dir+"/nothing"); err == nil {
		t.Error("a program that is not there was started")
	}
	if _, err := r.serve("upstream", "-listen", "nonsense"); err == nil || !strings.Contains(err.Error(), "listen on nonsense") {
		t.Errorf("a server without an address: %v", err)
	}
}
