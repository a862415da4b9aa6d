package profile

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
)

// finder knows what a server may need, and what is not given to it.
type finder struct {
	server   *config.Server
	keepsOff func(path string) error // refuses the gateway's own files
	home     string
	withheld []string
}

// private are folders and files of a home that hold secrets. They are never proposed.
var private = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".password-store", ".mozilla", ".thunderbird",
	".netrc", ".git-credentials", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".vault-token", ".bash_history", ".zsh_history", ".local/share/keyrings",
	".cargo/credentials", ".cargo/credentials.toml", ".config/rclone", ".config/op", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
	".terraform.d", ".claude", ".claude.json", ".codex", ".cursor", ".gemini", "Library/Keychains", "Library/Application Support",
}

// entry grants what the entry of the server names: its program with what it loads, its
// arguments and its folder.
func (f *finder) entry(g *grants) {
	if f.server.Cwd != "" {
		f.grant(g, f.server.Cwd, false)
	}
	if path := f.look(f.server.Command); path != "" {
		f.program(g, path)
	}
	for _, arg := range f.server.Args {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value
		}
		if !filepath.IsAbs(arg) {
			arg = filepath.Join(f.server.Cwd, arg)
		}
		if info, err := os.Stat(arg); err == nil && filepath.IsAbs(arg) {
			f.file(g, arg, info)
		}
	}
}

// look returns the path of a program; empty where there is none.
func (f *finder) look(name string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(f.server.Cwd, name)
		}
		return name
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// program grants a program that is none of the system's, with the environment that it
// belongs to.
func (f *finder) program(g *grants, path string) bool {
	more := false
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	for _, at := range []string{path, real} {
		if ofSystem(at) {
			continue
		}
		prefix := filepath.Dir(filepath.Dir(at))
		if bin := filepath.Base(filepath.Dir(at)); bin != "bin" && bin != "shims" {
			prefix = filepath.Dir(at)
		}
		more = f.grant(g, prefix, true) || more
	}
	return more
}

// file grants a file or a folder that the server names or misses.
func (f *finder) file(g *grants, path string, info os.FileInfo) bool {
	if info.IsDir() {
		return f.grant(g, path, false)
	}
	script := slices.Contains(scripts, filepath.Ext(path))
	run := info.Mode()&0o111 != 0 && !script
	folder := f.project(path)
	if dir := filepath.Dir(path); folder == "" && script && !f.tooMuch(dir) {
		folder = dir // with the modules beside it
	}
	switch {
	case folder == "":
		return f.grant(g, path, run)
	case f.keepsOff(folder) == nil:
		return f.grant(g, folder, run)
	}
	more := f.grant(g, path, run)
	for _, beside := range []string{"node_modules", "package.json", "src", "dist", "lib", "build"} {
		at := filepath.Join(folder, beside)
		if _, err := os.Stat(at); err == nil {
			more = f.grant(g, at, false) || more
		}
	}
	return more
}

// scripts are the extensions of programs that load what lies beside them.
var scripts = []string{".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".sh", ".pl", ".php"}

// roots are the files that lie in the root of a project or of an environment.
var roots = []string{"package.json", "node_modules", "pyproject.toml", "pyvenv.cfg", "go.mod", "Gemfile", "deno.json"}

// project returns the folder to which a file belongs: the root of its project, or the tool
// in the home that has it. It is empty for a file of its own.
func (f *finder) project(path string) string {
	if f.home != "" && inside(path, f.home) {
		rel, _ := filepath.Rel(f.home, path) // both are absolute
		parts := strings.Split(rel, string(filepath.Separator))
		if depth := map[string]int{".local": 3, ".cache": 2, ".config": 2}[parts[0]]; strings.HasPrefix(parts[0], ".") && len(parts) > max(depth, 1) {
			return filepath.Join(f.home, filepath.Join(parts[:max(depth, 1)]...))
		}
	}
	for _, folder := range shared {
		if rel, err := filepath.Rel(folder, path); err == nil && inside(path, folder) && strings.Contains(rel, "/") {
			first, _, _ := strings.Cut(rel, "/")
			return filepath.Join(folder, first)
		}
	}
	for dir := filepath.Dir(path); !f.tooMuch(dir); dir = filepath.Dir(dir) {
		for _, name := range roots {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return dir
			}
		}
	}
	return ""
}

