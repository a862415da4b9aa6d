package build

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/declared"
	"github.com/toolgate/toolgate/native/plugins/code"
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
		"by a variable": {config.Server{Command: "python3", Args: []string{at("py/server.py")}, Env: map[string]secret.Text{"PYTHONPATH": secret.Text(at("lib")), "NODE_OPTIONS": secret.Text("--require " + at("pre/load.js"))}}, []string{"lib", "pre/load.js"}, []string{"data"}},
		"not there yet": {config.Server{Command: "python3", Args: []string{at("later/server.py")}}, []string{"later/server.py"}, []string{"data"}},
		"an address":    {config.Server{Command: "npx", Args: []string{"mcp-remote", "https://example.com/a.js"}, Cwd: at("data")}, []string{"data/node_modules"}, []string{"data"}},
	} {
		got := KeepOff(&config.Config{Servers: []config.Server{tc.server}}, nil).Started()
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
	for name, text := range map[string]string{"named/tool": "#!/usr/bin/env python3\n", "noded/tool": "#!/usr/bin/env node\n", "plain/run": "print(1)\n"} {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	home := map[string]secret.Text{"HOME": secret.Text(at("home")), "npm_config_cache": secret.Text(at("packages"))}
	for name, tc := range map[string]struct {
		config config.Config
		fixed  []string
	}{
		// Python looks for modules beside a script, whatever it is called.
		"a script without an ending":  {config.Config{Servers: []config.Server{{Command: at("named/tool")}}}, []string{"named"}},
		"one of Node.js":              {config.Config{Servers: []config.Server{{Command: at("noded/tool")}}}, []string{"noded", "noded/node_modules", "node_modules"}},
		"one that is an argument":     {config.Config{Servers: []config.Server{{Command: "python3", Args: []string{at("plain/run")}}}}, []string{"plain"}},
		"packages that were fetched":  {config.Config{Servers: []config.Server{{Command: "npx", Args: []string{"-y", "x"}, Env: home}}}, []string{"home/.npm", "home/.npmrc", "packages"}},
		"tools that were fetched":     {config.Config{Servers: []config.Server{{Command: "uvx", Args: []string{"x"}, Env: home}}}, []string{"home/.cache/uv", "home/.local/share/uv"}},
		"packages of the user":        {config.Config{Servers: []config.Server{{Command: "python3", Args: []string{at("py/server.py")}, Env: home}}}, []string{"home/.local/lib"}},
		"a plugin":                    {plugged(native.PluginSettings{Path: at("named/tool")}), []string{"named"}},
		"a plugin of an interpreter":  {plugged(native.PluginSettings{Path: "/usr/bin/python3", Args: []string{at("plain/run")}}), []string{"plain"}},
		"a plugin with a search path": {plugged(native.PluginSettings{Path: at("bin/tool"), Env: map[string]secret.Text{"PYTHONPATH": secret.Text(at("lib"))}}), []string{"lib", "bin/tool"}},
	} {
		got := KeepOff(&tc.config, nil).Started()
		for _, path := range tc.fixed {
			if !slices.Contains(got, at(path)) {
				t.Errorf("%s: %s may be changed: %q", name, path, got)
			}
		}
	}
	c := &config.Config{Path: at("toolgate.yaml")}
	c.Toolgate.Tools = []declared.Settings{{Args: []string{"python3", "py/server.py"}}}
	if err := KeepOff(c, nil).check([]string{at("data")}); err != nil {
		t.Error(err)
	}
	for _, write := range []string{dir, at("py"), at("py/sub"), at("py/server.py")} {
		if err := KeepOff(c, nil).check([]string{at("data"), write}); err == nil || !strings.Contains(err.Error(), "is started") {
			t.Errorf("%s may be written: %v", write, err)
		}
	}
	c.Toolgate.Native.Code = &code.Settings{Linters: map[string]code.CommandSettings{"x": {Command: []string{at("code/lint.sh")}}}}
	if got := KeepOff(c, nil).Started(); !slices.Contains(got, at("code")) {
		t.Errorf("%q", got)
	}
}

func plugged(p native.PluginSettings) config.Config {
	var c config.Config
	c.Toolgate.Native.Plugins = map[string]native.PluginSettings{"x": p}
	return c
}

// A plugin is granted neither the gateway's own files nor what is started.
func TestPluginKeepsOff(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"plugin/run.py", "server/run.py", "own/toolgate.yaml", "data/x"} {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte("#!/usr/bin/env python3\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := &config.Config{Path: at("own/toolgate.yaml"), Servers: []config.Server{{Key: "s", Command: at("server/run.py")}}}
	own := []string{at("own/toolgate.yaml"), at("plugin/run.py")}
	for name, tc := range map[string]struct {
		plugin native.PluginSettings
		fail   string
	}{
		"nothing":              {native.PluginSettings{}, ""},
		"its own folder":       {native.PluginSettings{Read: []string{at("plugin")}, Run: []string{at("plugin")}, Write: []string{at("data")}}, ""},
		"the configuration":    {native.PluginSettings{Read: []string{at("own")}}, "own"},
		"to write there":       {native.PluginSettings{Write: []string{at("own")}}, "own"},
		"to write all":         {native.PluginSettings{Write: []string{dir}}, "own"},
		"to write itself":      {native.PluginSettings{Write: []string{at("plugin")}}, "own"},
		"to write what starts": {native.PluginSettings{Write: []string{at("server")}}, "is started"},
	} {
		tc.plugin.Path = at("plugin/run.py")
		c.Toolgate.Native.Plugins = map[string]native.PluginSettings{"p": tc.plugin}
		_, err := nativeSpec(&config.Server{Key: "p", Native: &tc.plugin}, c, KeepOff(c, own))
		if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
