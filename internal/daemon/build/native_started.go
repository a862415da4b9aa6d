package build

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
)

// startedFrom are the files and folders from which a configuration has servers and
// tools started: their programs, what these are given to run or read at their start,
// and the folders that they load more from. Tools may read them and change none.
//
// A folder that is not there yet counts as well, where to make it would change what
// is loaded. python is the interpreter of native.code with the folders of its modules.
func startedFrom(c *config.Config, python func() (path string, library []string)) []string {
	s := &started{}
	for i := range c.Servers {
		if srv := &c.Servers[i]; srv.Command != "" {
			s.server(srv)
			s.home(srv)
		}
	}
	if code := c.Toolgate.Native.Code; code != nil {
		path, library := python()
		s.program(path, "")
		s.add(library...)
		for _, program := range code.Programs() {
			s.program(program, "")
		}
	}
	for _, plugin := range c.Toolgate.Native.Plugins {
		s.server(&config.Server{Command: plugin.Path, Args: plugin.Args, Env: plugin.Env, Cwd: filepath.Dir(plugin.Path)})
	}
	for i := range c.Toolgate.Tools {
		if t := &c.Toolgate.Tools[i]; len(t.Args) > 0 {
			s.server(&config.Server{Command: t.Args[0], Args: t.Args[1:], Env: t.Env, Cwd: cmp.Or(t.Cwd, filepath.Dir(c.Path))})
		}
	}
	for _, plugin := range c.Toolgate.Native.Plugins {
		s.server(&config.Server{Command: plugin.Path, Args: plugin.Args, Env: plugin.Env, Cwd: string(filepath.Separator)})
	}
	// A program that is named without its folder is looked for in these.
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		s.add(dir)
	}
	slices.Sort(s.paths)
	return slices.Compact(s.paths)
}

// namedFiles are files of the gateway's own that its configuration names beside
// servers and tools, and those that it would find by itself at its next start.
func namedFiles(c *config.Config) []string {
	out := slices.Concat(c.Toolgate.ToolFiles, []string{config.FileName})
	if dir, err := os.UserConfigDir(); err == nil {
		out = append(out, filepath.Join(dir, "toolgate"))
	}
	for i := range c.Servers {
		auth := &c.Servers[i].Auth
		out = append(out, auth.Client.Key, auth.Exchange.Subject, auth.Exchange.Client.Key, auth.Assertion)
	}
	return out
}

// started collects what something is started from.
type started struct{ paths []string }

// add adds a path as it is named and as it really is.
func (s *started) add(paths ...string) {
	for _, path := range paths {
		if !filepath.IsAbs(path) || filepath.Dir(path) == path {
			continue // of a root nothing could be changed any more
		}
		path = filepath.Clean(path)
		s.paths = append(s.paths, path)
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
			s.paths = append(s.paths, real)
		}
	}
}

// program adds a program, and what belongs to it where that is known by its place.
// It returns the program's real path, "" where there is none.
func (s *started) program(name, dir string) string {
	if name == "" {
		return ""
	}
	path := name
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	} else if found, err := exec.LookPath(name); err == nil {
		path = found
	}
	s.add(path)
	// An interpreter of an environment of Python loads what lies in it.
	if prefix := filepath.Dir(filepath.Dir(path)); regularFile(filepath.Join(prefix, "pyvenv.cfg")) {
		s.add(prefix)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	s.loaded(real)
	return real
}

// runners are programs that load what they run from the folder that they are
// started in, and from folders that are among their arguments.
var runners = []string{
	"bun", "bundle", "cargo", "deno", "dotnet", "go", "gradle", "just", "make", "mvn", "npm", "pipenv", "pnpm", "poetry", "rake", "task", "uv", "yarn",
}

// fetchers run programs by their names, and look into the folder that they are
// started in first.
var fetchers = []string{"bunx", "npx", "pnpx", "yarn", "npm"}

// local are what programs of Node.js are told by, and load, in a folder.
var local = []string{"node_modules", "package.json", "package-lock.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml"}

// interpreters run a script that is among their arguments, or a module that they
// look for in the folder that they are started in.
var interpreters = []string{"node", "nodejs", "python", "pypy", "ruby", "perl", "php", "lua", "sh", "bash", "zsh", "dash", "fish", "pwsh", "java", "tsx", "ts-node", "Rscript", "julia", "elixir"}

// scripts are the endings of what is run or loaded.
var scripts = []string{
	".py", ".pyz", ".pyw", ".whl", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx", ".rb", ".pl", ".php", ".lua", ".sh", ".bash", ".ps1",
	".bat", ".cmd", ".jar", ".exe", ".wasm", ".so", ".dll", ".dylib", ".node", ".go", ".R", ".jl", ".exs",
}

