package code_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/plugins/code"
	"github.com/toolgate/toolgate/native/toolapi"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folder makes a temporary folder and returns its real path.
func folder(t *testing.T) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return real
}

// program finds a program of this machine.
func program(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("the tests need one of %v", names)
	return ""
}

func python(t *testing.T) string {
	t.Helper()
	return program(t, "/usr/bin/python3", "python3")
}

func open(t *testing.T, c code.Config) map[string]toolapi.Tool {
	t.Helper()
	if c.Sandbox == "" {
		c.Sandbox = sandbox.Auto
	}
	raw, err := json.Marshal(c)
	must(t, err)
	p := code.Plugin()
	list, err := p.Open(raw)
	must(t, err)
	t.Cleanup(p.Close)
	tools := make(map[string]toolapi.Tool)
	for _, tool := range list {
		tools[tool.Name] = tool
	}
	return tools
}

type outcome struct {
	ExitCode int `json:"exit_code"`
	Stdout   string
	Stderr   string
	TimedOut bool   `json:"timed_out"`
	EndedBy  string `json:"ended_by"`
	Cut      bool
	failed   bool
}

// call calls a tool and holds arguments and answer against its schemas.
func call(t *testing.T, tool toolapi.Tool, args map[string]any, into any) error {
	t.Helper()
	raw, err := json.Marshal(args)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := tool.Run(ctx, &toolapi.Call{Arguments: raw, Progress: func(float64, float64, string) {}, Log: func(string, string) {}})
	if err != nil {
		return err
	}
	fits(t, tool.Output, result.Structured)
	must(t, json.Unmarshal(result.Structured, into))
	if out, ok := into.(*outcome); ok {
		out.failed = result.IsError
	}
	return nil
}

func fits(t *testing.T, schema, value []byte) {
	t.Helper()
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	must(t, err)
	must(t, c.AddResource("s.json", doc))
	s, err := c.Compile("s.json")
	must(t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	must(t, err)
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %v", value, err)
	}
}

func run(t *testing.T, tool toolapi.Tool, program string) outcome {
	t.Helper()
	var out outcome
	must(t, call(t, tool, map[string]any{"code": program}, &out))
	return out
}

func problem(t *testing.T, what string, err error, want string) {
	t.Helper()
	if p, ok := errors.AsType[toolapi.Problem](err); !ok || !strings.Contains(string(p), want) {
		t.Errorf("%s: %v, want a problem with %q", what, err, want)
	}
}

func TestDefinitions(t *testing.T) {
	if alone := open(t, code.Config{}); len(alone) != 1 || alone["execute"].Run == nil {
		t.Errorf("without a folder to work in: %d tools", len(alone))
	}
	tools := open(t, code.Config{Queue: true, Roots: []string{folder(t)}})
	if len(tools) != 4 {
		t.Errorf("%d tools", len(tools))
	}
	for name, tool := range tools {
		if tool.Title == "" || tool.Description == "" || tool.Risk == "" || tool.Category == "" || tool.Timeout <= 0 || tool.RatePerHour <= 0 || tool.OpenWorld ||
			tool.Queue != (name != "git_status") || tool.ReadOnly != (name == "git_status") {
			t.Errorf("%s: %+v", name, tool)
		}
		for _, args := range []string{`{"Code":"1"}`, `{"code":"1","code":"2"}`, `[]`, `{"code":"1","path":"/","name":"x"}`} {
			if _, err := tool.Run(t.Context(), &toolapi.Call{Arguments: []byte(args)}); err == nil {
				t.Errorf("%s took %s", name, args)
			}
		}
		fits(t, []byte(`{"type":"object"}`), tool.Input)
	}
	if !tools["execute"].Destructive || tools["execute"].Risk != toolapi.High {
		t.Error("execute is not what it is")
	}
}

