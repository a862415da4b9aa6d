package declared

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
)

// program is a command that runs this binary.
func program(t *testing.T, what string, args ...string) *Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Command{Args: append([]string{self, childMark, what}, args...), Policy: sandbox.Policy{Mode: sandbox.Auto, Temp: true}}
}

// TestArguments shows what a program gets: every element is one argument.
func TestArguments(t *testing.T) {
	for name, tc := range map[string]struct {
		argv   []string
		dashes []string
		args   string
		want   []string // nil where the call is refused
		fail   string
	}{
		"as they are":         {argv: []string{"a b", "$HOME", "`id`", "{{x}}"}, args: `{}`, want: []string{"a b", "$HOME", "`id`", "{x}"}},
		"one argument":        {argv: []string{"{x}"}, args: `{"x":"a b; rm -rf / && $(id) \u0060id\u0060 | x > y\n--z"}`, want: []string{"a b; rm -rf / && $(id) `id` | x > y\n--z"}},
		"numbers":             {argv: []string{"-n{x}", "{y}"}, args: `{"x":5,"y":true}`, want: []string{"-n5", "true"}},
		"empty":               {argv: []string{"{x}", "b"}, args: `{"x":""}`, want: []string{"", "b"}},
		"a flag":              {argv: []string{"{x}"}, args: `{"x":"--upload-pack=touch x"}`, fail: "may not begin with a dash"},
		"a flag by two":       {argv: []string{"{x}{y}"}, args: `{"x":"","y":"-rf"}`, fail: "may not begin with a dash"},
		"a negative number":   {argv: []string{"{x}"}, args: `{"x":-5}`, fail: "may not begin with a dash"},
		"a declared dash":     {argv: []string{"{x}"}, dashes: []string{"x"}, args: `{"x":-5}`, want: []string{"-5"}},
		"a flag's value":      {argv: []string{"--x={x}"}, args: `{"x":"-5"}`, want: []string{"--x=-5"}},
		"a list":              {argv: []string{"{x}"}, args: `{"x":["a","b"]}`, fail: "must be a text"},
		"a zero":              {argv: []string{"{x}"}, args: `{"x":"a\u0000b"}`, fail: "zero character"},
		"a path":              {argv: []string{"/x/{x}.log"}, args: `{"x":"today"}`, want: []string{"/x/today.log"}},
		"a path's dots":       {argv: []string{"/x/{x}.log"}, args: `{"x":"a.b"}`, want: []string{"/x/a.b.log"}},
		"upwards":             {argv: []string{"/x/{x}.log"}, args: `{"x":"../../etc/shadow"}`, fail: "may not hold slashes"},
		"one up":              {argv: []string{"/x/{x}"}, args: `{"x":".."}`, fail: "two dots"},
		"up in parts":         {argv: []string{"/x/{x}{y}/z"}, args: `{"x":".","y":"."}`, fail: "dots alone"},
		"up with a literal":   {argv: []string{"/x/.{x}/z"}, args: `{"x":"."}`, fail: "dots alone"},
		"the folder itself":   {argv: []string{"/x/{x}/z"}, args: `{"x":"."}`, fail: "dots alone"},
		"an empty segment":    {argv: []string{"/x/{x}/z"}, args: `{"x":""}`, fail: "may not be empty"},
		"a slash":             {argv: []string{"--file=/x/{x}"}, args: `{"x":"a/b"}`, fail: "may not hold slashes"},
		"a backslash":         {argv: []string{"/x/{x}"}, args: `{"x":"a\\b"}`, fail: "may not hold slashes"},
		"no root":             {argv: []string{"{x}/y"}, args: `{"x":""}`, fail: "may not be empty"},
		"no root by another":  {argv: []string{"{x}/y"}, args: `{"x":"/etc"}`, fail: "may not hold slashes"},
		"not looked into":     {argv: []string{"{x}", "{y}"}, args: `{"x":"{y}","y":"z"}`, want: []string{"{y}", "z"}},
		"a place in a scheme": {argv: []string{"https://a.example/{x}"}, args: `{"x":"../b"}`, fail: "may not hold slashes"},
	} {
		t.Run(name, func(t *testing.T) {
			c := program(t, "args", tc.argv...)
			c.Dashes = tc.dashes
			b := backend(t, Tool{Input: schema("x=", "y="), Command: c})
			text, _, failed := answerOfCall(t, b, tc.args)
			if said := b.Check(t.Context(), "it", []byte(tc.args)); (said != "") != failed || failed && said != text {
				t.Errorf("checked: %q, called: %q", said, text)
			}
			if failed != (tc.fail != "") || !strings.Contains(text, tc.fail) {
				t.Fatalf("%s, %v; want %s", text, failed, tc.fail)
			}
			var got []string
			if !failed {
				if err := json.Unmarshal([]byte(text), &got); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEnvironment has nothing of the gateway's: a canary in it does not arrive.
func TestEnvironment(t *testing.T) {
	t.Setenv("CANARY", "canary-of-the-host")
	c := program(t, "env")
	c.Env = map[string]string{"OWN": "own value"}
	text, _, _ := answerOfCall(t, backend(t, Tool{Command: c}), `{}`)
	if strings.Contains(text, "CANARY") || strings.Contains(text, "canary") {
		t.Errorf("the host's environment is there: %s", text)
	}
	var got struct {
		Env []string
		Dir string
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range got.Env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"HOME", "OWN", "PATH", "TMPDIR"}; runtime.GOOS == "linux" && !cmp.Equal(want, names) {
		t.Errorf("%v", names)
	}
	if _, err := os.Stat(got.Dir); err == nil && strings.Contains(got.Dir, "toolgate-sandbox") {
		t.Errorf("the private folder %s is still there", got.Dir)
	}
}

func TestOutputs(t *testing.T) {
	stdin := program(t, "stdin")
	stdin.Stdin = []byte(`{"all":"{*}","x":"{x}"}`)
	if text, structured, failed := answerOfCall(t, backend(t, Tool{Input: schema("x"), Output: []byte(`{"type":"object"}`), Command: stdin}), `{"x":1}`); structured != `{"all":{"x":1},"x":1}` || failed {
		t.Errorf("%s, %s", text, structured)
	}
	plain := program(t, "stdin")
	plain.Stdin = []byte(`"{x}"`)
	if text, _, _ := answerOfCall(t, backend(t, Tool{Input: schema("x"), Command: plain}), `{"x":"-rf\n"}`); text != "-rf\n" {
		t.Errorf("%q", text)
	}
	failing := program(t, "fail", "{x}")
	failing.Env = map[string]string{"TOKEN": "canary-of-a-token"}
	text, _, failed := answerOfCall(t, backend(t, Tool{Input: schema("x"), Command: failing}), `{"x":"y"}`)
	if !failed || text != "The program failed: exit status 3.\n\nhalf an answer [y]\n\nit broke, and the token is [redacted]" {
		t.Errorf("%q", text)
	}
	if text, _, failed := answerOfCall(t, backend(t, Tool{MaxBytes: 1000, Command: program(t, "flood")}), `{}`); failed || len(text) > 1100 || !strings.Contains(text, "[cut:") {
		t.Errorf("%d bytes, %v", len(text), failed)
	}
}

// TestTimeout ends the whole tree.
func TestTimeout(t *testing.T) {
	b := backend(t, Tool{Timeout: 300 * time.Millisecond, Command: program(t, "hang")})
	_, err := b.Call(t.Context(), calling(`{}`))
	if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Kind != mcp.FailTimeout {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("the caller has left")
	time.AfterFunc(200*time.Millisecond, func() { cancel(mine) })
	if _, err := backend(t, Tool{Command: program(t, "hang")}).Call(ctx, calling(`{}`)); !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
}

func TestConfinement(t *testing.T) {
	dir := t.TempDir()
	secret, granted := filepath.Join(dir, "secret"), filepath.Join(dir, "granted")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(granted, 0o700); err != nil {
		t.Fatal(err)
	}
	layers, err := sandbox.Available(sandbox.Policy{Mode: sandbox.Auto, Temp: true})
	if err != nil {
		t.Fatal(err)
	}
	confined := layers.Has(sandbox.Files) || layers.Has(sandbox.Namespaces)
	for _, tc := range []struct {
		what, path string
		refused    bool
	}{
		{"read", secret, confined}, {"write", secret, confined}, {"write", filepath.Join(granted, "new"), false},
	} {
		c := program(t, tc.what, tc.path)
		c.Policy.Write = []string{granted}
		if text, _, _ := answerOfCall(t, backend(t, Tool{Command: c}), `{}`); (text == "refused") != tc.refused {
			t.Errorf("%s %s: %s", tc.what, tc.path, text)
		}
	}
	c := program(t, "args")
	c.Policy.Mode = "" // required
	b := backend(t, Tool{Command: c})
	_, err = b.Call(t.Context(), calling(`{}`))
	if missing := errors.Is(err, sandbox.ErrMissing); err != nil && !strings.Contains(err.Error(), "confine") && !missing {
		t.Errorf("%v", err)
	}
}
