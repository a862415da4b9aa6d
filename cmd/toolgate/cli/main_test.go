package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/built"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/raced"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

// program is the built toolgate that the tests run, with the race detector where they
// have it. plain is the same without it.
var program, plain string

// everything has the tests run every combination. Without it they leave out those that
// differ from another one in nothing that the program tells apart.
var everything = flag.Bool("everything", raced.On, "run every combination, as under the race detector")

// postgres is the PostgreSQL server of all tests that neither kill nor stop theirs.
var postgres storetest.Server

// TestMain builds toolgate once and runs the tests. The same binary is also the
// server that they put behind a gateway (see package fakeserver).
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-test.fuzzworker") { // runs no program
		os.Exit(m.Run())
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tg")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "toolgate")
	var flags []string
	if raced.On {
		// As the tests are compiled: SQLite is translated from C, and the race detector finds
		// nothing in it and makes it several times slower.
		flags = append(flags, "-race", "-gcflags=modernc.org/...=-race=false")
	}
	if err := built.Program(context.Background(), program, "github.com/toolgate/toolgate/cmd/toolgate", flags...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	plain = program
	if raced.On {
		plain = filepath.Join(dir, "plain", "toolgate")
		if err := errors.Join(os.Mkdir(filepath.Dir(plain), 0o700), built.Program(context.Background(), plain, "github.com/toolgate/toolgate/cmd/toolgate")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	// These tests wait for processes more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the PostgreSQL of the tests:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func TestReport(t *testing.T) {
	tests := []struct {
		name string
		err  error
		code int
	}{
		{"nothing", nil, exitOK},
		{"plain", errors.New("x"), exitUsage},
		{"coded", failure.Newf(failure.Budget, "x"), exitBudget},
		{"coded deeper", fmt.Errorf("while: %w", failure.Newf(failure.Config, "x")), exitConfig},
		{"outermost code", failure.New(failure.Auth, failure.Newf(failure.Tool, "x")), exitAuth},
		{"asked to stop", context.Canceled, exitOK},
		{"asked to stop before the answer", failure.New(failure.Unreachable, context.Canceled), exitUnreachable},
		{"no error has no code", failure.New(failure.Tool, nil), exitOK},
	}
	for _, tt := range tests {
		if got := report(tt.err); got != tt.code {
			t.Errorf("%s: exit code %d, want %d", tt.name, got, tt.code)
		}
	}
}
