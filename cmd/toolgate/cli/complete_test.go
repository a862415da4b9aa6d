//go:build !windows

package cli

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one"), "demo": {"command": program, "args": []string{"demo-server"}}}, nil)
	// Without a gateway there is nothing, and nothing is made.
	silent := func(when string) {
		t.Helper()
		began := time.Now()
		o := h.run(t, "__complete", "call", "--file", h.file, "")
		if o.stdout != ":4\n" || o.code != exitOK || strings.Contains(o.stderr, "toolgate:") {
			t.Errorf("%s: %+v", when, o)
		}
		if took := time.Since(began); took > patience/2 {
			t.Errorf("%s: it took %v", when, took)
		}
	}
	silent("no gateway")
	if _, err := os.Stat(h.path("state")); err == nil {
		t.Error("a state folder was made")
	}
	p, _ := h.up(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{""}, "a__echo\na__fail\na__fault\na__picture\na__pid\tTell the process id\na__slow\tWait for a file\n" +
			"demo__add\tAdd two whole numbers\ndemo__count\tCount slowly, with progress\ndemo__echo\tSay something back\ndemo__time\tTell the time of this machine\n:4\n"},
		{[]string{"a__p"}, "a__picture\na__pid\tTell the process id\n:4\n"},
		{[]string{"b"}, ":4\n"},
		{[]string{"demo__add", ""}, "a=\tthe first number\nb=\tthe second number\n:6\n"},
		{[]string{"demo__add", "b"}, "b=\tthe second number\n:6\n"},
		{[]string{"demo__add", "b=1", ""}, "a=\tthe first number\n:6\n"},
		{[]string{"demo__add", "b=1"}, ":6\n"},
		{[]string{"a__absent", ""}, ":4\n"},
	} {
		got := h.ok(t, append([]string{"__complete", "call", "--file", h.file}, tt.args...)...)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.args, diff)
		}
	}
	p.in.Close()
}

// A gateway that does not answer is not waited for longer than a person would.
func TestCompletionHasADeadline(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, nil)
	h.ok(t, "ls", h.file) // makes the token
	socket := strings.TrimSuffix(h.stateFile(t, "admin.token"), "admin.token") + "control.sock"
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := h.ok(t, "__complete", "call", "--file", h.file, ""); got != ":4\n" {
		t.Errorf("%q", got)
	}
}

// What a server writes into its texts does not reach the terminal as commands.
func TestDescribe(t *testing.T) {
	for _, tt := range [][3]string{
		{"a", "text", "a\ttext"},
		{"a", "", "a"},
		{"a", "one\ntwo", "a\tone"},
		{"a\tb", "\x1b[31mred\u009b", "ab\t[31mred"},
		{"a", strings.Repeat("ü", 61), "a\t" + strings.Repeat("ü", 59) + "…"},
	} {
		if got := describe(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%q, %q: %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}
