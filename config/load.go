package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
)

// Options are what a file is read with. This package reads nothing of its
// process but the files named: what is not given here does not exist for it.
type Options struct {
	// LookupEnv looks variables up for ${VAR} and the like, usually
	// os.LookupEnv. Nil: none is set.
	LookupEnv func(name string) (value string, ok bool)
	// LookupSecret looks secrets up for ${keyring:NAME}. [secret.ErrNone] is that
	// there is none. Nil: there is none.
	LookupSecret func(name string) (string, error)
	// Environ holds NAME=value pairs in which TOOLGATE_* variables override
	// settings, usually os.Environ(). Nil: none do.
	Environ []string
	// Flags override settings and variables, by path: listen.http. Lists
	// are separated by commas.
	Flags map[string]string
	// Input asks a person for an ${input:id} of the file, hiding what is
	// typed if password is set. It is called at most once per id. Nil:
	// servers that need one are refused, naming it.
	Input func(id, description string, password bool) (string, error)
	// Home is the home folder, for ${userHome} and "~/". Empty: the
	// variable HOME, else USERPROFILE.
	Home string
	// WorkspaceFolder is what ${workspaceFolder} means. Empty: the folder
	// that holds the file, or the one above it if that is a client's own
	// (.vscode, .cursor and the like), unless that is the home folder.
	WorkspaceFolder string
	// Self are further names, paths and addresses that mean toolgate
	// itself, such as os.Executable().
	Self []string
	// Raw leaves variables of the environment as they are, spelt ${NAME}
	// whatever the file's client spells them like, and inputs as the variable of
	// their [clients.VariableName]: for whoever writes the servers into another file, and
	// never for one who starts them.
	Raw bool
}

func (o Options) lookup(name string) (string, bool) {
	if o.LookupEnv == nil {
		return "", false
	}
	return o.LookupEnv(name)
}

func (o Options) home() string {
	if o.Home != "" {
		return o.Home
	}
	for _, name := range [...]string{"HOME", "USERPROFILE"} {
		if v, ok := o.lookup(name); ok && v != "" {
			return v
		}
	}
	return ""
}

func (o Options) workspace(dir string) string {
	if o.WorkspaceFolder != "" {
		return o.WorkspaceFolder
	}
	return clients.Workspace(dir, o.home())
}

// Load reads and checks a file. The error, if any, joins every fault found,
// each an *[tree.Error]; there is no Config then. See [Parse].
func Load(path string, opts Options) (*Config, error) {
	data, err := format.ReadFile(path)
	if err != nil {
		e := &tree.Error{File: path, Problem: "the file cannot be read: " + err.Error(), Err: err}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			e.Problem, e.Hint = "there is no such file", "name an existing one, or leave it out to start without"
		case errors.Is(err, fs.ErrPermission):
			e.Problem, e.Hint = "the file may not be read", "check its permissions"
		case errors.Is(err, format.ErrNotRegular):
			e.Problem, e.Hint = "it is a folder, device or pipe, not a file", "name the file itself"
		}
		return nil, e
	}
	return Parse(path, data, opts)
}

// Parse checks the contents of a file of the given name. The name decides the
// format and the client where the contents do not, and relative paths are
// relative to its folder. It opens no file but env files and files of tools that the contents name.
//
// A server that cannot be started as written is in the Config, refused. The
// error is for faults of the file as a whole.
func Parse(name string, data []byte, opts Options) (*Config, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, &tree.Error{File: name, Problem: "its folder cannot be found: " + err.Error(), Err: err}
	}
	p := &tree.Problems{File: name}
	root := format.Read(p, name, data)
	if root == nil {
		return nil, p.Err()
	}
	if root.Kind != tree.KindMap {
		p.At(root, "", "begin with mcpServers: or toolgate:", "the document is %s, not a map", root.Kind)
		return nil, p.Err()
	}
	c := build(p, name, abs, root, opts)
	if err := p.Err(); err != nil {
		return nil, err
	}
	c.Sum = Sum(data)
	return c, nil
}

