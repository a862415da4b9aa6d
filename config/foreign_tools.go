package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/native/declared"
)

// maxToolURLs is how many addresses of tools a configuration may name.
const maxToolURLs = 100

// ParseTools reads a document of declared tools that is no file of this machine:
// one that a server answered, or one that is kept in a store. It is checked like a
// file of tool_files, and may neither name variables, which are secrets of this
// machine, nor paths that are relative to some folder. The name, such as an address,
// is for the errors, and decides the format where the contents do not.
func ParseTools(name string, data []byte) ([]declared.Settings, error) {
	p := &tree.Problems{File: name}
	root := format.Read(p, name, data)
	if root == nil {
		return nil, p.Err()
	}
	root = declared.Specs(p, root)
	var file declared.File
	d := decode.New(p, "")
	d.Expand = clients.RefuseVariables
	d.Decode(root, &file, "tool_files")
	for i := range file.Tools {
		at, path := root.Get("tools").Item(i), fmt.Sprintf("tools[%d]", i)
		file.Tools[i].Check(p, at, path)
		file.Tools[i].CheckForeign(p, at, path)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return file.Tools, nil
}

// CheckTools tells what further tools have wrong beside those of the configuration,
// its servers and each other.
func (c *Config) CheckTools(more []declared.Settings) error {
	p := &tree.Problems{}
	all := c.Toolgate
	all.Tools = slices.Concat(c.Toolgate.Tools, more)
	checkTogether(p, nil, &all, c.Servers)
	checkSteps(p, &all, c.Servers, make([]toolPlace, len(all.Tools)))
	return p.Err()
}

// checkToolURLs reports addresses that are written twice, or that anybody on the
// way could answer for.
func checkToolURLs(p *tree.Problems, n *tree.Node, list []declared.Address) {
	if len(list) > maxToolURLs {
		p.At(n, "tool_urls", "put several into one", "there are more than %d", maxToolURLs)
	}
	seen := map[string]int{}
	for i := range list {
		entry, path := n.Item(i), fmt.Sprintf("tool_urls[%d]", i)
		p.Unique(entry, path, "url", list[i].URL, seen)
		at, path := entry.Get("url"), path+".url"
		if strings.ContainsAny(list[i].URL, "{}#") {
			p.At(at, path, "write the address alone", "an address of tools has no places and no fragment")
		}
		if u, err := url.Parse(list[i].URL); err == nil && u.Scheme == "http" && list[i].SHA256 == "" && !loopback.Host(u.Hostname()) {
			p.At(at, path, "write https, or the sha256 of the document", "whoever is on the way could answer in its place")
		}
	}
}
