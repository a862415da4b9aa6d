package config

import (
	"net/url"
	"slices"
	"strings"
)

// Program names what serves a server, as far as its entry tells: the package that npx, uvx
// and the like start, the image of a container, the module of a Python interpreter, the
// name of a program, or the host of a URL. Versions and tags are left out.
func (s *Server) Program() string {
	if s.Command == "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "https" {
			return ""
		}
		return strings.ToLower(u.Hostname())
	}
	name, args := commandName(s.Command), s.Args
	if name == "cmd" && len(args) > 1 && strings.EqualFold(args[0], "/c") {
		name, args = commandName(args[1]), args[2:]
	}
	switch at := slices.Index(args, "run"); {
	case name == "uv" && at >= 0: // uv run, uv --directory X run, uv tool run
		args = args[at+1:]
	case len(launchers[name]) > 0 && len(args) > 0 && slices.Contains(launchers[name], args[0]):
		args = args[1:]
	}
	switch name {
	case "npx", "bunx", "npm", "pnpm", "yarn", "bun":
		return unversioned(packageOf(args, "--package", "-p"))
	case "uvx", "uv", "pipx":
		return unversioned(packageOf(args, "--from", "--spec"))
	case "docker", "podman", "nerdctl":
		return imageOf(args)
	case "python", "python3":
		if i := slices.Index(args, "-m"); i >= 0 && i+1 < len(args) {
			return strings.ReplaceAll(args[i+1], "_", "-")
		}
		return ""
	}
	return name
}

// packageOf returns the package in the arguments of a launcher: the value of one of the
// options, else the first argument that is none.
func packageOf(args []string, options ...string) string {
	first := ""
	for i, arg := range args {
		option, value, joined := strings.Cut(arg, "=")
		switch {
		case slices.Contains(options, option) && joined:
			return value
		case slices.Contains(options, arg) && i+1 < len(args):
			return args[i+1]
		case first == "" && !strings.HasPrefix(arg, "-") && arg != "run":
			first = arg
		case first != "":
			return first // what follows is the program's own
		}
	}
	return first
}

// unversioned takes the version off the name of a package: @scope/name@1, name==1, name@1.
func unversioned(name string) string {
	if i := strings.LastIndexByte(name, '@'); i > 0 {
		name = name[:i]
	}
	name, _, _ = strings.Cut(name, "==")
	return name
}

// imageOf returns the image in the arguments of a container engine. Options may have
// values of their own, so an image is the first argument that is neither an option nor a
// known word, and has the form of a path.
func imageOf(args []string) string {
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") || !strings.Contains(arg, "/") || strings.ContainsAny(arg, "=,") || strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, ".") {
			continue
		}
		if i > 0 && slices.Contains([]string{"-v", "--volume", "-w", "--workdir", "--mount", "-e", "--env", "--env-file", "--name", "--network", "--entrypoint"}, args[i-1]) {
			continue
		}
		arg, _, _ = strings.Cut(arg, "@")
		if i := strings.LastIndexByte(arg, ':'); i > strings.LastIndexByte(arg, '/') {
			arg = arg[:i]
		}
		return arg
	}
	return ""
}