// Sum identifies the text of a file, as [Config.Sum] does.
func Sum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Default is the configuration where there is no file: no servers, every
// default, overrides applied.
func Default(opts Options) (*Config, error) {
	p := &tree.Problems{}
	c := build(p, "", "", &tree.Node{Kind: tree.KindMap}, opts)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

func build(p *tree.Problems, name, abs string, root *tree.Node, opts Options) *Config {
	dir := ""
	c := &Config{Path: name, Origins: map[string]tree.Origin{}}
	if abs != "" {
		dir = filepath.Dir(abs)
		c.Files = []string{abs}
	}
	file := clients.Find(name, root)
	c.Client = file.Client
	checkTop(p, root, file.Empty())
	entries := file.Entries(p)
	keys := make([]string, len(entries))
	for i, e := range entries {
		keys[i] = e.Key
	}

	section, warnings := overlay(p, root.Get("toolgate"), slices.Concat(keys, nativeKeys(root.Get("toolgate"))), opts.Environ, opts.Flags)
	c.Warnings = warnings
	vars := &clients.Variables{
		Client: file.Client, Lookup: opts.LookupEnv, Secret: opts.LookupSecret, Ask: opts.Input, Inputs: file.Inputs(),
		Home: opts.home(), Workspace: opts.workspace(dir), Raw: opts.Raw,
	}
	d := decode.New(p, dir)
	d.Expand, d.Instead = vars.Expand, instead
	decode.Defaults(&c.Toolgate)
	d.Decode(section, &c.Toolgate, "")
	natives := nativeServers(&c.Toolgate.Native, section.Get("native"))
	checkNative(p, section, &c.Toolgate, natives, entries)
	named := slices.Clone(keys)
	for i := range natives {
		named = append(named, natives[i].Key)
	}
	c.Files = append(c.Files, readToolFiles(d, section, &c.Toolgate)...)
	checkToolgate(p, section, &c.Toolgate, named) // with what those files declare
	c.Secrets = vars.Secrets()
	for _, k := range c.Toolgate.Keys {
		if k.File != "" {
			c.Files = append(c.Files, k.File)
		}
	}

	r := &clients.Reader{File: file, Dir: dir, Vars: vars}
	us := newSelf(opts.Self, c.Toolgate.Listen)
	for _, e := range entries {
		if kind := e.BuiltIn(); kind != "" {
			c.Skipped = append(c.Skipped, clients.Skipped{Key: e.Key, Line: e.Line, Reason: "it is a " + kind + " extension, part of its own client and no server"})
			continue
		}
		set, ok := c.Toolgate.Servers[e.Key]
		if !ok {
			decode.Defaults(&set)
		}
		read := r.Read(e)
		c.Warnings, c.Files = append(c.Warnings, read.Warnings...), append(c.Files, read.Files...)
		for field, o := range read.Origins {
			c.Origins["servers."+e.Key+"."+field] = o
		}
		s := joined(&read, &set)
		if reason := us.reason(s); reason != "" {
			c.Skipped = append(c.Skipped, clients.Skipped{Key: s.Key, Line: s.Line, Reason: reason})
			continue
		}
		if s.Refused != nil {
			// Half of a command line must not run, even by mistake.
			s.Command, s.Args, s.Env, s.EnvInherit, s.Cwd, s.URL, s.Headers, s.Secrets = "", nil, nil, nil, "", "", nil, nil
		}
		c.Servers = append(c.Servers, s)
	}
	for _, s := range natives {
		set, ok := c.Toolgate.Servers[s.Key]
		if !ok {
			decode.Defaults(&set)
		}
		c.Servers = append(c.Servers, withSettings(s, &set))
	}
	c.Skipped = append(c.Skipped, file.OtherProjects()...)
	checkNamespaces(p, c.Servers, section.Get("servers"))
	checkOffers(p, c.Servers, section.Get("servers"))
	checkTools(p, section, &c.Toolgate, c.Servers)
	maps.Copy(c.Origins, d.Origins)
	slices.SortFunc(c.Servers, func(a, b Server) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortStableFunc(c.Skipped, func(a, b clients.Skipped) int { return cmp.Compare(a.Line, b.Line) })
	slices.SortStableFunc(c.Warnings, func(a, b tree.Warning) int { return cmp.Compare(a.Line, b.Line) })
	return c
}

// checkTop catches a misspelt top-level key that would silently leave out
// everything: a section name, or "toolgate" itself.
func checkTop(p *tree.Problems, root *tree.Node, empty bool) {
	for _, f := range root.Fields {
		if f.Key != "toolgate" && tree.Distance(strings.ToLower(f.Key), "toolgate") <= 2 {
			p.AtField(f, f.Key, "write toolgate instead", "unknown key")
		}
	}
	if !empty || len(root.Fields) == 0 || root.Get("toolgate") != nil {
		return
	}
	for _, key := range [...]string{"servers", "mcp", "extensions", "projects"} {
		if root.Get(key).IsMap() || root.Get(key).IsList() {
			return
		}
	}
	f := root.Fields[0]
	hint := "add mcpServers: { name: { command: ... } }"
	for _, other := range root.Fields {
		if near := tree.Nearest(other.Key, []string{"mcpServers", "context_servers", "mcp_servers"}); near != "" {
			f, hint = other, "write "+near+" instead of "+other.Key
			break
		}
	}
	p.AtField(f, "", hint, "this file has no servers and no toolgate section")
}
