package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/declared"
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
	// With are further files whose servers join those of the file. Only the file itself
	// may have settings.
	With []Further
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
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, opts)
}

// Parse checks the contents of a file of the given name. The name decides the
// format and the client where the contents do not, and relative paths are
// relative to its folder. It opens no file but those of opts.With, and env files
// and files of tools that the contents name.
//
// A server that cannot be started as written is in the Config, refused. The
// error is for faults of the file as a whole.
func Parse(name string, data []byte, opts Options) (*Config, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, &tree.Error{File: name, Problem: "its folder cannot be found: " + err.Error(), Err: err}
	}
	p := &tree.Problems{File: name}
	root := readMap(p, data)
	if root == nil {
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
	c := &Config{Path: name, Origins: map[string]tree.Origin{}}
	if abs != "" {
		c.Files = []string{abs}
	}
	first := newSource(p, name, abs, root, opts)
	c.Client = first.file.Client
	all := append([]*source{first}, furtherSources(first, c, opts)...)
	var entries []clients.Entry
	for _, s := range all {
		entries = append(entries, s.entries...)
	}
	section, files := c.readSettings(first, entries, opts)
	c.readServers(all, newSelf(opts.Self, c.Toolgate.Listen))
	for _, s := range nativeServers(&c.Toolgate, section) {
		set, ok := c.Toolgate.Servers[s.Key]
		if !ok {
			decode.Defaults(&set)
		}
		c.Servers = append(c.Servers, withSettings(s, &set))
	}
	checkNamespaces(p, c.Servers, section.Get("servers"))
	checkOffers(p, c.Servers, section.Get("servers"))
	checkTools(p, section, &c.Toolgate, c.Servers, files)
	slices.SortFunc(c.Servers, func(a, b Server) int { return cmp.Compare(a.Key, b.Key) })
	sortByPlace(c.Skipped, all, func(s clients.Skipped) (string, int) { return s.File, s.Line })
	sortByPlace(c.Warnings, all, func(w tree.Warning) (string, int) { return w.File, w.Line })
	return c
}

// readSettings reads the toolgate section of the first file, with what variables and
// flags lay over it, and returns it, with the places of the tools of further files. entries
// are the servers of all files.
func (c *Config) readSettings(first *source, entries []clients.Entry, opts Options) (*tree.Node, []toolPlace) {
	p, vars := first.p, first.reader.Vars
	named := make([]string, 0, len(entries))
	for _, e := range entries {
		named = append(named, e.Key)
	}
	section, warnings := overlay(p, first.root.Get("toolgate"), slices.Concat(named, nativeKeys(first.root.Get("toolgate"))), opts.Environ, opts.Flags)
	c.Warnings = warnings
	section = declared.Specs(p, section)
	d := decode.New(p, first.reader.Dir)
	d.Expand, d.Instead = vars.Expand, instead
	decode.Defaults(&c.Toolgate)
	d.Decode(section, &c.Toolgate, "")
	natives := nativeServers(&c.Toolgate, section)
	checkNative(p, section, &c.Toolgate, natives, entries)
	for i := range natives {
		named = append(named, natives[i].Key)
	}
	files, places := readToolFiles(d, section, &c.Toolgate)
	c.Files = append(c.Files, files...)
	checkToolgate(p, section, &c.Toolgate, named) // with what those files declare
	c.Secrets = vars.Secrets()
	for _, k := range c.Toolgate.Keys {
		if k.File != "" {
			c.Files = append(c.Files, k.File)
		}
	}
	maps.Copy(c.Origins, d.Origins)
	return section, places
}

// checkTop catches a misspelt top-level key that would silently leave out
// everything: a section name, or "toolgate" itself.
func checkTop(p *tree.Problems, root *tree.Node, empty bool) {
	if list := root.Get("tools"); list.IsList() {
		for i, item := range list.Items {
			if declared.IsDefinition(item) {
				problem, hint := declared.Instead(item)
				if server, ok := declared.ServerOf(item); ok && server.URL != "" {
					hint += "; toolgate import reads a file that is a list of such entries"
				}
				p.At(item, fmt.Sprintf("tools[%d]", i), hint, "%s", problem)
				empty = false // that is said already
			}
		}
	}
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
