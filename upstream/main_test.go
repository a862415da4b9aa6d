package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/child"
)

// childVariable names the part that the test binary plays when it is started
// as somebody's child.
const childVariable = "TOOLGATE_TEST_CHILD"

// reexec holds the parts, by name. Test files add theirs in init. A part that
// returns exits with code 0.
var reexec = map[string]func(){}

func TestMain(m *testing.M) {
	if name, ok := os.LookupEnv(childVariable); ok {
		part, ok := reexec[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "no test child is called %q\n", name)
			os.Exit(97)
		}
		part()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// raceSetting keeps the race detector from sleeping a second at each exit.
const raceSetting = "GORACE=atexit_sleep_ms=0"

func init() {
	reexec["talk"] = func() {
		for _, part := range []string{"Server ready\n{\"a\"", ":1}\r\n", "\n{\"b\":2}\n[1,", "2]\n{"} {
			_, _ = os.Stdout.WriteString(part)
		}
		_, _ = os.Stdout.WriteString(strings.Repeat("x", 20<<20) + "\n{\"c\":3}\n{\"half\"")
	}
}

func TestProcessLines(t *testing.T) {
	t.Parallel()
	p, err := child.Start(t.Context(), child.Spec{Command: os.Args[0], Env: []string{childVariable + "=talk", raceSetting}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
		p.Stdout().Close()
	})
	var noise []string
	r := newLineReader(p.Stdout(), 1<<20, func(head []byte) { noise = append(noise, string(head)) })
	var got []string
	for {
		line, err := r.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		got = append(got, string(line))
	}
	if diff := cmp.Diff([]string{`{"a":1}`, `{"b":2}`, `[1,2]`, `{"c":3}`}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Server ready", `{"half"`}, noise); diff != "" {
		t.Errorf("noise (-want +got):\n%s", diff)
	}
	if n := r.tooLong.Load(); n != 1 {
		t.Errorf("%d lines were too long, want 1", n)
	}
}
