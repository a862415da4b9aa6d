//go:build !windows

package build

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/declared"
)

// A declared command whose Python is the script of a version manager runs the interpreter
// that the script finds; a script that the file names by its path is run as it is.
func TestDeclaredPythonOfAVersionManager(t *testing.T) {
	real, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skipf("there is no Python: %v", err)
	}
	shims := t.TempDir()
	shim := filepath.Join(shims, "python3")
	if err := os.WriteFile(shim, []byte("#!/bin/sh\nexec "+real+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", shims)
	for name, script := range map[string]bool{"python3": false, shim: true} {
		command, err := DeclaredCommand(&config.Config{}, &declared.Settings{Type: "command", Args: []string{name, "-c", "print(1)"}}, &KeptOff{})
		if err != nil {
			t.Fatal(err)
		}
		if got := command.Args[0]; isScript(got) != script {
			t.Errorf("%s runs %s", name, got)
		}
	}
}

const module = `import asyncio, os, socket, sys
print("imported")
def add(a, b=2):
    print("adding")
    os.write(1, b"written")
    return a + b
def greet(name): return "hello " + name + "\n"
def both(a): return {"a": a, "env": sorted(os.environ)}
async def later(a):
    await asyncio.sleep(0)
    return [a]
def wrong(a): raise ValueError("not " + a)
def leave(a): sys.exit(3)
def read(path): return open(path).read()
def write(path): open(path, "w").write("x")
def reach(host): return str(socket.create_connection((host, 80), 1))
def nothing(): return None
def strange(): return {1, 2}
class Box:
    @staticmethod
    def open(a): return "open " + a
`

// A function of a module is called with the arguments by their names, confined as code
// that execute runs. What it prints is not its result.
func TestDeclaredFunctions(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skipf("there is no Python: %v", err)
	}
	folder, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	t.Setenv("CANARY", "of-the-gateway")
	for name, text := range map[string]string{filepath.Join(folder, "kit", "math_tools.py"): module, outside: "secret"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call := func(t *testing.T, function, args string) (text string, failed bool) {
		t.Helper()
		c := &config.Config{}
		c.Toolgate.Tools = []declared.Settings{{
			Name: "it", Namespace: "tools", Type: "python", Module: "kit.math_tools", Function: function, Cwd: folder, Sandbox: "auto",
			InputSchema: json.RawMessage(`{"type":"object"}`),
		}}
		tools, err := DeclaredTools(c, &KeptOff{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := declared.New("tools", tools["tools"])
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		got, err := b.Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(`{"name":"it","arguments":` + args + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		content := mcp.Lookup(got.Result, "content")
		for e := range mcp.Elements(content) {
			text, _ = mcp.LookupString(e.Of(content), "text")
		}
		return text, string(mcp.Lookup(got.Result, "isError")) == "true"
	}
	for name, tc := range map[string]struct {
		function, args, want string
		fail                 bool
	}{
		"numbers":        {"add", `{"a":1.5,"b":2}`, "3.5", false},
		"its default":    {"add", `{"a":40}`, "42", false},
		"a text":         {"greet", `{"name":"$(id) {x}"}`, "hello $(id) {x}\n", false},
		"an object":      {"both", `{"a":{"ü":[null]}}`, `{"a": {"ü": [null]}, "env": [`, false},
		"asynchronous":   {"later", `{"a":true}`, "[true]", false},
		"of a class":     {"Box.open", `{"a":"x"}`, "open x", false},
		"nothing":        {"nothing", `{}`, "null", false},
		"an error":       {"wrong", `{"a":"this"}`, "ValueError: not this", true},
		"an exit":        {"leave", `{"a":1}`, "exit status 3", true},
		"left out":       {"greet", `{}`, "TypeError: greet() missing 1 required positional argument: 'name'", true},
		"one more":       {"greet", `{"name":"a","b":1}`, "TypeError: greet() got an unexpected keyword argument 'b'", true},
		"no JSON":        {"strange", `{}`, "TypeError: Object of type set is not JSON serializable", true},
		"no function":    {"none", `{}`, "AttributeError: module 'kit.math_tools' has no attribute 'none'", true},
		"a file outside": {"read", fmt.Sprintf(`{"path":%q}`, outside), "[Errno", true},
		"its own module": {"write", fmt.Sprintf(`{"path":%q}`, filepath.Join(folder, "kit", "math_tools.py")), "[Errno", true},
		"the network":    {"reach", `{"host":"127.0.0.1"}`, "Error", true},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS != "linux" && slices.Contains([]string{"read", "write", "reach"}, tc.function) {
				t.Skip("only Linux confines every program")
			}
			text, failed := call(t, tc.function, tc.args)
			if failed != tc.fail || !strings.Contains(text, tc.want) || !tc.fail && !strings.HasPrefix(text, tc.want) {
				t.Errorf("%q, %v", text, failed)
			}
			if strings.Contains(text, "CANARY") || strings.Contains(text, "Traceback") || strings.Contains(text, folder) && !strings.Contains(tc.args, folder) {
				t.Errorf("it tells %s", text)
			}
		})
	}
	c := &config.Config{}
	c.Toolgate.Tools = []declared.Settings{{Name: "it", Type: "python", Module: "kit.other", Function: "add", Cwd: folder}}
	if _, err := DeclaredTools(c, &KeptOff{}); err == nil || !strings.Contains(err.Error(), "there is no module kit.other in "+folder) {
		t.Errorf("%v", err)
	}
	c.Toolgate.Tools[0].Module = "kit.math_tools"
	if _, err := DeclaredTools(c, &KeptOff{Own: []string{filepath.Join(folder, "toolgate.yaml")}}); err == nil || !strings.Contains(err.Error(), "the gateway's own") {
		t.Errorf("the folder of the configuration: %v", err)
	}
}