// loaders are variables that name what is loaded into a program.
var loaders = []string{
	"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV",
	"NODE_PATH", "RUBYLIB", "GEM_PATH", "PERL5LIB", "CLASSPATH", "BASH_ENV", "ENV", "LUA_PATH",
	"PYTHONUSERBASE", "UV_CACHE_DIR", "UV_TOOL_DIR", "UV_CONFIG_FILE", "PIPX_HOME", "DENO_DIR", "BUN_INSTALL", "PNPM_HOME", "CARGO_HOME",
	"npm_config_cache", "npm_config_prefix", "npm_config_userconfig", "NPM_CONFIG_CACHE", "NPM_CONFIG_PREFIX", "NPM_CONFIG_USERCONFIG",
}

// naming are options whose value is run or loaded, or the folder where that is.
var naming = []string{
	"--from", "--with", "--with-editable", "--directory", "--project", "--prefix", "-C", "--cwd", "--require", "-r", "--import", "--loader", "-I", "-jar",
}

func (s *started) server(srv *config.Server) {
	dir := srv.Cwd
	if dir == "" {
		dir, _ = os.Getwd() // of a process whose folder is gone nothing is relative
	}
	s.program(srv.Command, dir)
	name := strings.TrimSuffix(filepath.Base(srv.Command), ".exe")
	interprets := is(name, interpreters) || strings.HasPrefix(name, "python")
	if is(name, runners) {
		s.add(dir)
	}
	if is(name, fetchers) {
		s.node(dir)
	}
	first := true // the first argument that is no option is what is run
	for i, arg := range srv.Args {
		named := i > 0 && is(srv.Args[i-1], naming)
		option := strings.HasPrefix(arg, "-")
		if interprets && first && (arg == "-m" || arg == "-c" || arg == "-e" || arg == "-") {
			s.add(dir)
		}
		for _, path := range pathsOf(arg) {
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			s.argument(path, named || interprets && first && !option, is(name, runners))
		}
		first = first && (option || named)
	}
	for name, value := range srv.Env {
		switch {
		case is(name, loaders):
			for _, path := range filepath.SplitList(value.Reveal()) {
				s.add(path)
			}
		case name == "NODE_OPTIONS" || name == "RUBYOPT" || name == "JAVA_TOOL_OPTIONS":
			for word := range strings.FieldsSeq(value.Reveal()) {
				for _, path := range pathsOf(word) {
					s.add(path)
				}
			}
		}
	}
}

// argument adds what a path among arguments names: a file in any case; and the
// folder that it is in where it is something that runs, which loads what lies
// beside it. A folder is data, such as what a server of files serves, unless it is
// what is run.
func (s *started) argument(path string, run, runner bool) {
	info, err := os.Stat(path)
	script := is(filepath.Ext(path), scripts)
	switch {
	case err != nil:
		if script || run {
			s.add(path)
		}
	case info.IsDir():
		if run || runner {
			s.add(path)
			s.node(path)
		}
	default:
		s.add(path)
		if script || run || info.Mode()&0o111 != 0 {
			s.loaded(path)
			real, err := filepath.EvalSymlinks(path)
			if err == nil {
				s.loaded(real)
			}
			if run { // whatever its name ends in
				s.add(filepath.Dir(path), filepath.Dir(real))
			}
		}
	}
}

// loaded adds what a file that runs loads from where it lies.
func (s *started) loaded(path string) {
	dir, by := filepath.Dir(path), scriptLine(path)
	if is(filepath.Ext(path), scripts) || by != "" || regularFile(filepath.Join(dir, "package.json")) {
		s.add(dir)
	}
	if ext := filepath.Ext(path) + by; strings.Contains(ext, "js") || strings.Contains(ext, "ts") || strings.Contains(ext, "node") {
		for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
			s.node(dir)
		}
	}
}

// node adds what programs of Node.js load from a folder.
func (s *started) node(dir string) {
	for _, name := range local {
		s.add(filepath.Join(dir, name))
	}
}

// scriptLine is the first line of a script that names its interpreter, "" for
// everything else.
func scriptLine(path string) string {
	if !regularFile(path) {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	begin := make([]byte, 256)
	n, _ := io.ReadFull(f, begin) // most are longer, some are not
	line, _, _ := strings.Cut(string(begin[:n]), "\n")
	if !strings.HasPrefix(line, "#!") {
		return ""
	}
	return line
}

// pathsOf are the paths that an argument may hold: itself, the value of an option,
// and the target of a mount.
func pathsOf(arg string) []string {
	text := arg
	if strings.HasPrefix(arg, "-") {
		_, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil
		}
		text = value
	}
	text = strings.TrimPrefix(text, "file://")
	if text == "" || strings.Contains(text, "://") {
		return nil
	}
	return []string{text}
}

func is(name string, list []string) bool { return slices.Contains(list, name) }

func regularFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
