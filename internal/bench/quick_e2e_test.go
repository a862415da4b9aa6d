//go:build e2e

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// toolgate is the program of all tests that need it.
var toolgate = sync.OnceValues(func() (path string, err error) {
	if dir, err = os.MkdirTemp("", "tgbench"); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "toolgate")
	return path, build(context.Background(), path, "")
})

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
		"list": 2, "idle sessions": 3, "many servers": 4, "waiting runs": 4, "start": 4, "parked": 1, "gate, list": 2, "gate, bounds": 4, "gate, relations": 2, "budget": 4, "rates": 1,
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
