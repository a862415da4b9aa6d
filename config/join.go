package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
)

// MaxFiles is how many files one configuration may be made of.
const MaxFiles = 32

// Further is a file whose servers join those of another one.
type Further struct {
	// Path is the file as it is named.
	Path string
	// LookupEnv looks up the variables of this file; see [Options].
	LookupEnv func(name string) (value string, ok bool)
}

// Source is a file that was read: its path as it was named, and the SHA-256 of its text
// in hexadecimal.
type Source struct{ Path, Sum string }

// source is a file while its servers are read.
type source struct {
	p       *tree.Problems
	root    *tree.Node
	file    *clients.File
	entries []clients.Entry
	reader  *clients.Reader
}

// newSource finds the servers of a file. abs is its absolute path; empty where there is no
// file.
func newSource(p *tree.Problems, name, abs string, root *tree.Node, opts Options) *source {
	dir := ""
	if abs != "" {
		dir = filepath.Dir(abs)
	}
	s := &source{p: p, root: root, file: clients.Find(name, root)}
	checkTop(p, root, s.file.Empty())
	s.entries = s.file.Entries(p)
	s.reader = &clients.Reader{File: s.file, Dir: dir, Vars: &clients.Variables{
		Client: s.file.Client, Lookup: opts.LookupEnv, Secret: opts.LookupSecret, Ask: opts.Input, Inputs: s.file.Inputs(),
		Home: opts.home(), Workspace: opts.workspace(dir), Raw: opts.Raw,
	}}
	return s
}

// furtherSources reads the further files of a configuration. It adds their faults to those
// of the first file. A file that cannot be used is left out.
func furtherSources(first *source, c *Config, opts Options) []*source {
	var out []*source
	seen := map[string]bool{}
	if len(c.Files) > 0 {
		seen[real(c.Files[0])] = true
	}
	for i, f := range opts.With {
		p := &tree.Problems{File: f.Path}
		switch abs, err := filepath.Abs(f.Path); {
		case err != nil:
			p.At(nil, "", "", "its folder cannot be found: %v", err)
		case i+1 == MaxFiles:
			p.At(nil, "", "put several into one", "a configuration is made of at most %d files", MaxFiles)
			first.p.List = append(first.p.List, p.List...)
			return out
		case seen[real(abs)]:
			p.At(nil, "", "name each file once", "the file is named twice")
		default:
			seen[real(abs)] = true
			o := opts
			o.LookupEnv = f.LookupEnv
			if s := furtherSource(p, abs, c, o, first); s != nil {
				out = append(out, s)
			}
		}
		first.p.List = append(first.p.List, p.List...)
	}
	return out
}

func furtherSource(p *tree.Problems, abs string, c *Config, opts Options, first *source) *source {
	c.Files = append(c.Files, abs)
	data, err := readFile(p.File)
	if err != nil {
		p.List = append(p.List, err)
		return nil
	}
	c.With = append(c.With, Source{p.File, Sum(data)})
	root := readMap(p, data)
	if root == nil {
		return nil
	}
	for _, f := range root.Fields {
		if f.Key != "toolgate" {
			continue
		}
		if own := first.root.Get("toolgate"); own != nil {
			p.AtField(f, "toolgate", "move these settings there", "only the first file may have settings, and %s:%d has some", first.p.File, own.Line)
		} else {
			p.AtField(f, "toolgate", "name this file first, as in `toolgate up "+p.File+" "+first.p.File+"`", "only the first file may have settings")
		}
	}
	return newSource(p, p.File, abs, root, opts)
}

