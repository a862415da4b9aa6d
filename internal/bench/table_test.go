package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "write the goldens anew")

func TestTable(t *testing.T) {
	got := table([]row{
		{
			name: "echo, legacy sessions, JSON", reverse: series{84, 74, 90}.both("µs"), toolgate: series{104, 90, 120}.both("µs"),
			ratio: short(1.234), limit: "1.2, 24 KB", alloc: short(11.52), verdict: within(1.234, maxRatio),
		},
		{name: "1 MB result", toolgate: series{2.3}.both("ms"), limit: "3 ms", alloc: short(1064), verdict: within(2.3, 3)},
		{name: "- something more", toolgate: "5 of 7"},
	})
	path := filepath.Join("testdata", "table.md")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestSeries(t *testing.T) {
	for _, tt := range []struct {
		s            series
		median, best float64
	}{
		{nil, 0, 0},
		{series{3}, 3, 3},
		{series{9, 1, 5}, 5, 1},
		{series{4, 1, 3, 2}, 2.5, 1},
	} {
		if m, b := tt.s.median(), tt.s.best(); m != tt.median || b != tt.best {
			t.Errorf("%v: median %v, best %v; want %v, %v", tt.s, m, b, tt.median, tt.best)
		}
	}
	got := series{6, 5, 4}.per(series{3, 0, 8, 1})
	if diff := cmp.Diff(series{2, 0, 0.5}, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("per (-want +got):\n%s", diff)
	}
}

func TestShort(t *testing.T) {
	for f, want := range map[float64]string{0: "0.00", 1.234: "1.23", 9.99: "9.99", 12.34: "12.3", 123.4: "123", 1980.2: "1980"} {
		if got := short(f); got != want {
			t.Errorf("short(%v) = %q, want %q", f, got, want)
		}
	}
}
