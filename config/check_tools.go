package config

import (
	"fmt"
	"path/filepath"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/declared"
)

const (
	// maxToolFiles is how many files of tools a configuration may name.
	maxToolFiles = 100
	// MaxTools is how many tools may be declared, with those that agents register.
	MaxTools = 5000
)

// readToolFiles adds the tools of further files to those of the file itself and
// returns the absolute paths of the files, and where each of their tools is. Their
// relative paths are relative to them.
func readToolFiles(d *decode.Decoder, section *tree.Node, t *Toolgate) (files []string, places []toolPlace) {
	for i, path := range t.ToolFiles {
		at := section.Get("tool_files").Item(i)
		if i == maxToolFiles {
			d.At(at, "tool_files", "put several into one", "there are more than %d", maxToolFiles)
			return files, places
		}
		data, err := format.ReadFile(path)
		if err != nil {
			d.At(at, fmt.Sprintf("tool_files[%d]", i), "name an existing file", "it cannot be read: %v", err)
			continue
		}
		files = append(files, path)
		own := &tree.Problems{File: path}
		if root := format.Read(own, path, data); root != nil {
			root = declared.Specs(own, root)
			var file declared.File
			inner := decode.New(own, filepath.Dir(path))
			inner.Expand = d.Expand
			inner.Decode(root, &file, "tool_files")
			for j := range file.Tools {
				at := toolPlace{path, root.Get("tools").Item(j), fmt.Sprintf("tools[%d]", j)}
				file.Tools[j].Check(own, at.node, at.path)
				places = append(places, at)
			}
			t.Tools = append(t.Tools, file.Tools...)
		}
		d.Problems.List = append(d.Problems.List, own.List...)
	}
	return files, places
}

// toolPlace is where a tool is declared.
type toolPlace struct {
	file string
	node *tree.Node
	path string
}

// checkTools reports what declared tools have wrong together. files are the places of
// those of further files, which are the last ones.
func checkTools(p *tree.Problems, section *tree.Node, t *Toolgate, servers []Server, files []toolPlace) {
	own := len(t.Tools) - len(files)
	var places []toolPlace
	for i := range own {
		at := toolPlace{p.File, section.Get("tools").Item(i), fmt.Sprintf("tools[%d]", i)}
		if at.node != nil {
			t.Tools[i].Check(p, at.node, at.path)
		}
		places = append(places, at)
	}
	checkSteps(p, t, servers, append(places, files...))
	checkToolURLs(p, section.Get("tool_urls"), t.ToolURLs)
	at := section.Get("tools")
	if at == nil {
		at = section.Get("tool_files")
	}
	checkTogether(p, at, t, servers)
}

// checkTogether reports what tools have wrong beside each other and beside servers.
func checkTogether(p *tree.Problems, at *tree.Node, t *Toolgate, servers []Server) {
	seen := map[[2]string]bool{}
	if len(t.Tools) > MaxTools {
		p.At(at, "tools", "", "there are more than %d", MaxTools)
	}
	namespaces := map[string]bool{}
	for i := range t.Tools {
		tool := &t.Tools[i]
		key := [2]string{tool.Namespace, tool.Name}
		if seen[key] {
			p.At(at, "tools", "rename one", "there are two tools %s in the namespace %s", tool.Name, tool.Namespace)
		}
		seen[key], namespaces[tool.Namespace] = true, true
	}
	for i := range servers {
		if s := &servers[i]; namespaces[s.Namespace] || namespaces[s.Key] {
			p.At(at, "tools", "give the tools or the server another namespace", "the namespace of declared tools is that of the server %s", s.Key)
		}
	}
	if namespaces[reservedNamespace] {
		p.At(at, "tools", "write another one", "the namespace %s is the gateway's own", reservedNamespace)
	}
}
