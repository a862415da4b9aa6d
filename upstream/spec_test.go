package upstream

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

// The hash changes with everything that makes it a different server, and with nothing
// else.
func TestSpecHash(t *testing.T) {
	base := Spec{
		Key: "a", Transport: Stdio, Command: "npx", Args: []string{"x", "y"}, Dir: "/d", Env: []string{"A=1"},
		URL: "http://h/", Headers: map[string]string{"H": "1", "I": "2"}, Era: mcp.Legacy, Local: "me",
	}
	same := map[string]func(*Spec){
		"nothing":         func(*Spec) {},
		"timeouts":        func(s *Spec) { s.Timeouts.Call = time.Hour },
		"limits":          func(s *Spec) { s.Limits.Conns = 1 },
		"off":             func(s *Spec) { s.Off = true },
		"the default set": func(s *Spec) { s.Isolation = IsolateAuto },
	}
	for name, change := range same {
		s := base
		if change(&s); s.Hash() != base.Hash() {
			t.Errorf("%s changes the hash", name)
		}
	}
	other := map[string]func(*Spec){
		"questions":     func(s *Spec) { s.Questions.Roots = true },
		"key":           func(s *Spec) { s.Key = "b" },
		"command":       func(s *Spec) { s.Command = "npxx" },
		"split of args": func(s *Spec) { s.Args = []string{"xy"} },
		"args order":    func(s *Spec) { s.Args = []string{"y", "x"} },
		"args to env":   func(s *Spec) { s.Args, s.Env = []string{"x"}, []string{"y", "A=1"} },
		"dir":           func(s *Spec) { s.Dir = "" },
		"env":           func(s *Spec) { s.Env = nil },
		"url":           func(s *Spec) { s.URL += "x" },
		"header":        func(s *Spec) { s.Headers = map[string]string{"H": "1", "I": "3"} },
		"no header":     func(s *Spec) { s.Headers = map[string]string{"H": "1"} },
		"era":           func(s *Spec) { s.Era = mcp.Modern },
		"isolation":     func(s *Spec) { s.Isolation = IsolateShared },
		"local":         func(s *Spec) { s.Local = "" },
	}
	seen := map[string]string{base.Hash(): "the original"}
	for name, change := range other {
		s := base
		change(&s)
		if twin := seen[s.Hash()]; twin != "" {
			t.Errorf("%s has the hash of %s", name, twin)
		}
		seen[s.Hash()] = name
	}
}

func TestSpecKind(t *testing.T) {
	for want, spec := range map[string]Spec{
		"npx":    {Transport: Stdio, Command: "/usr/local/bin/npx"},
		"docker": {Command: `C:\bin\docker`},
		"stdio":  {Transport: Stdio, Command: "./server"},
		"http":   {Transport: SSE, URL: "http://h/"},
	} {
		if got := spec.Kind(); got != want {
			t.Errorf("Kind of %+v = %s, want %s", spec, got, want)
		}
	}
}

func TestSpecDefaults(t *testing.T) {
	s := Spec{Timeouts: Timeouts{Call: time.Second}, Limits: Limits{Concurrency: 5}}
	d := s.withDefaults()
	want := Timeouts{Start: 30 * time.Second, List: 10 * time.Second, Call: time.Second, Hard: 30 * time.Minute, Think: 10 * time.Second}
	if diff := cmp.Diff(want, d.Timeouts); diff != "" {
		t.Errorf("timeouts (-want +got):\n%s", diff)
	}
	if d.Limits.Conns != 8 || d.Isolation != IsolateAuto || s.Limits.Conns != 0 {
		t.Errorf("limits %+v, isolation %s; the original %+v", d.Limits, d.Isolation, s)
	}
}

func TestStaticCredential(t *testing.T) {
	c := NewStatic(map[string]string{"authorization": "Bearer k", "x-a": "1"})
	h, err := c.Headers(t.Context(), "anyone")
	if diff := cmp.Diff(http.Header{"Authorization": {"Bearer k"}, "X-A": {"1"}}, h); diff != "" || err != nil {
		t.Errorf("Headers = %v (-want +got):\n%s", err, diff)
	}
	if c.Key("ann") != c.Key("bob") {
		t.Error("one credential has two keys")
	}
}