// real is a path without links, or as it is where that cannot be told.
func real(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// readFile reads the text of a configuration.
func readFile(path string) ([]byte, *tree.Error) {
	data, err := format.ReadFile(path)
	if err == nil {
		return data, nil
	}
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

// readMap reads a document that has to be a map; nil if it is none.
func readMap(p *tree.Problems, data []byte) *tree.Node {
	root := format.Read(p, p.File, data)
	if root != nil && root.Kind != tree.KindMap {
		p.At(root, "", "begin with mcpServers: or toolgate:", "the document is %s, not a map", root.Kind)
		return nil
	}
	return root
}

// readServers reads the servers of all files. What the first file says twice, or two files
// say differently about one name, is a fault.
func (c *Config) readServers(all []*source, us self) {
	first := map[string]*clients.Server{}
	for _, s := range all {
		p := &tree.Problems{File: s.p.File}
		for _, e := range s.entries {
			if kind := e.BuiltIn(); kind != "" {
				c.Skipped = append(c.Skipped, clients.Skipped{File: e.Source, Key: e.Key, Line: e.Line, Reason: "it is a " + kind + " extension, part of its own client and no server"})
				continue
			}
			read := s.reader.Read(e)
			if other := first[e.Key]; other != nil {
				if !sameServer(other, &read) {
					p.At(&tree.Node{Line: e.Line, Column: 1}, e.Path, "rename or remove one of the two", "%s:%d has another server named %q", other.Source, other.Line, e.Key)
				}
				continue
			}
			first[e.Key] = &read
			c.take(&read, us)
		}
		all[0].p.List = append(all[0].p.List, p.List...)
		c.Skipped = append(c.Skipped, s.file.OtherProjects()...)
	}
	if len(first) > clients.MaxServers && len(all) > 1 {
		all[0].p.At(nil, "", "", "the files have more than %d servers", clients.MaxServers)
	}
}

// take adds a server of a file.
func (c *Config) take(read *clients.Server, us self) {
	set, ok := c.Toolgate.Servers[read.Key]
	if !ok {
		decode.Defaults(&set)
	}
	c.Warnings, c.Files = append(c.Warnings, read.Warnings...), append(c.Files, read.Files...)
	for field, o := range read.Origins {
		c.Origins["servers."+read.Key+"."+field] = o
	}
	s := joined(read, &set)
	if reason := us.reason(s); reason != "" {
		c.Skipped = append(c.Skipped, clients.Skipped{File: s.File, Key: s.Key, Line: s.Line, Reason: reason})
		return
	}
	if s.Refused != nil {
		// Half of a command line must not run, even by mistake.
		s.Command, s.Args, s.Env, s.EnvInherit, s.Cwd, s.URL, s.Headers, s.Secrets = "", nil, nil, nil, "", "", nil, nil
	}
	c.Servers = append(c.Servers, s)
}

// sameServer tells whether two files mean the same by a name. Where a server cannot be
// started, that is known of equal texts alone.
func sameServer(a, b *clients.Server) bool {
	if len(a.Refused.List)+len(b.Refused.List) > 0 {
		one, err := a.Node.JSON()
		two, err2 := b.Node.JSON()
		return err == nil && err2 == nil && string(one) == string(two)
	}
	meaning := func(s clients.Server) clients.Server {
		s.Entry, s.Written, s.Refused = clients.Entry{}, clients.Written{}, tree.Problems{}
		s.Warnings, s.Files, s.Origins, s.Secrets = nil, nil, nil, nil
		return s
	}
	return reflect.DeepEqual(meaning(*a), meaning(*b))
}

// sortByPlace orders what is known about files: by file as they were named, then by line.
func sortByPlace[T any](list []T, files []*source, place func(T) (file string, line int)) {
	order := map[string]int{}
	for i, s := range files {
		order[s.p.File] = i
	}
	slices.SortStableFunc(list, func(a, b T) int {
		fileA, lineA := place(a)
		fileB, lineB := place(b)
		return cmp.Or(cmp.Compare(order[fileA], order[fileB]), cmp.Compare(lineA, lineB))
	})
}

// placeIn names the place of something for a message about a file.
func placeIn(here, file string, line int) string {
	if file == "" || file == here {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("%s:%d", file, line)
}
