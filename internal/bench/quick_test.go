package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

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