// tooMuch tells whether a folder is no program's alone.
func (f *finder) tooMuch(path string) bool {
	return filepath.Dir(path) == path || filepath.Dir(filepath.Dir(path)) == filepath.Dir(path) || path == f.home || f.home != "" && inside(f.home, path)
}

// grant grants a path that may be granted, and tells whether that is more than before.
func (f *finder) grant(g *grants, path string, run bool) bool {
	path = filepath.Clean(path)
	if ofSystem(path) && !run || g.has(path, run) {
		return false
	}
	if f.withholds(path) {
		if !slices.Contains(f.withheld, path) {
			f.withheld = append(f.withheld, path)
		}
		return false
	}
	return g.add(path, run)
}

// withholds tells whether a path is not granted, by its name or by where its links lead. A
// server chooses what it names.
func (f *finder) withholds(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path // there is nothing behind it
	}
	homes := []string{f.home}
	if at, err := filepath.EvalSymlinks(f.home); err == nil {
		homes = append(homes, at)
	}
	for _, form := range []string{path, real} {
		if slices.ContainsFunc(kernel, func(folder string) bool { return inside(form, folder) }) {
			return true
		}
		for _, home := range homes {
			if home == "" {
				continue
			}
			if form == home || inside(home, form) || slices.ContainsFunc(private, func(name string) bool {
				at := filepath.Join(home, name)
				return inside(form, at) || inside(at, form)
			}) {
				return true
			}
		}
		if f.tooMuch(form) || f.keepsOff(form) != nil {
			return true
		}
	}
	return false
}

// kernel are folders whose files are no files of programs; some lead anywhere.
var kernel = []string{"/proc", "/sys", "/dev", "/run"}

func ofSystem(path string) bool {
	return slices.ContainsFunc(system, func(folder string) bool { return inside(path, folder) })
}

var (
	// paths are what look like absolute paths in what a program says.
	paths = regexp.MustCompile(`/[^\s'"` + "`" + `,:;()<>\[\]{}|]+`)
	// missing are programs that are not found.
	// refused are programs that may not be run.
	refused = regexp.MustCompile(`(?:^|\s)([\w.+-]+): Permission denied`)
	missing = regexp.MustCompile(`(?:env: |exec: )['"‘]?([\w.+-]+)['"’]?: |([\w.+-]+): (?:command )?not found`)
)

// said grants what a server misses by what it says, and tells whether that is more than
// before.
func (f *finder) said(g *grants, lines []string) bool {
	more := false
	for _, line := range lines {
		for _, path := range paths.FindAllString(line, -1) {
			path = strings.TrimRight(path, ".")
			if info, err := os.Stat(path); err == nil && !g.has(path, info.Mode()&0o111 != 0 && !info.IsDir()) {
				if ofSystem(path) {
					continue
				}
				more = f.missed(g, path, info) || more
			}
		}
		for _, m := range missing.FindAllStringSubmatch(line, -1) {
			if path := f.look(m[1] + m[2]); m[1]+m[2] != "" && path != "" {
				more = f.program(g, path) || more
			}
		}
		for _, m := range refused.FindAllStringSubmatch(line, -1) {
			more = f.runs(g, m[1]) || more
		}
	}
	return more
}

// missed grants a path that a server could not use.
func (f *finder) missed(g *grants, path string, info os.FileInfo) bool {
	if !info.IsDir() && info.Mode()&0o111 != 0 {
		if folder := f.project(path); folder != "" {
			return f.grant(g, folder, true)
		}
		return f.grant(g, path, true)
	}
	return f.file(g, path, info)
}

// runs lets the server run what is in a folder that it reads so far, if the folder has the
// program.
func (f *finder) runs(g *grants, name string) bool {
	for _, folder := range g.read {
		for _, path := range []string{name, filepath.Join("bin", name), filepath.Join("node_modules", ".bin", name)} {
			if info, err := os.Stat(filepath.Join(folder, path)); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return f.grant(g, folder, true)
			}
		}
	}
	return false
}
