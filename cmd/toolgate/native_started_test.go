package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
)

// What an agent may not write: everything by which a server would be another one
// when it is started again. Data that a server is given stays writable.
func TestStartedFrom(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"py/server.py", "py/helper.py", "js/dist/index.js", "js/package.json", "data/notes.txt", "data/db.sqlite", "project/pyproject.toml", "venv/pyvenv.cfg",
		"venv/bin/python3", "bin/tool", "pre/load.js", "lib/x.py", "code/lint.sh", "wheel/a.whl",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"data/notes.txt", "data/db.sqlite"} {
		if err := os.Chmod(filepath.Join(dir, filepath.FromSlash(name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for name, tc := range map[string]struct {
		server      config.Server
		fixed, free []string
	}{
		"a script": {
			config.Server{Command: "python3", Args: []string{at("py/server.py"), at("data")}},
			[]string{"py", "py/server.py"},
			[]string{"data", "data/notes.txt", "."},
		},
		"a script of a folder": {
			config.Server{Command: "python3", Args: []string{"server.py", "--db", "../data/db.sqlite"}, Cwd: at("py")},
			[]string{"py", "py/server.py", "data/db.sqlite"},
			[]string{"data", "data/notes.txt"},
		},
		"a module":      {config.Server{Command: "python3", Args: []string{"-m", "server"}, Cwd: at("py")}, []string{"py"}, []string{"data"}},
		"of Node.js":    {config.Server{Command: "node", Args: []string{"--require=" + at("pre/load.js"), at("js/dist/index.js")}}, []string{"js/dist", "js/dist/index.js", "js/node_modules", "js/package.json", "node_modules", "pre", "pre/load.js"}, []string{"data", "js"}},
		"by its name":   {config.Server{Command: "npx", Args: []string{"-y", "server-filesystem", at("data")}, Cwd: at("js")}, []string{"js/node_modules", "js/.npmrc", "js/package.json"}, []string{"data", "js"}},
		"of a project":  {config.Server{Command: "uv", Args: []string{"--directory", at("project"), "run", "server"}, Cwd: at("js")}, []string{"project", "js"}, []string{"data"}},
		"of a package":  {config.Server{Command: "uvx", Args: []string{"--from", at("project"), "server", "--repository", at("data")}}, []string{"project"}, []string{"data"}},
		"of a wheel":    {config.Server{Command: "uvx", Args: []string{"--from=" + at("wheel/a.whl"), "server"}}, []string{"wheel/a.whl"}, []string{"data"}},
		"a program":     {config.Server{Command: at("bin/tool"), Args: []string{at("data"), at("data/notes.txt")}}, []string{"bin/tool", "data/notes.txt"}, []string{"data", "bin/other"}},
		"environment":   {config.Server{Command: at("venv/bin/python3"), Args: []string{at("py/server.py")}}, []string{"venv", "venv/bin/python3", "py"}, []string{"data"}},
		"by a variable": {config.Server{Command: "python3", Args: []string{at("py/server.py")}, Env: map[string]config.Secret{"PYTHONPATH": config.Secret(at("lib")), "NODE_OPTIONS": config.Secret("--require " + at("pre/load.js"))}}, []string{"lib", "pre/load.js"}, []string{"data"}},
		"not there yet": {config.Server{Command: "python3", Args: []string{at("later/server.py")}}, []string{"later/server.py"}, []string{"data"}},
		"an address":    {config.Server{Command: "npx", Args: []string{"mcp-remote", "https://example.com/a.js"}, Cwd: at("data")}, []string{"data/node_modules"}, []string{"data"}},
	} {
		got := startedFrom(&config.Config{Servers: []config.Server{tc.server}})
		for _, path := range tc.fixed {
			if !slices.Contains(got, at(path)) {
				t.Errorf("%s: %s may be changed: %q", name, path, got)
			}
		}
		for _, path := range tc.free {
			if slices.ContainsFunc(got, func(p string) bool { return at(path) == p || strings.HasPrefix(at(path), p+string(filepath.Separator)) }) {
				t.Errorf("%s: %s may not be changed", name, path)
			}
		}
	}
	c := &config.Config{Path: at("toolgate.yaml")}
	c.Toolgate.Tools = []config.DeclaredTool{{Args: []string{"python3", "py/server.py"}}}
	if err := keepsOffStarted([]string{at("data")}, c); err != nil {
		t.Error(err)
	}
	for _, write := range []string{dir, at("py"), at("py/sub"), at("py/server.py")} {
		if err := keepsOffStarted([]string{at("data"), write}, c); err == nil || !strings.Contains(err.Error(), "is started") {
			t.Errorf("%s may be written: %v", write, err)
		}
	}
	c.Toolgate.Native.Code = &config.NativeCode{Linters: map[string]config.CodeCommand{"x": {Command: []string{at("code/lint.sh")}}}}
	if got := startedFrom(c); !slices.Contains(got, at("code")) {
		t.Errorf("%q", got)
	}
}