// What a configuration would expose is refused when the plugin is opened.
func TestConfiguration(t *testing.T) {
	dir := folder(t)
	must(t, os.MkdirAll(filepath.Join(dir, "work", "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "work", "toolgate.yaml"), nil, 0o600))
	must(t, os.Symlink("work", filepath.Join(dir, "way")))
	work := filepath.Join(dir, "work")
	for want, c := range map[string]code.Config{
		"the gateway's own":              {Roots: []string{work}, Own: []string{work + "/toolgate.yaml"}},
		"own; programs":                  {Roots: []string{work}, Own: []string{work + "/not/there/yet"}},
		"holds " + dir + "/way/toolgate": {Roots: []string{work}, Own: []string{dir + "/way/toolgate.yaml"}},
		"holds " + dir:                   {Roots: []string{work}, Own: []string{dir}},
		"a server is started":            {Roots: []string{work}, Write: []string{work}, Fixed: []string{work + "/server.py"}},
		"not in one of the roots":        {Roots: []string{work + "/sub"}, Write: []string{work}},
		"not the name of an image":       {Container: code.Container{Runtime: "/bin/true", Image: "--privileged"}},
		"not an absolute path":           {Container: code.Container{Runtime: "docker", Image: "x"}},
		"stands alone":                   {Linters: map[string]code.Command{"x": {Command: []string{"/bin/true", "--config={path}"}}}},
		"is not an absolute path":        {Tests: map[string]code.Command{"x": {Command: []string{"make"}}}},
		"the command is empty":           {Tests: map[string]code.Command{"x": {}}},
	} {
		c.Sandbox = sandbox.Auto
		raw, err := json.Marshal(c)
		must(t, err)
		if _, err := code.Plugin().Open(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
	open(t, code.Config{Roots: []string{work + "/sub"}, Write: []string{work + "/sub"}, Own: []string{work + "/toolgate.yaml"}})
}

// What the tools say of their runs is what holds: nothing is promised of a run that
// is not confined.
func TestDescriptionsSayWhatConfines(t *testing.T) {
	t.Parallel()
	for mode, want := range map[sandbox.Mode]string{sandbox.Off: "It is not confined", sandbox.Auto: ""} {
		if mode == sandbox.Auto {
			layers, err := sandbox.Available(sandbox.Policy{Mode: mode})
			must(t, err)
			if want = layers.Caveat(); want == "" {
				want = "It has no network."
			}
		}
		if got := open(t, code.Config{Sandbox: mode})["execute"].Description; !strings.Contains(got, want) {
			t.Errorf("%s: %q lacks %q", mode, got, want)
		}
		container := code.Config{Sandbox: mode, Container: code.Container{Runtime: "/bin/true", Image: "python"}}
		if got := open(t, container)["execute"].Description; !strings.Contains(got, "It has no network.") {
			t.Errorf("%s in a container: %q", mode, got)
		}
	}
}

func TestExecute(t *testing.T) {
	tool := open(t, code.Config{Python: python(t), MaxBytes: 10000})["execute"]
	for program, want := range map[string]outcome{
		`print(6*7)`: {Stdout: "42\n"},
		`import sys; print("é", file=sys.stderr); sys.exit(3)`: {ExitCode: 3, Stderr: "é\n"},
		`raise SystemExit`: {},
		"import os\nprint(os.getcwd() == os.environ['HOME'] == os.environ['TMPDIR'])\nopen('x','w').write('y')\nprint(open('x').read())": {Stdout: "True\ny\n"},
		`import sys; print(sys.stdin.read() == "")`:                {Stdout: "True\n"},
		`import sys; sys.stdout.buffer.write(b"a\xff\x00b")`:       {Stdout: "a\uFFFD\x00b"},
		`import sys; print(sys.flags.isolated, sys.flags.no_site)`: {Stdout: "1 1\n"},
		`import json, re, subprocess, tempfile; print("ok")`:       {Stdout: "ok\n"},
	} {
		if got := run(t, tool, program); got != want {
			t.Errorf("%s: %+v", program, got)
		}
	}
	// Too much output is left out in the middle, whatever it is made of.
	out := run(t, tool, `print("begin" + "x" * 5000000 + "end")`)
	if !out.Cut || len(out.Stdout) > 6000 || !strings.HasPrefix(out.Stdout, "begin") || !strings.HasSuffix(out.Stdout, "end\n") || !strings.Contains(out.Stdout, "bytes left out") {
		t.Errorf("%d bytes, cut %v", len(out.Stdout), out.Cut)
	}
	if out := run(t, tool, "print("); out.ExitCode != 1 || !strings.Contains(out.Stderr, "SyntaxError") || out.failed {
		t.Errorf("%+v", out)
	}
	problem(t, "nothing", call(t, tool, map[string]any{"code": ""}, nil), "from 1 to")
	problem(t, "too much", call(t, tool, map[string]any{"code": strings.Repeat("#", 300<<10)}, nil), "from 1 to")
	problem(t, "no python", call(t, open(t, code.Config{})["execute"], map[string]any{"code": "1"}, nil), "native.code.python")
}

// A script in front of Python, such as version managers have, is left out.
func TestInterpreterOfAVersionManager(t *testing.T) {
	shim := filepath.Join(folder(t), "python3")
	must(t, os.WriteFile(shim, []byte("#!/bin/sh\nexec \"$SECRET_PYTHON\" \"$@\"\n"), 0o755))
	tool := open(t, code.Config{Python: shim})["execute"]
	if real := program(t, "/usr/bin/python3", "/usr/local/bin/python3"); real != "" {
		if out := run(t, tool, "print(1)"); out.Stdout != "1\n" {
			t.Errorf("%+v", out)
		}
	}
}

// A run reaches nothing of the machine's user: neither variables, nor modules that
// lie about, nor files, nor a network.
func TestExecuteReachesNothing(t *testing.T) {
	t.Setenv("CODE_CANARY", "canary")
	dir := folder(t)
	secret := filepath.Join(dir, "secret")
	must(t, os.WriteFile(secret, []byte("canary"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "json.py"), []byte("print('loaded from the folder')"), 0o644))
	t.Chdir(dir)
	t.Setenv("PYTHONPATH", dir)
	t.Setenv("PYTHONSTARTUP", filepath.Join(dir, "json.py"))
	tool := open(t, code.Config{Python: python(t)})["execute"]
	layers, err := sandbox.Available(sandbox.Policy{Mode: sandbox.Auto})
	must(t, err)
	for what, program := range map[string]string{
		"variables":         "import os\nprint(dict(os.environ))",
		"modules":           "import json",
		"the parent's":      "import os\nprint(open('/proc/%d/environ' % os.getppid()).read())",
		"a file":            fmt.Sprintf("print(open(%q).read())", secret),
		"a file by a link":  fmt.Sprintf("import os\nos.symlink(%q, 'l')\nprint(open('l').read())", secret),
		"written elsewhere": fmt.Sprintf("open(%q, 'w').write('canary')", filepath.Join(dir, "new")),
	} {
		out := run(t, tool, program)
		if strings.Contains(out.Stdout, "canary") || strings.Contains(out.Stdout, "loaded") {
			if layers.Has(sandbox.Files) || what == "variables" || what == "modules" {
				t.Errorf("%s: %+v", what, out)
			}
		}
	}
	if layers.Has(sandbox.Files) {
		if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
			t.Error("a file was written elsewhere")
		}
	}
	if layers.Has(sandbox.Calls) {
		if out := run(t, tool, "import socket\nsocket.create_connection(('127.0.0.1', 1), 1)"); out.ExitCode == 0 || strings.Contains(out.Stderr, "refused") {
			t.Errorf("the network: %+v", out)
		}
		if out := run(t, tool, "import os\nopen('f','w').close()\nos.chmod('f', 0o4755)\nprint('set')"); strings.Contains(out.Stdout, "set") {
			t.Errorf("a set-user-ID file: %+v", out)
		}
	}
}

func TestExecuteEnds(t *testing.T) {
	t.Parallel()
	var out outcome
	for limit := 700 * time.Millisecond; out.Stdout == "" && limit < time.Minute; limit *= 3 { // Python may take long to start
		tool := open(t, code.Config{Python: python(t), Timeout: limit, Limits: code.Limits{Memory: 256 << 20}})["execute"]
		out = run(t, tool, "print('begun', flush=True)\nwhile True: pass")
	}
	if !out.TimedOut || out.ExitCode != -1 || out.Stdout != "begun\n" || !out.failed {
		t.Errorf("%+v", out)
	}
	long := open(t, code.Config{Python: python(t), Limits: code.Limits{Memory: 256 << 20, CPU: time.Second}})["execute"]
	layers, err := sandbox.Available(sandbox.Policy{Mode: sandbox.Auto})
	must(t, err)
	if layers.Has(sandbox.Limits) {
		if out := run(t, long, "x = bytearray(1 << 30)"); out.ExitCode == 0 || out.TimedOut {
			t.Errorf("memory: %+v", out)
		}
		if out := run(t, long, "while True: pass"); out.ExitCode != -1 || out.TimedOut || out.EndedBy == "" || !out.failed {
			t.Errorf("processor: %+v", out)
		}
	}
	for _, name := range []string{"timeout", "timeout_seconds"} {
		var short outcome
		must(t, call(t, long, map[string]any{"language": "python", "code": "import time\ntime.sleep(100)", name: 1}, &short))
		if !short.TimedOut {
			t.Errorf("%s: %+v", name, short)
		}
	}
	for _, args := range []map[string]any{{"code": "1", "language": "ruby"}, {"code": "1", "timeout": -1}, {"code": "1", "timeout_seconds": -1}} {
		if err := call(t, long, args, &outcome{}); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

func FuzzKept(f *testing.F) {
	f.Add(10, "hello", "world and more of it")
	f.Add(0, "a", "b")
	f.Fuzz(func(t *testing.T, most int, one, two string) {
		most = min(max(most, 0), 1000)
		for _, whole := range []bool{false, true} {
			text, lost := code.Kept(most, whole, one, two)
			all := one + two
			if kept := len(all) - int(lost); kept > most || kept < 0 {
				t.Fatalf("%d of %d bytes kept, of at most %d", kept, len(all), most)
			}
			if lost == 0 && text != strings.ToValidUTF8(all, "\uFFFD") {
				t.Fatalf("%q", text)
			}
		}
	})
}
