package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/child"
)

// talkVariable has the test binary play a server that talks to itself.
const talkVariable = "TOOLGATE_TEST_TALK"

func TestMain(m *testing.M) {
	if os.Getenv(talkVariable) != "" {
		for _, part := range []string{"Server ready\n{\"a\"", ":1}\r\n", "\n{\"b\":2}\n[1,", "2]\n{"} {
			_, _ = os.Stdout.WriteString(part)
		}
		_, _ = os.Stdout.WriteString(strings.Repeat("x", 20<<20) + "\n{\"c\":3}\n{\"half\"")
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestProcessLines(t *testing.T) {
	t.Parallel()
	p, err := child.Start(t.Context(), child.Spec{Command: os.Args[0], Env: []string{talkVariable + "=1", "GORACE=atexit_sleep_ms=0"}})
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
