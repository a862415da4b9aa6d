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

// startedFrom returns the files and folders from which a configuration starts servers
// and tools: their programs, the files that these run or read at their start, and the
// folders from which they load more. Tools may read them, but not change them.
//
// A missing folder counts, too, if creating it would change what is loaded. python is
// the interpreter of native.code with the folders of its modules.
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
		} else if t.Type == "python" {
			s.add(t.Cwd)
		}
	}
	for _, plugin := range c.Toolgate.Native.Plugins {
		s.server(&config.Server{Command: plugin.Path, Args: plugin.Args, Env: plugin.Env, Cwd: string(filepath.Separator)})
	}
	// A program without a folder is searched for in these.
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		s.add(dir)
	}
	slices.Sort(s.paths)
	return slices.Compact(s.paths)
}

// namedFiles returns the gateway's own files that its configuration names outside of
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

// started collects the paths from which something is started.
type started struct{ paths []string }

// add adds a path, both as written and by its real path.
func (s *started) add(paths ...string) {
	for _, path := range paths {
		if !filepath.IsAbs(path) || filepath.Dir(path) == path {
			continue // protecting a root would leave nothing to change
		}
		path = filepath.Clean(path)
		s.paths = append(s.paths, path)
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
			s.paths = append(s.paths, real)
		}
	}
}

// program adds a program, and the files that belong to it by their place. It returns
// the program's real path, "" where there is none.
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
	// An interpreter in a Python environment loads its contents.
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

// runners are programs that load code from their working directory and from folders
// among their arguments.
var runners = []string{
	"bun", "bundle", "cargo", "deno", "dotnet", "go", "gradle", "just", "make", "mvn", "npm", "pipenv", "pnpm", "poetry", "rake", "task", "uv", "yarn",
}

// fetchers run programs by name, and look into their working directory first.
var fetchers = []string{"bunx", "npx", "pnpx", "yarn", "npm"}

// local are the files and folders that configure Node.js programs, or that these load.
var local = []string{"node_modules", "package.json", "package-lock.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml"}

// interpreters run a script that is among their arguments, or a module in their
// working directory.
var interpreters = []string{"node", "nodejs", "python", "pypy", "ruby", "perl", "php", "lua", "sh", "bash", "zsh", "dash", "fish", "pwsh", "java", "tsx", "ts-node", "Rscript", "julia", "elixir"}

// scripts are the file name extensions of code.
var scripts = []string{
	".py", ".pyz", ".pyw", ".whl", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx", ".rb", ".pl", ".php", ".lua", ".sh", ".bash", ".ps1",
	".bat", ".cmd", ".jar", ".exe", ".wasm", ".so", ".dll", ".dylib", ".node", ".go", ".R", ".jl", ".exs",
}

// loaders are variables that name code to load into a program.
var loaders = []string{
	"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV",
	"NODE_PATH", "RUBYLIB", "GEM_PATH", "PERL5LIB", "CLASSPATH", "BASH_ENV", "ENV", "LUA_PATH",
	"PYTHONUSERBASE", "UV_CACHE_DIR", "UV_TOOL_DIR", "UV_CONFIG_FILE", "PIPX_HOME", "DENO_DIR", "BUN_INSTALL", "PNPM_HOME", "CARGO_HOME",
	"npm_config_cache", "npm_config_prefix", "npm_config_userconfig", "NPM_CONFIG_CACHE", "NPM_CONFIG_PREFIX", "NPM_CONFIG_USERCONFIG",
}

// naming are options whose value is code, or a folder with code.
var naming = []string{
	"--from", "--with", "--with-editable", "--directory", "--project", "--prefix", "-C", "--cwd", "--require", "-r", "--import", "--loader", "-I", "-jar",
}

func (s *started) server(srv *config.Server) {
	dir := srv.Cwd
	if dir == "" {
		dir, _ = os.Getwd() // without a working directory nothing is relative
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
	first := true // the first argument that is not an option is the script
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

// argument adds the file that a path among the arguments names. For a script it also
// adds the folder, because scripts load files beside them. A folder counts as data,
// such as the files that a file server serves, unless it is run itself.
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
			if run { // whatever its extension
				s.add(filepath.Dir(path), filepath.Dir(real))
			}
		}
	}
}

// loaded adds what a script loads from its own folder.
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

// node adds what Node.js programs load from a folder.
func (s *started) node(dir string) {
	for _, name := range local {
		s.add(filepath.Join(dir, name))
	}
}

// scriptLine returns the first line of a script, which names its interpreter; "" for
// other files.
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

// pathsOf returns the paths that an argument may contain: itself, the value of an
// option, and the target of a mount.
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
